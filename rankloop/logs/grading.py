"""What displays are worth: the amounts of a log, as shares of the highest one, in place of clicks.

With ``w`` the highest amount of the log and ``S`` the amount of a display, the share ``S/w`` takes the place
of the click:

    E[S/w | d, k] = α_k · G_d + β_k · v

``G_d`` is the share of w that a user gains from document d once it is examined, α and β are those of clicks,
and v is the mean share that a click is worth. Two assumptions: what a click on a document is worth does not
depend on its rank, and clicks that have nothing to do with relevance (β) are worth as much as the mean click.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import ibis
import numpy as np
import pyarrow as pa
from ibis import _

from rankloop.errors import DataError
from rankloop.logs.counter import as_text
from rankloop.logs.engines import Engine, Expression
from rankloop.logs.folder import LogFolder
from rankloop.logs.log_statistics import LogStatistics
from rankloop.logs.schema import IMPRESSIONS, QUERY_DOCUMENT
from rankloop.logs.writer import AMOUNT
from rankloop.statistics.counts import Counts
from rankloop.types import Bias, Float64

if TYPE_CHECKING:
    from rankloop.logs.reader import LogReader

TARGETS = ("auto", "clicks", "amount")


@dataclass(frozen=True)
class Grading:
    """What displays are worth.

    Attributes:
        unit: w, the highest amount of the log; 1 for clicks.
        per_click: v, the mean share of w that a click is worth; 1 for clicks.
        graded: whether displays are worth their amount, rather than their clicks.
        effective: how many equal amounts would be as noisy as those of the log: (Σ S)² / Σ S²; 0 for clicks.
    """

    unit: float = 1.0
    per_click: float = 1.0
    graded: bool = False
    effective: float = 0.0

    @property
    def target(self) -> str:
        """``clicks`` or ``amount``."""
        return "amount" if self.graded else "clicks"

    @property
    def notes(self) -> tuple[str, ...]:
        """What every report must state; empty for clicks."""
        if not self.graded:
            return ()
        return (
            f"The target is the amount of the log: up to {self.unit:g} per display, "
            f"{self.unit * self.per_click:.3g} per click on average. The bias is that of clicks, and it is "
            f"assumed that what a click on a document is worth does not depend on its position.",
        )

    def bias(self, bias: Bias) -> Bias:
        """How displays gain their worth, given how users click."""
        return bias.for_amounts(self.per_click) if self.graded else bias

    def statistics(self, log: LogReader, bias: Bias) -> LogStatistics:
        """The statistics of a log for a bias of this grading, with worth in place of clicks."""
        found = log.statistics(bias)
        if not self.graded:
            return found
        counts = log.count(bias.positions)
        with log.open_engine() as running:
            cells = _amounts_by_cell(running, log, counts, self.unit)
        policies = {
            policy: replace(part, clicks=cells[counts.policy_ids.index(policy)].sum(axis=1))
            for policy, part in found.statistics.policies.items()
        }
        statistics = replace(found.statistics, policies=policies, clicks_by_position=cells.sum(axis=0))
        return replace(found, statistics=statistics)


CLICKS = Grading()
# A click as a number: PostgreSQL does not cast what is true or false, and Spark takes 1.0 for a decimal.
CLICKED = _.clicked.ifelse(1, 0).cast("float64")


def find_grading(engine: Engine, log: LogFolder, target: str) -> Grading:
    """Find out what displays are worth.

    Args:
        engine: the engine that runs the expressions.
        log: the log.
        target: ``clicks``, ``amount``, or ``auto`` for the amount of logs that have one.
    """
    rows = engine.table(log.files(IMPRESSIONS))
    if target == "clicks" or (target == "auto" and AMOUNT not in rows.columns):
        return CLICKS
    if AMOUNT not in rows.columns:
        raise DataError(
            f"{log.source(IMPRESSIONS)}: the log has no column {AMOUNT}: import it with weights, as in "
            f"--amount purchase=5, or choose clicks as the target"
        )
    amount = rows.select(amount=_amount(), clicked=CLICKED)
    sums = amount.agg(
        low=_.amount.min(),
        high=_.amount.max(),
        total=_.amount.sum(),
        squares=(_.amount * _.amount).sum(),
        clicks=_.clicked.sum(),
        other=_.count(where=_.amount != _.clicked),
    )
    row = next(row for batch in engine.batches(sums) for row in batch.to_pylist())
    low, high, total, squares, clicks, other = (float(row[name] or 0.0) for name in sums.columns)
    if low < 0.0 or not np.isfinite(high):
        raise DataError(
            f"{log.source(IMPRESSIONS)}: amounts are finite numbers from 0 on, got {low:g} and {high:g}"
        )
    # Amounts that say the same as clicks come from imports that gave no weights to actions.
    if high == 0.0 or clicks == 0.0 or other == 0.0:
        return CLICKS
    return Grading(high, min(1.0, total / (high * clicks)), graded=True, effective=total**2 / squares)


def share_of(grading: Grading) -> Expression:
    """What a display is worth, as an expression on rows of impressions: its click, or a share of the unit."""
    return _amount() / grading.unit if grading.graded else CLICKED


def _amount() -> Expression:
    return ibis.coalesce(_[AMOUNT].cast("float64"), CLICKED)


def _amounts_by_cell(engine: Engine, log: LogFolder, counts: Counts, unit: float) -> Float64:
    """Sums of amounts, policies × documents × ranks."""
    queries = np.repeat(counts.query_ids, np.diff(counts.offsets))
    names = dict(zip(QUERY_DOCUMENT, (queries, counts.doc_ids), strict=True))
    columns = {name: pa.array(values.tolist(), pa.string()) for name, values in names.items()}
    documents = engine.given(pa.table({**columns, "document": np.arange(counts.n_documents, dtype=np.int64)}))
    sums = (
        engine.table(log.files(IMPRESSIONS))
        .filter(_.position <= counts.positions)
        .mutate(amount=_amount() / unit)
        .select("position", "amount", **as_text("policy_id", *QUERY_DOCUMENT))
        .join(documents, QUERY_DOCUMENT)
        .group_by("policy_id", "document", "position")
        .agg(amount=_.amount.sum())
    )
    result = np.zeros((len(counts.policy_ids), counts.n_documents, counts.positions))
    numbers = {policy: number for number, policy in enumerate(counts.policy_ids)}
    for batch in engine.batches(sums):
        policies = [numbers[policy] for policy in batch.column("policy_id").to_pylist()]
        ranks = batch.column("position").to_numpy(zero_copy_only=False).astype(np.int64) - 1
        result[policies, batch.column("document").to_numpy(), ranks] = batch.column("amount").to_numpy()
    return result
