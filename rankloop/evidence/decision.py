"""The one place that decides: from a value, its interval and its assumptions to a word.

| asked by | about |
|---|---|
| `rankloop.offline.Comparison.decision` | two policies, by the clicks of a log |
| `EvidenceRule.decide`, `choose_step` | a step from the start, in the loop |
| `rankloop.live.learner.trial` | a learned policy, in shadow by an interval, live by bets on lists |
| `convinces` | an epoch of training |

A word is firm if the interval is on one side of what is required, even in the worst case for documents
without clicks, and every assumption behind it was tested and holds. A new test of an assumption is one more
`Assumption` of the `Evidence`; nothing here changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np

from rankloop.errors import RankloopError
from rankloop.statistics.bets import Bets
from rankloop.statistics.intervals import student_quantile, tail_probability, tail_quantile
from rankloop.statistics.sequences import ConfidenceSequence
from rankloop.types import Float64

# Needing more than this many times the impressions counts as undecidable.
MOST_TIMES = 100.0
# An A/B test of more impressions per arm than this is not worth proposing.
LARGEST_TEST = 1e9
# Differences up to this share of the values come from the order of additions, and from the numerical error of
# expected rank weights.
ROUNDING = 1e-6
# An A/B test that decides at 90 % confidence with a power of 80 %.
TEST_QUANTILES = tail_quantile(0.05) + tail_quantile(0.2)
# Reasons that are not assumptions: documents without clicks could change it; the difference is too small.
SUPPORT, SIZE = "support", "size"


class DecisionKind(StrEnum):
    """What is decided, from the worst to the best for the new policy.

    Attributes:
        WORSE: the interval and its bounds are below 0, and every assumption holds.
        LEANS_WORSE: they are below 0, but an assumption is broken or was not tested.
        UNDECIDED: they contain 0.
        SAME: both policies rank in the same way.
        LEANS_BETTER: they are above what is required, with the same reservations.
        BETTER: they are above what is required, and every assumption holds.
    """

    WORSE = "worse"
    LEANS_WORSE = "leans worse"
    UNDECIDED = "undecided"
    SAME = "same"
    LEANS_BETTER = "leans better"
    BETTER = "better"

    @classmethod
    def read(cls, text: str) -> DecisionKind:
        """A kind by its name, with spaces or hyphens.

        >>> DecisionKind.read("leans-better")
        <DecisionKind.LEANS_BETTER: 'leans better'>
        """
        try:
            return cls(text.replace("-", " "))
        except ValueError:
            known = ", ".join(kind.replace(" ", "-") for kind in cls)
            raise RankloopError(f"a decision is one of {known}, not {text!r}") from None


# One code per kind for schedulers; 1 to 3 are errors of other kinds.
EXIT_CODES = {
    DecisionKind.BETTER: 0,
    DecisionKind.LEANS_BETTER: 10,
    DecisionKind.SAME: 11,
    DecisionKind.UNDECIDED: 12,
    DecisionKind.LEANS_WORSE: 13,
    DecisionKind.WORSE: 14,
}


def exit_code(kind: DecisionKind, required: DecisionKind = DecisionKind.BETTER) -> int:
    """The exit code of a command that requires a decision: 0 if it is at least as good, else the kind's code.

    >>> exit_code(DecisionKind.BETTER), exit_code(DecisionKind.UNDECIDED), exit_code(DecisionKind.WORSE)
    (0, 12, 14)
    >>> exit_code(DecisionKind.LEANS_BETTER, DecisionKind.SAME)
    0
    """
    order = list(DecisionKind)
    return 0 if order.index(kind) >= order.index(required) else EXIT_CODES[kind]


@dataclass(frozen=True)
class Assumption:
    """Something that an estimate rests on, and whether it holds.

    Attributes:
        name: one word that programs can rely on, such as ``bias``.
        state: ``held``, ``broken``, or ``untested`` if the data could not tell.
        text: what is wrong, as part of a sentence: "the bias was assumed".
        remedy: what to do about it, as a sentence.
    """

    name: str
    state: Literal["held", "broken", "untested"]
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Evidence:
    """What is known about the difference between two policies.

    Attributes:
        estimate: the new policy minus the other.
        interval: the ends of its interval.
        bounds: the ends if documents without clicks were the worst, and the best, for the new policy; None
            for those of the interval.
        baseline: the value that rounding and tolerated losses are shares of; 0 to allow neither.
        alike: whether both policies rank in the same way.
        impressions: how many the estimate comes from; 0 if that is not known.
        variance: of an impression of the new policy plus that of one of the other; 0 if it is not known.
        assumptions: what the estimate rests on.
        wealth: log E that the new policy is better, and log E that it is worse, if bets decide and not the
            interval.
    """

    estimate: float
    interval: tuple[float, float]
    bounds: tuple[float, float] | None = None
    baseline: float = 0.0
    alike: bool = False
    impressions: int = 0
    variance: float = 0.0
    assumptions: tuple[Assumption, ...] = ()
    wealth: tuple[float, float] | None = None

    @classmethod
    def of_sequence(cls, sequence: ConfidenceSequence) -> Evidence:
        """What a confidence sequence says, at any look."""
        return cls(sequence.mean, (sequence.lower, sequence.upper), impressions=sequence.count)

    @classmethod
    def of_bets(cls, better: Bets, worse: Bets) -> Evidence:
        """What bets on a difference, and bets on its opposite, say at any look.

        The interval is a pointwise one of 95 %, for people; bets decide.

        Args:
            better: bets on the difference, or on the difference and a loss that is tolerated.
            worse: bets on the opposite of the difference.
        """
        half = tail_quantile(0.025) * worse.standard_error
        return cls(
            -worse.mean,
            (-worse.mean - half, -worse.mean + half),
            impressions=worse.count,
            wealth=(better.highest, worse.highest),
        )


@dataclass(frozen=True)
class Decision:
    """What is decided, with its numbers; sentences are made from it elsewhere.

    Attributes:
        kind: the word.
        estimate: the difference.
        lower: the lower end that decided, in the worst case for documents without clicks.
        upper: the upper end, in the best case for them.
        required: what `lower` has to exceed.
        level: the probability that the interval misses the truth.
        look: the number of the look at the evidence, from 1.
        reasons: why it is not firm: names of assumptions that are not known to hold; ``support`` if documents
            without clicks could change it, ``size`` if the difference is too small to tell.
        more: about how many more impressions are needed; 0 if none, None if more would not help or too many
            are needed.
        test: about how many impressions per arm an A/B test needs to settle it; None if it is settled, if too
            many are needed, or if that is not known.
    """

    kind: DecisionKind
    estimate: float
    lower: float
    upper: float
    required: float
    level: float
    look: int = 1
    reasons: tuple[str, ...] = ()
    more: int | None = None
    test: int | None = None

    @property
    def deploy(self) -> bool:
        """Whether the new policy may replace the other."""
        return self.kind is DecisionKind.BETTER

    def __str__(self) -> str:
        return (
            f"{self.kind}: {self.estimate:+.4f}, from {self.lower:+.4f} to {self.upper:+.4f} "
            f"(required {self.required:+.4f}, look {self.look})"
        )


def decide(evidence: Evidence, *, margin: float = 0.0, level: float = 0.1, look: int = 1) -> Decision:
    """Decide whether a new policy is better than another one.

    Better if the whole interval is above what is required, even at its bounds, and worse if it is below 0. If
    an assumption is not known to hold, the word only leans. Otherwise, as the width of intervals is
    proportional to 1/√T,

        T' = T · (half width / |difference|)²

    impressions would give an interval that ends at 0, and ``T' − T`` more are needed.

    Where bets decide, E ≥ 1 / level takes the place of the interval; log E grows in proportion to T.

    Args:
        evidence: what is known.
        margin: the loss to tolerate, as a share of the baseline; infinite to accept anything. With a margin,
            better means: not worse by more than that.
        level: the probability that the interval misses the truth.
        look: the number of the look at the evidence, from 1.

    Example:
        >>> decide(Evidence(0.2, (0.1, 0.3))).kind
        <DecisionKind.BETTER: 'better'>
        >>> assumed = Assumption("bias", "broken", "the bias was assumed")
        >>> decision = decide(Evidence(0.2, (0.1, 0.3), assumptions=(assumed,)))
        >>> str(decision.kind), decision.reasons
        ('leans better', ('bias',))
        >>> decide(Evidence(0.1, (-0.1, 0.3), impressions=1_000)).more
        3000
    """
    (low, high), (lower, upper) = evidence.interval, evidence.bounds or evidence.interval
    rounding = ROUNDING * evidence.baseline
    required = rounding
    if margin > 0.0:
        required = -math.inf if math.isinf(margin) else -margin * evidence.baseline
    doubts = tuple(one.name for one in evidence.assumptions if one.state != "held")

    def decision(
        kind: DecisionKind, *reasons: str, more: int | None = None, test: int | None = None
    ) -> Decision:
        return Decision(kind, evidence.estimate, lower, upper, required, level, look, reasons, more, test)

    if evidence.alike:
        return decision(DecisionKind.SAME)
    if evidence.wealth is not None:
        # Should both have been certain at some time, harm is what counts.
        for log_e, firm, leans in (
            (evidence.wealth[1], DecisionKind.WORSE, DecisionKind.LEANS_WORSE),
            (evidence.wealth[0], DecisionKind.BETTER, DecisionKind.LEANS_BETTER),
        ):
            if log_e >= -math.log(level):
                return decision(leans if doubts else firm, *doubts, more=None if doubts else 0)
        pace = max(evidence.wealth) / -math.log(level)
        if pace * MOST_TIMES <= 1.0:
            return decision(DecisionKind.UNDECIDED, *doubts, SIZE)
        missing = rounded_up((1.0 / pace - 1.0) * evidence.impressions)
        return decision(DecisionKind.UNDECIDED, *doubts, more=missing)
    test = _test_size(evidence)
    for sure, likely, firm, leans in (
        (lower > required, low > required, DecisionKind.BETTER, DecisionKind.LEANS_BETTER),
        (upper < -rounding, high < -rounding, DecisionKind.WORSE, DecisionKind.LEANS_WORSE),
    ):
        if sure and not doubts:
            return decision(firm, more=0)
        if sure:
            return decision(leans, *doubts, test=test)
        if likely:
            return decision(DecisionKind.UNDECIDED, *doubts, SUPPORT, test=test)
    distance, half = abs(evidence.estimate), (high - low) / 2.0
    times = (half / distance) ** 2 if distance > rounding else math.inf
    if not times <= MOST_TIMES:
        return decision(DecisionKind.UNDECIDED, *doubts, SIZE, test=test)
    more = rounded_up(max(times - 1.0, 0.0) * evidence.impressions) if evidence.impressions else None
    return decision(DecisionKind.UNDECIDED, *doubts, more=more, test=test)


def _test_size(evidence: Evidence) -> int | None:
    """The impressions per arm of an A/B test that decides with 90 % confidence and a power of 80 %.

    n = (z_0.95 + z_0.8)² · (s_new² + s_old²) / difference²
    """
    gain, variance = abs(evidence.estimate), TEST_QUANTILES**2 * evidence.variance
    if gain == 0.0 or variance == 0.0 or variance > LARGEST_TEST * gain**2:
        return None
    return rounded_up(variance / gain**2)


def rounded_up(count: float) -> int:
    """Rounded up to two significant digits: the others are not known.

    >>> rounded_up(12_345.0), rounded_up(7.2), rounded_up(0.0)
    (13000, 8, 0)
    """
    if count < 1.0:
        return math.ceil(count)
    unit = 10.0 ** max(math.floor(math.log10(count)) - 1, 0)
    return int(math.ceil(count / unit) * unit)


def convinces(gain: Float64, caution: float) -> bool:
    """Whether the mean gain over the start exceeds ``caution`` standard errors.

    The standard error of few queries is itself uncertain, so it is multiplied by the quantile of Student's
    distribution that is exceeded as rarely as ``caution`` is by a standard normal number. Queries that never
    came have no clicks and a gain of exactly 0; they say nothing, and do not count.

    Args:
        gain: held-out queries, each the difference of two policies: how much queries differ in what can be
            earned on them cancels out. NaN without held-out queries, and then every epoch convinces.
        caution: number of standard errors; 0 for any gain.

    Example:
        >>> convinces(np.array([0.1, 0.3, 0.2]), caution=3.0)  # 3.5 standard errors, of three queries
        False
        >>> convinces(np.tile([0.1, 0.3, 0.2], 10), caution=3.0)
        True
    """
    if np.isnan(gain).any():
        return True
    if caution == 0.0:
        return bool(gain.mean() >= 0.0)
    of_queries = gain[gain != 0.0]
    n = len(of_queries)
    if n <= 1:
        return False
    quantile = student_quantile(n - 1, tail_probability(caution))
    return bool(of_queries.mean() >= quantile * of_queries.std(ddof=1) / np.sqrt(n))
