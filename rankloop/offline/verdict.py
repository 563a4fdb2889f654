"""The conclusion of a comparison: one word that programs can act on, and a sentence that says why."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from scipy.special import ndtri

from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.offline.comparison import Comparison

# Needing more than this many times the log counts as undecidable.
MOST_LOGS = 100.0
# An A/B test of more impressions per arm than this is not worth proposing.
LARGEST_TEST = 1e9
# Differences up to this share of the values come from the order of additions, and from the numerical error of
# expected rank weights.
ROUNDING = 1e-6
# An A/B test that decides at 90 % confidence with a power of 80 %.
TEST_QUANTILES = float(ndtri(0.95) + ndtri(0.8))


class VerdictKind(StrEnum):
    """What a comparison concludes, from the worst to the best for the new policy.

    Attributes:
        WORSE: the interval and the support bounds are below 0; the bias was estimated and the log explores.
        LEANS_WORSE: they are below 0, but the bias was assumed, the log never explores, lacks impressions
            without a click, or has a single query.
        UNDECIDED: they contain 0.
        SAME: both policies rank in the same way.
        LEANS_BETTER: they are above 0, with the same reservations.
        BETTER: they are above 0; the bias was estimated and the log explores.
    """

    WORSE = "worse"
    LEANS_WORSE = "leans worse"
    UNDECIDED = "undecided"
    SAME = "same"
    LEANS_BETTER = "leans better"
    BETTER = "better"

    @classmethod
    def read(cls, text: str) -> VerdictKind:
        """A kind by its name, with spaces or hyphens.

        >>> VerdictKind.read("leans-better")
        <VerdictKind.LEANS_BETTER: 'leans better'>
        """
        try:
            return cls(text.replace("-", " "))
        except ValueError:
            known = ", ".join(kind.replace(" ", "-") for kind in cls)
            raise RankloopError(f"a verdict is one of {known}, not {text!r}") from None


# One code per kind for schedulers; 1 to 3 are errors of other kinds.
EXIT_CODES = {
    VerdictKind.BETTER: 0,
    VerdictKind.LEANS_BETTER: 10,
    VerdictKind.SAME: 11,
    VerdictKind.UNDECIDED: 12,
    VerdictKind.LEANS_WORSE: 13,
    VerdictKind.WORSE: 14,
}


def exit_code(kind: VerdictKind, required: VerdictKind = VerdictKind.BETTER) -> int:
    """The exit code of a command that requires a verdict: 0 if it is at least as good, else the kind's code.

    >>> exit_code(VerdictKind.BETTER), exit_code(VerdictKind.UNDECIDED), exit_code(VerdictKind.WORSE)
    (0, 12, 14)
    >>> exit_code(VerdictKind.LEANS_BETTER, VerdictKind.SAME)
    0
    """
    order = list(VerdictKind)
    return 0 if order.index(kind) >= order.index(required) else EXIT_CODES[kind]


@dataclass(frozen=True)
class VerdictEvidence:
    """What a firm verdict needs.

    Attributes:
        bias_estimated: whether the bias was estimated from clicks, rather than assumed.
        explores: whether the log ever varied its rankings.
        several_queries: whether more than one query is compared.
        complete: whether the log has impressions without a click, too, as far as click rates tell.
    """

    bias_estimated: bool
    explores: bool
    several_queries: bool = True
    complete: bool = True

    @property
    def firm(self) -> bool:
        """Whether a verdict can be firm."""
        return self.bias_estimated and self.explores and self.several_queries and self.complete

    @property
    def gaps(self) -> str:
        """What is missing, as the part of a sentence; empty if nothing is."""
        missing = []
        if not self.bias_estimated:
            missing.append("the bias was assumed, not estimated from clicks")
        if not self.explores:
            missing.append("the log never explores (no query ever had two different rankings)")
        if not self.several_queries:
            missing.append("one query does not tell how queries differ")
        if not self.complete:
            missing.append("impressions without a click seem not to have been logged")
        return " and ".join(missing)

    @property
    def remedy(self) -> str:
        """What to do about it, as a sentence; empty if nothing is missing."""
        if not self.explores:
            return "Vary the rankings of some traffic for a while, and estimate the bias from that log."
        if not self.bias_estimated:
            return "Estimate the bias from the log (`rankloop bias`) and evaluate with it."
        if not self.several_queries:
            return "Evaluate on a log of many queries."
        return "" if self.complete else "Log every impression, also those without a click."


@dataclass(frozen=True)
class Verdict:
    """The conclusion of a comparison, and why.

    Attributes:
        kind: what is concluded.
        more: about how many more impressions are needed; None if more would not help, or too many are needed.
        test: about how many impressions per arm an A/B test needs to settle it; None if it is settled, or if
            too many are needed.
        text: the same in sentences.
    """

    kind: VerdictKind
    more: int | None
    test: int | None
    text: str

    def __str__(self) -> str:
        """The conclusion in sentences."""
        return self.text


def conclude(found: Comparison) -> Verdict:
    """Draw the conclusion of a comparison.

    Better (or worse) if the whole 90 % interval of the difference is above (or below) 0, even in the worst
    (or best) case for documents about which the log has no information. Otherwise, as the width of intervals
    is proportional to 1/√T,

        T' = T · (half width / |difference|)²

    impressions would give an interval that ends at 0, and ``T' − T`` more are needed.
    """
    new, old, evidence = found.new.name, found.against.name, found.evidence
    if found.alike:
        text = f"Same: {new} and {old} rank in the same way, so there is no difference to find."
        return Verdict(VerdictKind.SAME, None, None, text)
    difference, estimate = found.difference, found.difference.estimate
    rounding = ROUNDING * max(abs(found.new.estimate.value), abs(found.against.estimate.value))
    test = _test_size(found)
    for word, sure, likely in (
        ("better", difference.lowest > rounding, estimate.low > rounding),
        ("worse", difference.highest < -rounding, estimate.high < -rounding),
    ):
        if sure and evidence.firm:
            return Verdict(VerdictKind(word), 0, None, f"{new} is {word} than {old}.")
        if sure:
            text = f"{new} leans {word} than {old}, but not firmly: {evidence.gaps}. {evidence.remedy}"
            return Verdict(VerdictKind(f"leans {word}"), None, test, _joined(text, _proposal(test)))
        if likely:
            return Verdict(VerdictKind.UNDECIDED, None, test, _joined(_unseen(found, word), _proposal(test)))
    caveat = f"Also, {evidence.gaps}. {evidence.remedy}" if evidence.gaps else ""
    half = (estimate.high - estimate.low) / 2.0
    logs = (half / abs(estimate.value)) ** 2 if abs(estimate.value) > rounding else math.inf
    if logs > MOST_LOGS:
        text = (
            f"Undecided: the difference is too small to tell; more than {MOST_LOGS:.0f} times these "
            f"{found.impressions:,} impressions would be needed."
        )
        return Verdict(VerdictKind.UNDECIDED, None, test, _joined(text, caveat, _proposal(test)))
    more = rounded_up(max(logs - 1.0, 0.0) * found.impressions)
    text = f"Undecided: about {more:,} more impressions are needed."
    return Verdict(VerdictKind.UNDECIDED, more, test, _joined(text, caveat, _proposal(test)))


def _test_size(found: Comparison) -> int | None:
    """The impressions per arm of an A/B test that decides with 90 % confidence and a power of 80 %.

    n = (z_0.95 + z_0.8)² · (s_new² + s_old²) / difference²,    s² = error² · effective impressions
    """
    gain = abs(found.difference.estimate.value)
    variance = sum(part.estimate.error**2 * part.effective for part in (found.new, found.against))
    if gain == 0.0 or variance == 0.0 or TEST_QUANTILES**2 * variance > LARGEST_TEST * gain**2:
        return None
    return rounded_up(TEST_QUANTILES**2 * variance / gain**2)


def _proposal(test: int | None) -> str:
    return "" if test is None else f"An A/B test of about {test:,} impressions per arm would settle it."


def _unseen(found: Comparison, word: str) -> str:
    caveat = f" Also, {found.evidence.gaps}." if found.evidence.gaps else ""
    return (
        f"Undecided: {found.new.name} is {word} than {found.against.name} if the documents about which the "
        f"log has no information are like the others; they are {found.new.outside:.1%} of what it shows "
        f"(and {found.against.outside:.1%} of what the other shows).{caveat} Deploy a policy that shows them."
    )


def _joined(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def rounded_up(count: float) -> int:
    """Rounded up to two significant digits: the others are not known.

    >>> rounded_up(12_345.0), rounded_up(7.2), rounded_up(0.0)
    (13000, 8, 0)
    """
    if count < 1.0:
        return math.ceil(count)
    unit = 10.0 ** max(math.floor(math.log10(count)) - 1, 0)
    return int(math.ceil(count / unit) * unit)
