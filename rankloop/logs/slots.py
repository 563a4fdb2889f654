"""The slots of impressions: which positions have a row, where these are not simply 1, 2, 3 and so on.

A position without a row (an advertisement, a row that was not seen, a row that the import removed) does not
belong to the ranker. The positions that have rows are the impression's slots: every policy would fill the
same slots of that impression, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ibis import _
from numpy.typing import NDArray

from rankloop.logs.counter import as_text
from rankloop.logs.counts import LogCounts
from rankloop.logs.engines import Engine, Expression
from rankloop.logs.folder import LogFolder
from rankloop.logs.schema import IMPRESSIONS
from rankloop.ragged import segment_sum
from rankloop.types import Float64, Int64

if TYPE_CHECKING:
    from collections.abc import Sequence

IMPRESSION = ("impression_id", "policy_id", "query_id")
# What identifies a cell of `Slots`.
CELL = ("policy_id", "query_id", "slot", "position")


class GapSummary(NamedTuple):
    """How many impressions have gaps; an impression may have both a leading and an inner one.

    Attributes:
        impressions: the number of impressions.
        gapped: impressions with a leading or an inner gap.
        leading: impressions whose first row is below position 1.
        inner: impressions that leave out a position between two of their rows.
        short: impressions with fewer rows than the longest one of their query under the same policy.
    """

    impressions: int
    gapped: int
    leading: int
    inner: int
    short: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What every report must state about gaps; empty if there are none."""
        if not self.gapped:
            return ()
        return (
            f"{self.gapped:,} of {self.impressions:,} impressions have positions without a row "
            f"({self.leading:,} before their first row, {self.inner:,} between two rows). These positions "
            f"count as slots that are not the ranker's: every policy fills the remaining slots of the same "
            f"impression in order.",
        )


@dataclass(frozen=True, eq=False)
class Slots:
    """Which positions the impressions with gaps fill; the arrays have one entry per cell.

    Attributes:
        summary: how many impressions have gaps.
        policy: int64, cells; the number of the policy.
        query: int64, cells; the number of the query.
        slot: int64, cells; the number of the slot in its impression, from 0.
        position: int64, cells; its position, from 0.
        times: int64, cells; in how many impressions with gaps the slot has the position.
    """

    summary: GapSummary
    policy: Int64
    query: Int64
    slot: Int64
    position: Int64
    times: Int64

    def displaced(self, shape: tuple[int, ...], ranks: int) -> NDArray[np.bool_]:
        """Whether any of the first slots is not at its own rank, in an array of policies × queries."""
        result = np.zeros(shape, np.bool_)
        moved = (self.slot < ranks) & (self.slot != self.position)
        result[self.policy[moved], self.query[moved]] = True
        return result

    def filled(self, counts: LogCounts, policy: int) -> Float64:
        """The share of a policy's impressions that have a first, second … slot: queries × ranks.

        1 where the policy never served the query. Only for queries without gaps: the share of impressions
        with a row at each rank.
        """
        came = counts.query_counts[policy]
        rows = segment_sum(counts.displays_of(policy), counts.offsets)
        return np.where(came[:, None] > 0, rows / np.maximum(came, 1)[:, None], 1.0)

    def rank_weights(self, counts: LogCounts, vectors: Float64) -> Float64 | None:
        """What the k-th document of a ranking is worth on each query, queries × vectors × ranks.

            θ_q[k] = 1/N_q Σ_i θ[slot_k(i)]

        over the impressions i of the query; 0 for impressions with fewer than k slots. Queries without
        impressions have θ itself. None if θ_q is θ for every query, as far as it has documents.

        Args:
            counts: the counts of the log, of at least as many ranks as the vectors have.
            vectors: float64, vectors × ranks; θ.
        """
        ranks = vectors.shape[1]
        rows = segment_sum(counts.displays_by_rank[:, :ranks], counts.offsets).astype(np.float64)
        rows = np.pad(rows, ((0, 0), (0, ranks - rows.shape[1])))
        came = counts.query_counts.sum(axis=0)
        sizes = np.diff(counts.offsets)
        expected = np.where(np.arange(ranks) < sizes[:, None], came[:, None], 0)
        inside = (self.slot < ranks) & (self.position < ranks)
        if not len(self.slot) and (rows >= expected).all():
            return None
        here = (self.query[inside], self.position[inside])
        np.subtract.at(rows, here, self.times[inside])
        result = rows[:, None, :] * vectors
        cells = self.times[inside] * vectors[:, self.position[inside]]
        for number in range(len(vectors)):
            np.add.at(result[:, number], (self.query[inside], self.slot[inside]), cells[number])
        return np.where(came[:, None, None] > 0, result / np.maximum(came, 1)[:, None, None], vectors)


def find_slots(log: LogFolder, engine: Engine, counts: LogCounts) -> Slots:
    """Find the impressions with gaps; those without are only counted."""
    rows = engine.table(log.files(IMPRESSIONS)).select(
        "impression_id", **as_text("policy_id", "query_id"), position=_.position.cast("int64")
    )
    impressions = engine.stored(
        rows.group_by(*IMPRESSION)
        .agg(shown=_.count(), first=_.position.min(), last=_.position.max())
        .mutate(leading=_.first > 1, inner=_.last - _.first + 1 > _.shown)
    )
    summary = _summary(engine, impressions)
    if not summary.gapped:
        nothing = np.zeros(0, np.int64)
        return Slots(summary, nothing, nothing, nothing, nothing, nothing)
    gapped = impressions.filter(_.leading | _.inner).select(*IMPRESSION)
    slot = ibis.row_number().over(group_by=list(IMPRESSION), order_by="position")
    cells = rows.join(gapped, IMPRESSION).mutate(slot=slot.cast("int64")).group_by(*CELL).agg(times=_.count())
    tables = [pa.Table.from_batches([batch]) for batch in engine.batches(cells)]
    # Engines return groups in any order, and sums of floating-point numbers depend on it.
    table = pa.concat_tables(tables).sort_by([(name, "ascending") for name in CELL])
    return Slots(
        summary,
        _numbers(table["policy_id"], counts.policy_ids),
        _numbers(table["query_id"], counts.query_ids.tolist()),
        table["slot"].to_numpy(),
        table["position"].to_numpy() - 1,
        table["times"].to_numpy(),
    )


def _summary(engine: Engine, impressions: Expression) -> GapSummary:
    longest = _.shown.max().over(ibis.window(group_by=["policy_id", "query_id"]))
    found = impressions.mutate(short=_.shown < longest).agg(
        impressions=_.count(),
        gapped=_.count(where=_.leading | _.inner),
        leading=_.count(where=_.leading),
        inner=_.count(where=_.inner),
        short=_.count(where=_.short),
    )
    (row,) = (row for batch in engine.batches(found) for row in batch.to_pylist())
    return GapSummary(**row)


def _numbers(values: pa.ChunkedArray, known: Sequence[str]) -> Int64:
    found = pc.index_in(values, value_set=pa.array(known, pa.string()))
    return np.asarray(found.combine_chunks().to_numpy(), dtype=np.int64)
