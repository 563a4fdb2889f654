"""Two policies compared by the clicks of a log: the result of `evaluate`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from rankloop.estimators import InterventionAware
from rankloop.offline.control_variate import ControlVariate, SupportBounds
from rankloop.offline.intervals import ImpressionSample, ValueInterval
from rankloop.offline.policy_rankings import PolicyRanking

# The estimator of the values: unbiased however traffic changes, and displays add no noise to it.
ESTIMATOR = InterventionAware(clip="off", average="query", control="mean")

# Needing more than this many times the log counts as undecidable.
MOST_LOGS = 100.0

Kind = Literal["better", "worse", "undecided"]


@dataclass(frozen=True)
class PolicyEstimate:
    """The value of one policy, as the log's clicks estimate it.

    Attributes:
        name: the policy.
        ranking: ``sorted`` by score, ``drawn`` from scores, or ``as displayed``.
        estimate: the value of its rankings per query.
        effective: the effective sample size, in impressions of the policy itself.
        outside: the share of what it shows about which the log has no information.
        if_nothing: the estimate if all of that were irrelevant.
        if_everything: the estimate if all of that were relevant.
    """

    name: str
    ranking: str
    estimate: ValueInterval
    effective: float
    outside: float
    if_nothing: float
    if_everything: float


@dataclass(frozen=True)
class Difference:
    """The new policy minus the policy that it is compared with.

    Attributes:
        estimate: the difference.
        lowest: the lower end of its interval in the worst case for documents without information in the log.
        highest: the upper end of its interval in the best case for them.
    """

    estimate: ValueInterval
    lowest: float
    highest: float


@dataclass(frozen=True)
class Verdict:
    """The conclusion of a comparison, and why.

    Attributes:
        kind: ``better``, ``worse`` or ``undecided``.
        more: about how many more impressions are needed; None if more would not help, or too many are needed.
        text: the same as a sentence.
    """

    kind: Kind
    more: int | None
    text: str


@dataclass(frozen=True)
class Comparison:
    """A new policy and the policy it is compared with, by the clicks of a log.

    Attributes:
        measure: what is estimated, per query: ``dcg@5``, ``clicks``.
        new: the new policy.
        against: the policy it is compared with.
        difference: new − against.
        impressions: the number of impressions used.
        queries: the number of different queries among them.
        guess: the relevance that is assumed for every document before its clicks.
        support: the smallest expected α of a document whose clicks are used.
        estimator: the name of the estimator.
        notes: caveats that every report must state.
    """

    measure: str
    new: PolicyEstimate
    against: PolicyEstimate
    difference: Difference
    impressions: int
    queries: int
    guess: float
    support: float
    estimator: str
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """Better, worse, or how many more impressions are needed.

        Better (or worse) if the whole 90 % interval of the difference is above (or below) 0, even in the
        worst (or best) case for documents about which the log has no information. Otherwise, as the width of
        intervals is proportional to 1/√T,

            T' = T · (half width / |difference|)²

        impressions would give an interval that ends at 0, and ``T' − T`` more are needed.
        """
        estimate, difference = self.difference.estimate, self.difference
        for kind, sure, likely in (
            ("better", difference.lowest > 0.0, estimate.low > 0.0),
            ("worse", difference.highest < 0.0, estimate.high < 0.0),
        ):
            if sure:
                return Verdict(kind, 0, f"{self.new.name} is {kind} than {self.against.name}.")  # type: ignore[arg-type]
            if likely:
                return Verdict("undecided", None, self._unseen(kind))
        if estimate.error == 0.0:
            return Verdict("undecided", None, "Both policies rank alike: there is no difference to find.")
        half = (estimate.high - estimate.low) / 2.0
        logs = (half / abs(estimate.value)) ** 2 if estimate.value else math.inf
        if logs > MOST_LOGS:
            text = (
                f"Undecided: the difference is too small to tell; more than {MOST_LOGS:.0f} times these "
                f"{self.impressions:,} impressions would be needed."
            )
            return Verdict("undecided", None, text)
        more = _rounded(max(logs - 1.0, 0.0) * self.impressions)
        return Verdict("undecided", more, f"Undecided: about {more:,} more impressions are needed.")

    def _unseen(self, kind: str) -> str:
        return (
            f"Undecided: {self.new.name} is {kind} than {self.against.name} if the documents about which the "
            f"log has no information are like the others; they are {self.new.outside:.1%} of what it shows "
            f"(and {self.against.outside:.1%} of what the other shows). Deploy a policy that shows them."
        )

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary for JSON."""
        found = asdict(self)
        for part in ("new", "against", "difference"):
            found[part]["estimate"] = getattr(self, part).estimate._asdict()
        return {**found, "notes": list(self.notes), "verdict": asdict(self.verdict)}


def compare(
    rankings: tuple[PolicyRanking, PolicyRanking],
    variate: ControlVariate,
    impressions: ImpressionSample,
    *,
    measure: str,
    notes: tuple[str, ...] = (),
    seed: int = 0,
) -> Comparison:
    """Compare two policies from sums over impressions, wherever these come from."""
    of_new, of_other, gain = impressions.intervals(np.random.default_rng(seed))
    effective, bounds = impressions.effective(), variate.bounds(rankings)
    return Comparison(
        measure=measure,
        new=_policy_estimate(rankings[0], of_new, effective[0], bounds, 0),
        against=_policy_estimate(rankings[1], of_other, effective[1], bounds, 1),
        difference=Difference(gain, gain.low + bounds.worst, gain.high + bounds.best),
        impressions=impressions.total,
        queries=int((impressions.times > 0).sum()),
        guess=variate.guess,
        support=variate.support,
        estimator=str(ESTIMATOR),
        notes=notes,
    )


def _policy_estimate(
    ranking: PolicyRanking, estimate: ValueInterval, effective: float, bounds: SupportBounds, at: int
) -> PolicyEstimate:
    return PolicyEstimate(
        name=ranking.name,
        ranking=ranking.ranking,
        estimate=estimate,
        effective=effective,
        outside=float(bounds.shares[at]),
        if_nothing=float(estimate.value + bounds.nothing[at]),
        if_everything=float(estimate.value + bounds.everything[at]),
    )


def _rounded(count: float) -> int:
    """Rounded up to two significant digits: the others are not known.

    >>> _rounded(12_345.0), _rounded(7.2), _rounded(0.0)
    (13000, 8, 0)
    """
    if count < 1.0:
        return math.ceil(count)
    unit = 10.0 ** max(math.floor(math.log10(count)) - 1, 0)
    return int(math.ceil(count / unit) * unit)
