"""How users click, as a page: α and β by rank with their intervals, and what the log can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rankloop.bias import BiasEstimate, RankIntervals
from rankloop.reports.components import figure, figures, legend, page
from rankloop.reports.html import Html, element, joined, listing, table
from rankloop.reports.style import MARKER_SIZES, PLACE, STYLE, colour, marker, svg
from rankloop.types import Float64

NONE = "–"
NAMES = {"affine": "affine", "position": "position-based", "harvesting": "intervention harvesting"}
ALPHA, BETA, LOOKS = 0, 1, 2
# Two points of a rank stand beside each other, so far from its middle; room at both ends of the axis.
ASIDE, ROOM = 0.08, 0.5
# Room for the markers at 0 and at 1.
SHARE_LIMITS = (-0.03, 1.03)


def bias_page(estimate: BiasEstimate) -> str:
    """The page: the same estimate gives the same page, byte for byte."""
    body = joined(
        element("h1", "How users click"),
        element(
            "p",
            "A document of relevance R at rank k is clicked with the chance α R + β: α is what relevance "
            "adds, β are clicks that it has nothing to do with. Scale: "
            f"{estimate.anchor}.",
        ),
        *(element("p", note, class_="warning") for note in estimate.notes),
        legend([("α", ALPHA, "-"), ("β", BETA, "-")]),
        figures([_lines(estimate), _chances(estimate)]),
        _numbers(estimate),
        element("h2", "Affine or position-based"),
        *_comparison(estimate),
        element("h2", "What the log can tell"),
        _movement(estimate),
        element("h2", "How it was estimated"),
        _method(estimate),
    )
    return page("rankloop: how users click", body)


def _lines(estimate: BiasEstimate) -> Html:
    found = estimate.bias

    def draw(axes: Axes) -> None:
        _points(axes, ALPHA, -ASIDE, found.alpha, estimate.alpha)
        _points(axes, BETA, ASIDE, found.beta, estimate.beta)
        _axis_of_ranks(axes, len(estimate.movement.displays))
        axes.set_ylim(*SHARE_LIMITS)

    said = "; ".join(
        f"rank {k + 1}: α {_spelt(found.alpha, estimate.alpha, k)}, β {_spelt(found.beta, estimate.beta, k)}"
        for k in range(found.ranks)
    )
    shown = "" if estimate.alpha is None else f" with {estimate.confidence:.0%} intervals"
    return figure(_svg("lines", draw), f"α and β by rank{shown}.", f"α and β by rank: {said}.")


def _chances(estimate: BiasEstimate) -> Html:
    found = estimate.bias
    relevances = (1.0, 0.5, 0.0)

    def draw(axes: Axes) -> None:
        ranks = np.arange(1, found.ranks + 1)
        for relevance, dashes in zip(relevances, ("-", "--", ":"), strict=True):
            axes.plot(ranks, found.alpha * relevance + found.beta, linestyle=dashes, color=colour(LOOKS))
        axes.plot(
            np.arange(1, len(estimate.movement.rates) + 1),
            estimate.movement.rates,
            linestyle="",
            marker="x",
            color=colour(None),
        )
        _axis_of_ranks(axes, len(estimate.movement.displays))
        axes.set_ylim(*SHARE_LIMITS)
        axes.set_ylabel("chance of a click")

    rates = ", ".join(f"{rate:.3f}" for rate in estimate.movement.rates)
    return figure(
        _svg("chances", draw),
        "The chance of a click on documents of relevance 1 (line), ½ (dashes) and 0 (dots), and the share "
        "that was clicked (crosses): relevance of what is shown is part of that.",
        f"Share clicked by rank: {rates}.",
    )


def _numbers(estimate: BiasEstimate) -> Html:
    found = estimate.bias
    share = f"{estimate.confidence:.0%}"
    head = ["rank", "α", f"{share} interval", "β", f"{share} interval", "examination", "harvested"]
    rows = [
        [
            f"{k + 1}",
            f"{found.alpha[k]:.4f}",
            _ends(estimate.alpha, k),
            f"{found.beta[k]:.4f}",
            _ends(estimate.beta, k),
            f"{found.examination[k]:.4f}",
            f"{estimate.harvested[k]:.4f}",
        ]
        for k in range(found.ranks)
    ]
    refused = range(found.ranks, len(estimate.movement.displays))
    rows += [[f"{k + 1}", *[NONE] * 6] for k in refused]
    return joined(
        table(f"The numbers, {NAMES[estimate.model]} model", head, rows),
        element(
            "p",
            "Examination: of the position-based model, relative to rank 1; what estimators use that know of "
            "no trust bias. Harvested: the same from documents that were shown at two ranks, without a model "
            "of relevance. If all is well with the position-based model, the two agree.",
            class_="quiet",
        ),
    )


def _comparison(estimate: BiasEstimate) -> Iterator[Html]:
    found = estimate.comparison
    if found is None:
        yield element("p", "They were not compared.", class_="quiet")
        return
    verdict = found.verdict
    yield element("p", f"{verdict[0].upper()}{verdict[1:]}.")
    yield table(
        "Clicks on held-out queries, relevance integrated out",
        ["model", "log-likelihood a display", "perplexity"],
        [
            [NAMES[name], f"{value:.5f}", f"{np.exp(-value):.4f}"]
            for name, value in (("affine", found.affine), ("position", found.position))
        ],
    )


def _movement(estimate: BiasEstimate) -> Html:
    moved = estimate.movement
    ranks = len(moved.displays)
    rows = [
        [
            f"{k + 1}",
            f"{moved.displays[k]:,.0f}",
            f"{moved.rates[k]:.3f}",
            f"{moved.items[k, k]:,}",
            f"{moved.moved[k]:,.0f}",
            "yes" if moved.connected[k] else "no",
        ]
        for k in range(ranks)
    ]
    head = ["rank", "displays", "clicked", "documents", "displays that compare", "comparable"]
    between = [[f"{j + 1}", *(f"{moved.effective[j, k]:,.0f}" for k in range(ranks))] for j in range(ranks)]
    return joined(
        table("Movement, by rank", head, rows),
        element(
            "p",
            "A document that was shown n times at one rank and m times at another compares the two as well "
            "as n m / (n + m) displays at each would. Displays that compare: between a rank and all others.",
            class_="quiet",
        ),
        element(
            "details",
            element("summary", "Between every two ranks"),
            table(
                "Displays that compare two ranks; on the diagonal all displays",
                ["rank", *(str(k + 1) for k in range(ranks))],
                between,
            ),
        ),
    )


def _method(estimate: BiasEstimate) -> Html:
    how = {
        "affine": "maximum likelihood, relevance integrated out over a distribution learned from the log",
        "position": "the same with β = 0",
        "harvesting": "clicks of documents at two ranks, for every two ranks",
    }
    intervals = (
        "none"
        if not estimate.resamples
        else f"{estimate.confidence:.0%}, from {estimate.resamples} drawings of queries with replacement"
    )
    return listing(
        [("model", NAMES[estimate.model]), ("estimate", how[estimate.model]), ("intervals", intervals)]
    )


def _points(axes: Axes, look: int, aside: float, values: Float64, ends: RankIntervals | None) -> None:
    ranks = np.arange(1, len(values) + 1) + aside
    axes.plot(ranks, values, marker=marker(look), markersize=MARKER_SIZES[1], color=colour(look))
    if ends is not None:
        # From the point to either end; rounding must not turn a length around.
        lengths = np.maximum([values - ends.low, ends.high - values], 0.0)
        axes.errorbar(ranks, values, lengths, linestyle="", capsize=3, color=colour(look))


def _axis_of_ranks(axes: Axes, ranks: int) -> None:
    axes.set_xlim(1 - ROOM, ranks + ROOM)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("rank")


def _spelt(values: Float64, ends: RankIntervals | None, k: int) -> str:
    return f"{values[k]:.3f}" if ends is None else f"{values[k]:.3f} ({_ends(ends, k)})"


def _ends(of: RankIntervals | None, k: int) -> str:
    return NONE if of is None else f"{of.low[k]:.4f} – {of.high[k]:.4f}"


def _svg(name: str, draw: Callable[[Axes], None]) -> str:
    # A figure of its own, not one of pyplot's: the caller's windows and backend are left alone.
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        drawn = Figure()
        draw(drawn.subplots(gridspec_kw=PLACE))
        return svg(drawn)
