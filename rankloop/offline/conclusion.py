"""What an evaluation assumes about its log, and what was decided, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankloop.evidence.decision import MOST_TIMES, SUPPORT, Assumption, DecisionKind

if TYPE_CHECKING:
    from rankloop.offline.comparison import Comparison

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
