"""Two policies compared by the clicks of a log: the result of `evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankloop.estimators import InterventionAware
from rankloop.evidence.decision import (
    MOST_TIMES,
    ROUNDING,
    SUPPORT,
    Assumption,
    Decision,
    DecisionKind,
    Evidence,
    decide,
)
from rankloop.evidence.self_test import SelfTest
from rankloop.notebook import NotebookResult
from rankloop.relevance.judge import JudgeAgreement
from rankloop.statistics.intervals import CONFIDENCE
from rankloop.storage.plain import plain_fields
from rankloop.types import Int64, Str
from rankloop.value.uncertainty import BiasSpread, Moments, PeriodValues, QueryValues, UnitSums, ValueInterval
from rankloop.value.valuation import PolicyRanking, RankingPair, SupportBounds, Valuation

# The estimators of the values: unbiased however traffic changes, and displays add no noise to them.
ESTIMATOR = InterventionAware(clip="off", average="query", guess="mean")
GUIDED_ESTIMATOR = InterventionAware(clip="off", average="query", guess="model")
# Guesses that change what impressions are worth by a smaller share are not worth a sentence.
LITTLE_GAIN = 0.005
# How many documents of a query are shown as an example.
EXAMPLE_DEPTH = 5


@dataclass(frozen=True)
class GuessGain:
    """What guessed the relevance of documents before their clicks, and what that is worth.

    Attributes:
        name: what guesses; ``mean relevance`` if all documents are assumed to be average.
        factor: with the mean relevance, so many times the impressions would give an interval of the
            difference that is as narrow as this one.
        gain: how much more likely than by the mean relevance the guesses make clicks that they did not see,
            in nats per display; None for the mean relevance.
    """

    name: str = "mean relevance"
    factor: float = 1.0
    gain: float | None = None

    def sentence(self, impressions: int) -> str:
        """What the guesses are worth, for a report; empty if they are worth nothing.

        >>> GuessGain("trees on features", 1.5, 0.01).sentence(1_000)
        'Relevance guessed by trees on features makes these 1,000 impressions worth about 1,500.'
        """
        if self.gain is None or abs(self.factor - 1.0) < LITTLE_GAIN:
            return ""
        return (
            f"Relevance guessed by {self.name} makes these {impressions:,} impressions worth about "
            f"{round(self.factor * impressions):,}."
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
class RankingExample:
    """What both policies put first for one query.

    Attributes:
        query: its id.
        impressions: how often it came.
        before: the ids of the documents that the other policy ranks first, in its order.
        after: those of the new policy.
    """

    query: str
    impressions: int
    before: tuple[str, ...]
    after: tuple[str, ...]

    @classmethod
    def of(
        cls, policies: RankingPair, query_ids: Str, doc_ids: Str, offsets: Int64, impressions: Int64
    ) -> RankingExample | None:
        """The query that came most often, of those whose first documents differ; None if there is none.

        Policies that vary their rankings rank by the mean weight of a document's ranks.

        Args:
            policies: the new policy and the other one.
            query_ids: text, queries.
            doc_ids: text, documents.
            offsets: int64, queries + 1.
            impressions: int64, queries; how often each came.
        """
        for query in np.argsort(-impressions, kind="stable"):
            start, stop = offsets[query], offsets[query + 1]
            after, before = (_first_documents(policy, doc_ids, start, stop) for policy in policies)
            if impressions[query] and before and after and before != after:
                return cls(str(query_ids[query]), int(impressions[query]), before, after)
        return None


def _first_documents(policy: PolicyRanking, doc_ids: Str, start: int, stop: int) -> tuple[str, ...]:
    weights = policy.placed[start:stop, 0]
    first = np.argsort(-weights, kind="stable")[:EXAMPLE_DEPTH]
    return tuple(str(doc_ids[start + at]) for at in first if weights[at] > 0.0)


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
class SegmentComparison:
    """The same two policies on the impressions of one segment, such as one device.

    Attributes:
        value: the value of the column.
        impressions: the number of impressions used.
        queries: the number of different queries among them.
        new: the new policy.
        against: the policy it is compared with.
        difference: new − against. Intervals of all segments hold together with the confidence level of the
            comparison: each has a higher one.
        decision: what follows for this segment.
    """

    value: str
    impressions: int
    queries: int
    new: PolicyEstimate
    against: PolicyEstimate
    difference: Difference
    decision: Decision


@dataclass(frozen=True)
class Comparison(NotebookResult):
    """A new policy and the policy it is compared with, by the clicks of a log.

    Attributes:
        metric: what is estimated, per query: ``dcg@5``, ``clicks``.
        new: the new policy.
        against: the policy it is compared with.
        difference: new − against.
        impressions: the number of impressions used.
        queries: the number of different queries among them.
        guess: the relevance that is assumed for every document before its clicks.
        support: the smallest expected α of a document whose clicks are used.
        estimator: the name of the estimator.
        notes: caveats that every report must state.
        assumptions: what the values rest on; a decision is firm if all of it holds.
        alike: whether both policies rank alike, up to rounding.
        guesses: what guessed the relevance of documents before their clicks.
        self_test: what the clicks of the log say about the assumptions; None if no row can be tested.
        periods: within how many periods of time the policies are compared.
        units: what is independent in the interval: ``queries and users``, ``queries``; with one query
            ``users``, or else ``impressions``. Sessions take the place of users if only they are known.
        example: what both policies put first for a query; None if they put the same first everywhere.
        confidence: the confidence level of the intervals.
        segments: the same for each segment of the impressions, such as each device, if that was asked for.
        segmented_by: the column that divides impressions into segments; empty for none.
        judge: how far the judge of the judgments agrees with the users; None without judgments.
    """

    document: ClassVar[str] = "rankloop.reports.evaluation:evaluation_document"
    metric: str
    new: PolicyEstimate
    against: PolicyEstimate
    difference: Difference
    impressions: int
    queries: int
    guess: float
    support: float
    estimator: str
    notes: tuple[str, ...]
    assumptions: tuple[Assumption, ...]
    alike: bool = False
    guesses: GuessGain = GuessGain()
    self_test: SelfTest | None = None
    periods: int = 1
    units: str = "queries"
    example: RankingExample | None = None
    confidence: float = CONFIDENCE
    segments: tuple[SegmentComparison, ...] = ()
    segmented_by: str = ""
    judge: JudgeAgreement | None = None

    def __repr__(self) -> str:
        gain = self.difference.estimate
        numbers = f"{self.metric} {gain.value:+.4f} ({gain.low:+.4f} to {gain.high:+.4f})"
        return f"Comparison({self.new.name!r}, {self.against.name!r}: {self.decision.kind}, {numbers})"

    @property
    def decision(self) -> Decision:
        """Whether the new policy is better; see `rankloop.evidence.decide`."""
        difference, policies = self.difference, (self.new, self.against)
        evidence = Evidence(
            difference.estimate.value,
            (difference.estimate.low, difference.estimate.high),
            bounds=(difference.lowest, difference.highest),
            baseline=max(abs(policy.estimate.value) for policy in policies),
            alike=self.alike,
            impressions=self.impressions,
            variance=sum(policy.estimate.error**2 * policy.effective for policy in policies),
            assumptions=self.assumptions,
        )
        return decide(evidence, level=1.0 - self.confidence)

    @property
    def conclusion(self) -> str:
        """The decision in sentences: what, why, and what to do next."""
        return conclusion(self)

    def holds(self, assumption: str) -> bool:
        """Whether an assumption is known to hold, by its name."""
        return any(one.name == assumption and one.state == "held" for one in self.assumptions)

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary for JSON."""
        return {**plain_fields(self), "decision": {**plain_fields(self.decision), "text": self.conclusion}}


def compare(
    valuations: Sequence[Valuation],
    moments: Sequence[Moments],
    *,
    assumptions: tuple[Assumption, ...],
    notes: tuple[str, ...] = (),
    seed: int = 0,
    spread: BiasSpread | None = None,
    guesses: GuessGain | None = None,
    self_test: SelfTest | None = None,
    units: Sequence[UnitSums] | None = None,
    unit: str = "impression",
    example: RankingExample | None = None,
    confidence: float = CONFIDENCE,
    judge: JudgeAgreement | None = None,
) -> Comparison:
    """Compare two policies by their values per query, and by sums over impressions.

    Args:
        valuations: the two policies in each period of the log, on the same queries; one if clicks are pooled.
        moments: sums over the impressions of each period.
        assumptions: what the values rest on.
        notes: caveats that every report must state.
        seed: the random seed of the resamples.
        spread: what the uncertainty of the bias does to the values; None if it was assumed.
        guesses: what guessed the relevance of documents.
        self_test: what the clicks of the log say about the assumptions.
        units: sums over the users of each period; None if it is not known who looked.
        unit: what they are: ``user`` or ``session``.
        example: what both policies put first for a query.
        confidence: the confidence level of the intervals.
        judge: how far the judge of the judgments agrees with the users.
    """
    first = valuations[0]
    values = PeriodValues(tuple(QueryValues.of(one) for one in valuations))
    weights = values.weights
    of_new, of_other, gain = values.intervals(
        moments, np.random.default_rng(seed), spread, units, confidence=confidence
    )
    effective = Moments.of_all(moments).effective()
    bounds = SupportBounds.mean([one.bounds() for one in valuations], weights)
    alike = first.alike(ROUNDING)
    difference = Difference(gain, gain.low + bounds.worst, gain.high + bounds.best)
    if alike:
        difference = Difference(ValueInterval(*(0.0,) * len(gain)), 0.0, 0.0)
    return Comparison(
        metric=first.metric.name,
        new=_policy_estimate(first.policies[0], of_new, effective[0], bounds, 0),
        against=_policy_estimate(first.policies[1], of_other, effective[1], bounds, 1),
        difference=difference,
        impressions=sum(part.total for part in values.parts),
        queries=int((values.times > 0).sum()),
        guess=float(weights @ [one.mean for one in valuations]),
        support=max(one.support for one in valuations),
        estimator=str(ESTIMATOR if first.guesses is None else GUIDED_ESTIMATOR),
        notes=notes,
        assumptions=assumptions,
        alike=alike,
        guesses=guesses or GuessGain(),
        self_test=self_test,
        periods=len(valuations),
        units=_units(int((values.times > 0).sum()), None if units is None else unit),
        example=example,
        confidence=confidence,
        judge=judge,
    )


def _units(queries: int, unit: str | None) -> str:
    """What the interval takes to be independent."""
    names = ["queries"] if queries > 1 else []
    return " and ".join([*names, *([] if unit is None else [f"{unit}s"])]) or "impressions"


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


BIAS, EXPLORATION, QUERIES, COMPLETE = "bias", "exploration", "queries", "complete"


def assumptions_of(
    *,
    bias_estimated: bool,
    explores: bool,
    several_queries: bool = True,
    complete: bool = True,
    curve: bool = False,
) -> tuple[Assumption, ...]:
    """What an evaluation rests on; a decision is firm if all of it holds.

    Args:
        bias_estimated: whether the bias was estimated from clicks, rather than assumed.
        explores: whether the log ever varied its rankings.
        several_queries: whether more than one query is compared.
        complete: whether the log has impressions without a click, too, as far as click rates tell.
        curve: whether the form of the bias was assumed: examination k^−η.
    """
    vary = "Vary the rankings of some traffic for a while, and estimate the bias from that log."
    estimate = "Estimate the bias from the log (`rankloop bias`) and evaluate with it."
    rows = (
        (
            BIAS,
            bias_estimated and not curve,
            "the bias is a curve of one parameter, whose form was assumed"
            if curve
            else "the bias was assumed, not estimated from clicks",
            # Without exploration there is nothing to estimate it from.
            "Collect more clicks on varied rankings." if curve else estimate if explores else vary,
        ),
        (
            EXPLORATION,
            explores,
            "the log never explores (hardly a query that came again had another ranking)",
            vary,
        ),
        (
            QUERIES,
            several_queries,
            "one query does not tell how queries differ",
            "Evaluate on a log of many queries.",
        ),
        (
            COMPLETE,
            complete,
            "impressions without a click seem not to have been logged",
            "Log every impression, also those without a click.",
        ),
    )
    return tuple(Assumption(name, "held" if held else "broken", *words) for name, held, *words in rows)


def conclusion(found: Comparison) -> str:
    """The decision about a comparison, why, and what to do next, in sentences."""
    decision, new, old = found.decision, found.new.name, found.against.name
    test = (
        ""
        if decision.test is None
        else f"An A/B test of about {decision.test:,} impressions per arm would settle it."
    )
    doubts = [one for one in found.assumptions if one.name in decision.reasons]
    because, remedy = " and ".join(one.text for one in doubts), doubts[0].remedy if doubts else ""
    caveat = f"Also, {because}." if doubts else ""
    if decision.kind is DecisionKind.SAME:
        return f"Same: {new} and {old} rank in the same way, so there is no difference to find."
    if decision.kind in (DecisionKind.BETTER, DecisionKind.WORSE):
        return f"{new} is {decision.kind} than {old}."
    if decision.kind in (DecisionKind.LEANS_BETTER, DecisionKind.LEANS_WORSE):
        return _joined(f"{new} {decision.kind} than {old}, but not firmly: {because}.", remedy, test)
    if SUPPORT in decision.reasons:
        word = "better" if decision.estimate > 0.0 else "worse"
        unseen = (
            f"Undecided: {new} is {word} than {old} if the documents about which the log has no information "
            f"are like the others; they are {found.new.outside:.1%} of what it shows (and "
            f"{found.against.outside:.1%} of what the other shows)."
        )
        return _joined(unseen, caveat, "Deploy a policy that shows them.", test)
    if decision.more is None:
        text = (
            f"Undecided: the difference is too small to tell; more than {MOST_TIMES:.0f} times these "
            f"{found.impressions:,} impressions would be needed."
        )
    else:
        text = f"Undecided: about {decision.more:,} more impressions are needed."
    return _joined(text, caveat, remedy, test)


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)
