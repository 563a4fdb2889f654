"""What `rankloop.evaluate` says about a fit on the queries that it held out, to be stored with the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from rankloop.offline.comparison import Comparison
    from rankloop.offline.intervals import ValueInterval


class ReportedEstimate(NamedTuple):
    """An estimate with its 90 % interval over queries."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, interval: ValueInterval) -> Self:
        """The interval that is reported."""
        return cls(float(interval.value), float(interval.low), float(interval.high))


@dataclass(frozen=True)
class HeldOutEstimate:
    """The values of a fit and of a policy of the log on held-out queries, as `rankloop.evaluate` gives them.

    Attributes:
        measure: what is estimated, per impression: ``dcg@5``.
        against: the policy of the log that the fit is compared with: the last one that logged.
        new: the value of documents sorted by the fitted model.
        old: the value of the policy of the log.
        gain: new − old.
        verdict: the kind of the verdict.
        text: the verdict in a sentence.
        queries: the number of held-out queries.
        impressions: the number of their impressions.
        worth: what guesses of relevance add to them, in a sentence; empty if there are none.
    """

    measure: str
    against: str
    new: ReportedEstimate
    old: ReportedEstimate
    gain: ReportedEstimate
    verdict: str
    text: str
    queries: int
    impressions: int
    worth: str = ""

    @classmethod
    def of(cls, found: Comparison) -> Self:
        """Summarise a comparison."""
        return cls(
            measure=found.measure,
            against=found.against.name,
            new=ReportedEstimate.of(found.new.estimate),
            old=ReportedEstimate.of(found.against.estimate),
            gain=ReportedEstimate.of(found.difference.estimate),
            verdict=str(found.verdict.kind),
            text=found.verdict.text,
            queries=found.queries,
            impressions=found.impressions,
            worth=found.control.sentence(found.impressions),
        )

    @classmethod
    def from_dict(cls, content: dict[str, object]) -> Self:
        """Read what `dataclasses.asdict` gives, after JSON."""
        estimates = {name: ReportedEstimate(*content[name]) for name in ("new", "old", "gain")}  # type: ignore[misc]
        return cls(**{**content, **estimates})  # type: ignore[arg-type]
