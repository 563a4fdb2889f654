"""The report on two policies that were compared by the clicks of a log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isnan
from typing import TYPE_CHECKING

from rankloop.evidence import DecisionKind
from rankloop.offline import Comparison, ListComparison, PolicyEstimate, RankingExample, Sensitivity
from rankloop.offline.comparison import BIAS, EXPLORATION
from rankloop.relevance.judge import JudgeAgreement
from rankloop.reports.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Figures,
    LegendEntry,
    Section,
    Table,
    Text,
    next_step,
    warnings,
)
from rankloop.reports.drawing import THIN, colour, draw_svg, marker
from rankloop.reports.self_test import self_test_section
from rankloop.statistics.intervals import CONFIDENCE
from rankloop.value.uncertainty import ValueInterval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# A low figure: one line per interval.
INCHES = (5.0, 1.7)
# How far the ends of an interval reach above and below its line.
REACH = 0.12
# Room for two lines of text below so low a figure.
BOTTOM = 0.3

# An interval, how far documents without support could extend it on either side, and its look.
Bar = tuple[ValueInterval, float, float, int]


def evaluation_document(found: Comparison, sensitivity: Sensitivity | None = None) -> Document:
    """The report on a comparison; with how it changes with the bias, if that is given."""
    name = f"{found.new.name} against {found.against.name}"
    gain = found.difference.estimate
    return Document(
        name,
        name,
        (
            Text(found.conclusion, "strong", brief=True),
            _intervals(found),
            Text(
                f"Estimated from {found.impressions:,} impressions of {found.queries:,} queries, the "
                f"difference in {found.metric} per query is {_in_words(gain)} ({CONFIDENCE:.0%} interval).",
                brief=True,
            ),
            *(
                [Text(sentence, brief=True)]
                if (sentence := found.guesses.sentence(found.impressions))
                else []
            ),
            *([] if found.judge is None else [Text(found.judge.sentence, brief=True)]),
            *(() if found.example is None else _example(found, found.example)),
            *warnings(found.notes),
            *(() if sensitivity is None else (sensitivity_section(sensitivity),)),
            *((_segments(found),) if found.segments else ()),
            Section("Numbers", _numbers(found)),
            Section("Support", _support(found)),
            *(() if found.judge is None else (_judgments(found, found.judge),)),
            *(() if found.self_test is None else (self_test_section(found.self_test, of_decision=True),)),
            Section("How it was estimated", (_method(found),)),
            next_step(Text(what_now(found), brief=True)),
        ),
    )


def what_now(found: Comparison) -> str:
    """What to do about a comparison."""
    kind, new, old = found.decision.kind, found.new.name, found.against.name
    if kind in ("better", "leans better"):
        return f"Compare {new} with {old} in an A/B test before it serves everyone."
    if kind in ("worse", "leans worse"):
        return f"Keep {old}. More clicks, or features that say more about documents, may help."
    if kind == "same":
        return f"Keep {old}: {new} would change nothing that these clicks can see."
    return f"Keep {old} and log on; run the same command again on the longer log."


def _example(found: Comparison, example: RankingExample) -> tuple[Table, ...]:
    """What both policies put first for a query, side by side, and how far each document moved."""
    rows = []
    for at in range(max(len(example.before), len(example.after))):
        before, after = (ids[at] if at < len(ids) else "" for ids in (example.before, example.after))
        rows.append([str(at + 1), before, after, _moved(after, at, example.before) if after else ""])
    caption = f"Query {example.query!r}, {example.impressions:,} impressions: what each policy puts first"
    return (Table.build(caption, ["rank", found.against.name, found.new.name, "moved"], rows),)


def _judgments(found: Comparison, judge: JudgeAgreement) -> Section:
    """What the grades of a judge are worth, by the clicks of the users."""
    rows = [
        [f"{row.grade:g}", f"{row.documents:,}", f"{row.displays:,}", f"{row.relevance:.3f}"]
        for row in judge.rows
    ]
    used = (
        "are part of the guess"
        if "judgments" in found.guesses.name
        else "are worth no impressions here, and are not used"
    )
    return Section(
        "Judgments",
        (
            Text(judge.sentence),
            Table.build(
                "Relevance by grade, as clicks tell it", ["grade", "documents", "displays", "relevance"], rows
            ),
            Text(
                f"{judge.judged:,} documents of the log are judged, {judge.documents:,} of them were shown. "
                f"The grades {used}: what a grade is worth is fitted to the clicks of other queries, and "
                "clicks correct it wherever there are any.",
                "quiet",
            ),
        ),
    )


def _moved(document: str, at: int, before: Sequence[str]) -> str:
    """How far a document moved.

    >>> [_moved(document, at, "abc") for at, document in enumerate("bax")]
    ['↑ 1', '↓ 1', 'from below']
    """
    if document not in before:
        return "from below"
    up = list(before).index(document) - at
    return "–" if up == 0 else f"{'↑' if up > 0 else '↓'} {abs(up)}"


def _intervals(found: Comparison) -> Figures:
    new, other, gain = found.new, found.against, found.difference
    both = [(one.estimate, *_extremes(one), look) for look, one in enumerate((new, other))]
    figures = (
        Figure(
            partial(
                _draw, "difference", [(gain.estimate, gain.lowest, gain.highest, 2)], "difference", zero=True
            ),
            "The new policy minus the other. If the whole line is on one side of 0, the decision is clear.",
            f"Difference: {_in_words(gain.estimate)}, in the worst case {gain.lowest:.4f}, in the best "
            f"{gain.highest:.4f}.",
        ),
        Figure(
            partial(_draw, "values", both, f"{found.metric} per query"),
            "The value of each policy.",
            f"{new.name}: {_in_words(new.estimate)}. {other.name}: {_in_words(other.estimate)}.",
        ),
    )
    extremes = "if documents without support were all irrelevant, or all relevant"
    legend = (LegendEntry(new.name, 0), LegendEntry(other.name, 1), LegendEntry("new − other", 2))
    return Figures(figures, (*legend, LegendEntry(extremes, None, ":")))


def _extremes(policy: PolicyEstimate) -> tuple[float, float]:
    """The ends of the interval if documents without support were all irrelevant, and all relevant."""
    estimate = policy.estimate
    less, more = policy.if_nothing - estimate.value, policy.if_everything - estimate.value
    return estimate.low + less, estimate.high + more


def _draw(name: str, bars: Sequence[Bar], label: str, *, zero: bool = False) -> str:
    """Intervals, one per line: the estimate, its ends, and a dotted line to the extremes."""

    def draw(axes: Axes) -> None:
        for number, (interval, lowest, highest, look) in enumerate(bars):
            at, paint = -number, colour(look)
            axes.plot([lowest, highest], [at, at], linestyle=":", color=colour(None), linewidth=THIN)
            axes.plot([interval.low, interval.high], [at, at], color=paint, linewidth=3)
            for end in (interval.low, interval.high):
                axes.plot([end, end], [at - REACH, at + REACH], color=paint)
            axes.plot([interval.value], [at], marker=marker(look), markersize=8, color=paint, linestyle="")
        if zero:
            axes.axvline(0.0, color=colour(None), linewidth=THIN)
        axes.set_ylim(-len(bars) + 0.4, 0.6)
        axes.set_yticks([])
        axes.set_xlabel(label)

    return draw_svg(name, draw, inches=INCHES, bottom=BOTTOM)


def _numbers(found: Comparison) -> tuple[Table, Text]:
    rows = [
        [name, *_cells(interval), outside]
        for name, interval, outside in (
            (found.new.name, found.new.estimate, f"{found.new.outside:.1%}"),
            (found.against.name, found.against.estimate, f"{found.against.outside:.1%}"),
            ("difference", found.difference.estimate, ""),
        )
    ]
    columns: list[str | Column] = [
        "",
        "estimate",
        f"{CONFIDENCE:.0%} interval",
        Column("for exactly these queries", brief=False),
        Column("standard error", brief=False),
        "outside support",
    ]
    return (
        Table.build(f"{found.metric} per query", columns, rows, brief=True),
        Text(
            "The interval holds for traffic of queries like these; it comes from resampling whole queries. "
            "For traffic of exactly these queries, which come again and again, use the next column: its "
            "standard error accounts for which of them came, for what was shown, and for clicks. "
            + (
                "Both account for the uncertainty of the bias, as far as its resamples are known."
                if found.holds(BIAS)
                else "Neither accounts for the uncertainty of the bias, which was assumed."
            ),
            "quiet",
        ),
    )


def _segments(found: Comparison) -> Section:
    """The comparison on each segment."""
    column = found.segmented_by
    bars = [
        (one.difference.estimate, one.difference.lowest, one.difference.highest, 2) for one in found.segments
    ]
    rows = [
        [
            one.value,
            f"{one.impressions:,}",
            f"{one.new.estimate.value:.4f}",
            f"{one.against.estimate.value:.4f}",
            f"{one.difference.estimate.value:+.4f}",
            f"{one.difference.estimate.low:+.4f} to {one.difference.estimate.high:+.4f}",
            one.decision.kind,
        ]
        for one in found.segments
    ]
    new, old = found.new.name, found.against.name
    columns: list[str | Column] = [
        column,
        "impressions",
        Column(new, brief=False),
        Column(old, brief=False),
        "difference",
        "interval",
        "decision",
    ]
    figure = Figure(
        partial(_draw, "segments", bars, "difference", zero=True),
        f"The difference on the impressions with each {column}, from top to bottom: "
        f"{', '.join(one.value for one in found.segments)}.",
        " ".join(f"{one.value}: {_in_words(one.difference.estimate)}." for one in found.segments),
    )
    return Section(
        f"By {column}",
        (
            Figures((figure,)),
            Table.build(f"{found.metric} per query, by {column}", columns, rows, brief=True),
            Text(
                f"All these intervals hold together with {found.confidence:.0%} confidence; each of them has "
                f"a higher one. Decisions for one {column} use its impressions alone.",
                "quiet",
            ),
        ),
    )


def _support(found: Comparison) -> tuple[Table, Text]:
    columns = ["", "rankings", "effective impressions", "outside support", "if irrelevant", "if relevant"]
    rows = [
        [
            policy.name,
            policy.ranking,
            f"{policy.effective:,.0f}",
            f"{policy.outside:.2%}",
            f"{policy.if_nothing:.4f}",
            f"{policy.if_everything:.4f}",
        ]
        for policy in (found.new, found.against)
    ]
    return (
        Table.build("How much of what each policy shows the log covers", columns, rows),
        Text(
            "Outside support: the share of what a policy shows whose expected α under the policies of the "
            f"log is below {found.support:.2g}. Such documents count as average, with a relevance of "
            f"{found.guess:.3f}; the last columns are the estimates if all of them were irrelevant, or "
            "relevant.",
            "quiet",
        ),
    )


def _method(found: Comparison) -> Facts:
    return Facts(
        (
            ("decision", found.decision.kind),
            ("metric", found.metric),
            ("estimator", found.estimator),
            ("guess of relevance", found.guesses.name),
            ("impressions", f"{found.impressions:,}"),
            ("queries", f"{found.queries:,}"),
            ("least expected α", f"{found.support:.3g}"),
            ("bias", "estimated from clicks" if found.holds(BIAS) else "assumed"),
            ("the log explores", "yes" if found.holds(EXPLORATION) else "no"),
        )
    )


def _cells(interval: ValueInterval) -> list[str]:
    return [
        f"{interval.value:.4f}",
        f"{interval.low:.4f} to {interval.high:.4f}",
        f"{interval.same_low:.4f} to {interval.same_high:.4f}",
        f"{interval.error:.4f}",
    ]


def _in_words(interval: ValueInterval) -> str:
    return f"{interval.value:.4f}, from {interval.low:.4f} to {interval.high:.4f}"


def sensitivity_section(found: Sensitivity) -> Section:
    """A section on how the decision changes with the bias, for the report on an evaluation."""
    rows = [
        [
            row.name,
            f"{row.last_rank:.2f}",
            "–" if isnan(row.relative) else f"{row.relative:+.1%}",
            f"{row.comparison.difference.estimate.value:.4f}",
            f"{row.comparison.difference.estimate.low:.4f} – {row.comparison.difference.estimate.high:.4f}",
            row.comparison.decision.kind,
        ]
        for row in found.rows
    ]
    names = ("last rank examined", "relative difference", "difference", "90 % interval", "decision")
    columns: list[str | Column] = [Column("bias", words=True), *names]
    blocks: tuple[Block, ...] = (
        Text(found.text, brief=True),
        Table.build("The comparison under each bias", columns, rows, brief=True),
        Text(
            "Differences under two biases have different units, because each bias has its own scale of "
            "relevance; relative differences can be compared. There is none where production would be worth "
            "less than nothing: such a bias does not fit the log.",
            "quiet",
        ),
    )
    return Section("How much the bias matters", blocks)


WORDS = {
    DecisionKind.BETTER: "is better than",
    DecisionKind.WORSE: "is worse than",
    DecisionKind.LEANS_BETTER: "leans better than",
    DecisionKind.LEANS_WORSE: "leans worse than",
}


def list_document(found: ListComparison) -> Document:
    """The report on a comparison by lists."""
    decision = found.decision
    if decision.kind in WORDS:
        text = f"{found.policy} {WORDS[decision.kind]} {found.against}, by the clicks on the lists of both."
    else:
        more = "" if decision.more is None else f" About {decision.more:,} more impressions would tell."
        text = f"Whether {found.policy} is better than {found.against} is not decided.{more}"
    rows = [
        ["difference", f"{decision.estimate:+.4f} clicks per impression"],
        ["95 % interval, for people", f"{decision.lower:+.4f} to {decision.upper:+.4f}"],
        ["E that it is better, at most", f"10^{found.better:.1f}"],
        ["E that it is worse, at most", f"10^{found.worse:.1f}"],
        ["impressions", f"{found.impressions:,}, of which it served {found.share:.0%}"],
        ["left out", f"{found.left_out:,}"],
    ]
    assumed = (
        "Nothing is assumed about users."
        if found.evidence == "list"
        else "It is assumed that what is shown below a document does not change whether it is clicked."
    )
    title = f"{found.policy} against {found.against}, by their lists"
    return Document(
        title,
        title,
        (
            Text(text, "strong", brief=True),
            Section(
                "Evidence",
                (
                    Table.build("Impressions of the time in which both served", ["", ""], rows, brief=True),
                    Text(
                        f"{assumed} At E = {1.0 / decision.level:.0f} bets decide. Without a difference, one "
                        f"of them ever gets there with a chance of {decision.level:.0%} at most. They need a "
                        f"coin per impression that chose the policy.",
                        "quiet",
                    ),
                ),
            ),
        ),
    )
