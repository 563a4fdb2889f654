"""Two policies compared by the clicks of a log: the result of `evaluate`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from rankloop.estimators import InterventionAware
from rankloop.notebook import NotebookResult
from rankloop.offline.bias_resamples import BiasSpread
from rankloop.offline.control_variate import ControlVariate, SupportBounds
from rankloop.offline.intervals import ImpressionSample, ValueInterval
from rankloop.offline.policy_rankings import PolicyRanking
from rankloop.offline.verdict import ROUNDING, Verdict, VerdictEvidence, conclude

# The estimators of the values: unbiased however traffic changes, and displays add no noise to them.
ESTIMATOR = InterventionAware(clip="off", average="query", control="mean")
GUIDED_ESTIMATOR = InterventionAware(clip="off", average="query", control="model")
# Guesses that change what impressions are worth by a smaller share are not worth a sentence.
LITTLE_WORTH = 0.005


@dataclass(frozen=True)
class ControlReport:
    """What guessed the relevance of documents before their clicks, and what that is worth.

    Attributes:
        name: what guesses; ``mean relevance`` if all documents are assumed to be average.
        worth: with the mean relevance, so many times the impressions would give an interval of the difference
            that is as narrow as this one.
        gain: how much more likely than by the mean relevance the guesses make clicks that they did not see,
            in nats per display; None for the mean relevance.
    """

    name: str = "mean relevance"
    worth: float = 1.0
    gain: float | None = None

    def sentence(self, impressions: int) -> str:
        """What the guesses are worth, for a report; empty if it is nothing.

        >>> ControlReport("trees on features", 1.5, 0.01).sentence(1_000)
        'Relevance guessed by trees on features makes these 1,000 impressions worth about 1,500.'
        """
        if self.gain is None or abs(self.worth - 1.0) < LITTLE_WORTH:
            return ""
        return (
            f"Relevance guessed by {self.name} makes these {impressions:,} impressions worth about "
            f"{round(self.worth * impressions):,}."
        )


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
class Comparison(NotebookResult):
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
        evidence: what a firm verdict needs.
        alike: whether both policies rank alike, up to rounding.
        control: what guessed the relevance of documents before their clicks.
    """

    document: ClassVar[str] = "rankloop.reports.evaluation:evaluation_document"
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
    evidence: VerdictEvidence
    alike: bool = False
    control: ControlReport = ControlReport()

    @property
    def verdict(self) -> Verdict:
        """The conclusion; see `rankloop.offline.verdict.conclude`."""
        return conclude(self)

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
    evidence: VerdictEvidence,
    notes: tuple[str, ...] = (),
    seed: int = 0,
    spread: BiasSpread | None = None,
    control: ControlReport | None = None,
) -> Comparison:
    """Compare two policies from sums over impressions, wherever these come from."""
    of_new, of_other, gain = impressions.intervals(np.random.default_rng(seed), spread)
    effective, bounds = impressions.effective(), variate.bounds(rankings)
    alike = rank_alike(rankings, variate)
    difference = Difference(gain, gain.low + bounds.worst, gain.high + bounds.best)
    if alike:
        difference = Difference(ValueInterval(*(0.0,) * len(gain)), 0.0, 0.0)
    return Comparison(
        measure=measure,
        new=_policy_estimate(rankings[0], of_new, effective[0], bounds, 0),
        against=_policy_estimate(rankings[1], of_other, effective[1], bounds, 1),
        difference=difference,
        impressions=impressions.total,
        queries=int((impressions.times > 0).sum()),
        guess=variate.guess,
        support=variate.support,
        estimator=str(ESTIMATOR if variate.item_guesses is None else GUIDED_ESTIMATOR),
        notes=notes,
        evidence=evidence,
        alike=alike,
        control=control or ControlReport(),
    )


def rank_alike(rankings: tuple[PolicyRanking, PolicyRanking], variate: ControlVariate) -> bool:
    """Whether two policies rank the used queries alike: their λ differ by no more than rounding."""
    used = variate.frequencies > 0.0
    items = np.repeat(used, np.diff(variate.offsets))
    first, second = rankings
    # Documents that are not in the log may be different ones for each policy.
    strangers = max(float(np.abs(part.elsewhere[used]).max(initial=0.0)) for part in rankings)
    largest = max(float(np.abs(part.weights[items]).max(initial=0.0)) for part in rankings)
    differences = (
        np.abs(first.weights - second.weights)[items].max(initial=0.0),
        np.abs(first.always - second.always)[used].max(initial=0.0),
        strangers,
    )
    return bool(max(differences) <= ROUNDING * max(largest, ROUNDING))


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
