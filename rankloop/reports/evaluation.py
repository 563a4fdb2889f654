"""The page on two policies that were compared by the clicks of a log."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from rankloop.offline import Comparison, PolicyEstimate, ValueInterval
from rankloop.offline.intervals import CONFIDENCE
from rankloop.reports.components import figure, figures, legend, page
from rankloop.reports.html import Html, element, joined, listing, table
from rankloop.reports.style import PLACE, STYLE, colour, marker, svg

# A low figure: one line an interval.
INCHES = (5.0, 1.7)
# How far the whole span reaches above and below its line.
SPAN = 0.12
# Room for two lines of text below so low a figure.
BOTTOM = 0.3


def evaluation_page(found: Comparison) -> str:
    """The page: the same comparison gives the same page, byte for byte."""
    body = joined(
        _heading(found), _notes(found), _intervals(found), _numbers(found), _support(found), _how(found)
    )
    return page(f"rankloop: {found.new.name} against {found.against.name}", body)


def _heading(found: Comparison) -> Html:
    gain = found.difference.estimate
    return joined(
        element("h1", f"{found.new.name} against {found.against.name}"),
        element("p", element("strong", found.verdict.text)),
        element(
            "p",
            f"By {found.impressions:,} impressions of {found.queries:,} queries the difference in "
            f"{found.measure} a query is {_spelt(gain)} ({CONFIDENCE:.0%} interval).",
        ),
    )


def _notes(found: Comparison) -> Html:
    return joined(*(element("p", note, class_="warning") for note in found.notes))


def _intervals(found: Comparison) -> Html:
    new, other, gain = found.new, found.against, found.difference
    both = [(one.estimate, *_furthest(one), look) for look, one in enumerate((new, other))]
    drawn = [
        figure(
            _drawn("values", both, f"{found.measure} a query"),
            "What each policy is worth.",
            f"{new.name}: {_spelt(new.estimate)}. {other.name}: {_spelt(other.estimate)}.",
        ),
        figure(
            _drawn("difference", [(gain.estimate, gain.lowest, gain.highest, 2)], "difference", zero=True),
            "The new policy minus the other. If all of the line is on one side of 0, the verdict is clear.",
            f"Difference: {_spelt(gain.estimate)}, at the very worst {gain.lowest:.4f}, at best "
            f"{gain.highest:.4f}.",
        ),
    ]
    names = [(new.name, 0, "-"), (other.name, 1, "-"), ("new − other", 2, "-")]
    return joined(
        element("h2", "Intervals"),
        legend([*names, ("if documents without support were worth nothing, or everything", None, ":")]),
        figures(drawn),
    )


def _furthest(policy: PolicyEstimate) -> tuple[float, float]:
    """The ends of the interval, with documents without support worth nothing, and everything."""
    estimate = policy.estimate
    less, more = policy.if_nothing - estimate.value, policy.if_everything - estimate.value
    return estimate.low + less, estimate.high + more


def _drawn(
    name: str, rows: Sequence[tuple[ValueInterval, float, float, int]], label: str, *, zero: bool = False
) -> str:
    """Intervals, one a line: the estimate, its ends, and dotted how far what is not known could move them."""
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name, "figure.figsize": INCHES}):
        drawn = Figure()
        axes = drawn.subplots(gridspec_kw={**PLACE, "bottom": BOTTOM})
        for number, (interval, lowest, highest, look) in enumerate(rows):
            at, paint = -number, colour(look)
            axes.plot([lowest, highest], [at, at], linestyle=":", color=colour(None), linewidth=1.1)
            axes.plot([interval.low, interval.high], [at, at], color=paint, linewidth=3)
            for end in (interval.low, interval.high):
                axes.plot([end, end], [at - SPAN, at + SPAN], color=paint)
            axes.plot([interval.value], [at], marker=marker(look), markersize=8, color=paint, linestyle="")
        if zero:
            axes.axvline(0.0, color=colour(None), linewidth=1.1)
        axes.set_ylim(-len(rows) + 0.4, 0.6)
        axes.set_yticks([])
        axes.set_xlabel(label)
        return svg(drawn)


def _numbers(found: Comparison) -> Html:
    rows = [
        [name, *_cells(interval)]
        for name, interval in (
            (found.new.name, found.new.estimate),
            (found.against.name, found.against.estimate),
            ("difference", found.difference.estimate),
        )
    ]
    return joined(
        element("h2", "Numbers"),
        table(
            f"{found.measure} a query",
            ["", "estimate", "90 % interval", "for these very queries", "standard error"],
            rows,
        ),
        element(
            "p",
            "The interval is for traffic of queries like these, and made by drawing whole queries again. For "
            "traffic of these very queries, which come again and again, the next one is enough: its standard "
            "error holds the chance of which of them came, of what was shown and of clicks. Neither holds "
            "the uncertainty of the bias.",
            class_="quiet",
        ),
    )


def _support(found: Comparison) -> Html:
    def row(policy: PolicyEstimate) -> list[object]:
        return [
            policy.name,
            policy.ranking,
            f"{policy.effective:,.0f}",
            f"{policy.outside:.2%}",
            f"{policy.if_nothing:.4f}",
            f"{policy.if_everything:.4f}",
        ]

    return joined(
        element("h2", "Support"),
        table(
            "How much of each policy the log knows",
            [
                "",
                "rankings",
                "effective impressions",
                "outside the support",
                "if worth nothing",
                "everything",
            ],
            [row(found.new), row(found.against)],
        ),
        element(
            "p",
            f"Outside the support: the share of what a policy shows whose expected α under the policies of "
            f"the log is below {found.support:.2g}. Such documents count as average, with a relevance of "
            f"{found.guess:.3f}; the last columns say what if all of them were irrelevant, or relevant.",
            class_="quiet",
        ),
    )


def _how(found: Comparison) -> Html:
    return joined(
        element("h2", "How"),
        listing(
            [
                ("measure", found.measure),
                ("estimator", found.estimator),
                ("impressions", f"{found.impressions:,}"),
                ("queries", f"{found.queries:,}"),
                ("least expected α", f"{found.support:.3g}"),
            ]
        ),
    )


def _cells(interval: ValueInterval) -> list[str]:
    return [
        f"{interval.value:.4f}",
        f"{interval.low:.4f} to {interval.high:.4f}",
        f"{interval.same_low:.4f} to {interval.same_high:.4f}",
        f"{interval.error:.4f}",
    ]


def _spelt(interval: ValueInterval) -> str:
    return f"{interval.value:.4f}, from {interval.low:.4f} to {interval.high:.4f}"
