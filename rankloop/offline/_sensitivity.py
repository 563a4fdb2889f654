"""How a comparison of two policies changes with the bias that is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankloop.bias import BiasEstimate, named_bias, plausible_curves
from rankloop.logs import LogReader
from rankloop.offline._evaluate import DEFAULTS, EvaluationOptions, evaluate
from rankloop.offline.comparison import Comparison
from rankloop.offline.fit_result import QueryChoice
from rankloop.offline.policy_rankings import Policy
from rankloop.progress import Progress, report
from rankloop.storage.plain import to_plain
from rankloop.types import Bias
from rankloop.value.valuation import DEFAULT_METRIC

# A table of curves goes down to this rank, unless the biases are given.
DEEPEST_POSITION = 10


@dataclass(frozen=True)
class SensitivityRow:
    """The comparison under one bias.

    Attributes:
        name: the bias.
        last_rank: examination of the last rank, relative to rank 1.
        comparison: the comparison of the two policies under this bias.
    """

    name: str
    last_rank: float
    comparison: Comparison

    @property
    def relative(self) -> float:
        """The difference of the values relative to the value of the policy that is compared against.

        Values under two biases have different units. Relative differences can be compared. NaN if the other
        policy is worth nothing, or less, under this bias: the bias does not fit the log.
        """
        value = self.comparison.against.estimate.value
        return self.comparison.difference.estimate.value / value if value > 0 else float("nan")


@dataclass(frozen=True)
class Sensitivity:
    """One comparison of two policies under several biases.

    Attributes:
        rows: one row per bias.
    """

    rows: tuple[SensitivityRow, ...]

    @property
    def kinds(self) -> tuple[str, ...]:
        """The different decisions, in the order of the rows."""
        return tuple(dict.fromkeys(row.comparison.decision.kind for row in self.rows))

    @property
    def text(self) -> str:
        """The result as one sentence."""
        number = len(self.rows)
        if len(self.kinds) == 1:
            return f"The decision is the same under all {number} biases: {self.kinds[0]}."
        return (
            f"The decision depends on the bias: {' or '.join(self.kinds)} under {number} plausible ones, so "
            f"it must not be relied on before the bias is estimated."
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        content: dict[str, Any] = to_plain(
            {
                "text": self.text,
                "rows": [
                    {
                        "bias": row.name,
                        "last_rank": row.last_rank,
                        "difference": row.comparison.difference.estimate.value,
                        "low": row.comparison.difference.estimate.low,
                        "high": row.comparison.difference.estimate.high,
                        "relative": row.relative,
                        "decision": row.comparison.decision.kind,
                    }
                    for row in self.rows
                ],
            }
        )
        return content


def sensitivity(
    log: LogReader,
    policy: Policy,
    against: Policy,
    biases: Sequence[str | Bias | BiasEstimate] | None = None,
    *,
    metric: str = DEFAULT_METRIC,
    queries: QueryChoice = None,
    options: EvaluationOptions = DEFAULTS,
    progress: Progress | None = None,
) -> Sensitivity:
    """Compare two policies under each of several biases.

    Args:
        log: the log, as `rankloop.open_log` opens it.
        policy: the new policy; see `rankloop.evaluate`.
        against: the policy to compare with.
        biases: names of curves such as ``position@10(eta=1)``, biases, or estimates. None for a plausible
            range of curves with the ranks of the log, at most 10.
        metric: see `rankloop.evaluate`.
        queries: see `rankloop.evaluate`.
        options: see `rankloop.evaluate`.
        progress: receives the task ``sensitivity``.

    Reference: docs/bias.md.
    """
    if biases is None:
        biases = plausible_curves(min(log.count().positions, DEEPEST_POSITION))
    rows = []
    for number, source in enumerate(biases):
        name, bias = _named(source, number)
        report(progress, "sensitivity", number / len(biases), name)
        found = evaluate(log, policy, against, bias=bias, metric=metric, queries=queries, options=options)
        rows.append(SensitivityRow(name, float(bias.examination[-1]), found))
    report(progress, "sensitivity", 1.0)
    return Sensitivity(tuple(rows))


def _named(source: str | Bias | BiasEstimate, number: int) -> tuple[str, Bias]:
    if isinstance(source, str):
        return source, named_bias(source)
    if isinstance(source, BiasEstimate):
        return f"estimated from {source.method}" if source.is_estimated else "assumed", source.bias
    return f"bias {number + 1}", source
