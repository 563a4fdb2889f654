"""The report on how users click: α and β by rank with their intervals, and what the log can tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rankloop.bias import BiasEstimate
from rankloop.reports.document import (
    NONE,
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
from rankloop.reports.drawing import MARKER_SIZES, SHARE_LIMITS, colour, draw_svg, marker, set_rank_axis
from rankloop.statistics import Interval
from rankloop.types import LIST_LENGTH, Float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {
    "affine": "affine",
    "position": "position-based",
    "harvesting": "intervention harvesting",
    "curve": "k^−η",
}
METHODS = {
    "affine": "maximum likelihood, with relevance integrated out over a distribution learned from the log",
    "position": "the same with β = 0",
    "harvesting": "clicks on documents at two ranks, for every pair of ranks",
    "curve": "maximum likelihood of the ranks at which documents are clicked, given how often they are",
}
SOURCES = {
    "pairs": "Estimated from pairs of query and document that moved between ranks",
    "documents": "Estimated from documents that moved between ranks, pooled over queries",
    "features": "Estimated with relevance that is predicted from features",
    "randomised": "Estimated from the clicks on what a randomised policy showed",
}
# The relevance of each line of the second figure, and its dashes.
RELEVANCES = ((1.0, "-"), (0.5, "--"), (0.0, ":"))
ALPHA, BETA, CHANCES, EXAMINATION = 0, 1, 2, 3
# How far the two points of a rank are from its middle, so that neither hides the other.
ASIDE = 0.08


def bias_document(estimate: BiasEstimate) -> Document:
    """The report on an estimated bias."""
    return Document(
        "how users click",
        "How users click",
        (
            Text(estimate.headline, brief=True),
            Text(_source(estimate), brief=True),
            Text(
                "A document of relevance R at rank k is clicked with probability α R + β: α is what "
                "relevance adds, and β is the probability of clicks that have nothing to do with relevance."
            ),
            *warnings(estimate.notes),
            Figures(
                (_points_by_position(estimate), _chances(estimate)),
                (LegendEntry("α", ALPHA), LegendEntry("β", BETA), LegendEntry("examination", EXAMINATION)),
            ),
            *_numbers(estimate),
            *_contexts(estimate),
            Section("Affine or position-based", tuple(_comparison(estimate))),
            Section("What the log can tell", tuple(_movement(estimate))),
            Section("How it was estimated", (_method(estimate), *_check(estimate))),
            next_step(Text(_next_step(estimate), brief=True)),
        ),
    )


def bias_table(
    alpha: Iterable[float],
    beta: Iterable[float],
    examination: Iterable[float],
    caption: str = "How users click",
) -> Table:
    """A table of a bias, with one column per rank."""
    rows = [
        [name, *(f"{value:.4f}" for value in values)]
        for name, values in (("α", alpha), ("β", beta), ("examination", examination))
    ]
    ranks = [f"rank {k}" for k in range(1, len(rows[0]))]
    explained = "a document of relevance R at rank k is clicked with probability α R + β"
    return Table.build(f"{caption}: {explained}", ["", *ranks], rows)


def _source(estimate: BiasEstimate) -> str:
    """Which method was used and what it assumes."""
    assumption = f"{estimate.assumption[0].upper()}{estimate.assumption[1:]}"
    if not estimate.is_estimated:
        return f"Nothing was estimated. Assumption: {assumption}."
    return f"{SOURCES[estimate.method]}. Assumption: {assumption}."


def _points_by_position(estimate: BiasEstimate) -> Figure:
    found = estimate.bias

    def draw(axes: Axes) -> None:
        _points(axes, ALPHA, -ASIDE, found.alpha, estimate.alpha)
        _points(axes, BETA, ASIDE, found.beta, estimate.beta)
        _points(axes, EXAMINATION, 0.0, found.examination, estimate.examination)
        set_rank_axis(axes, len(estimate.movement.displays))
        axes.set_ylim(*SHARE_LIMITS)

    words = "; ".join(
        f"rank {k + 1}: α {_in_words(found.alpha, estimate.alpha, k)}, "
        f"β {_in_words(found.beta, estimate.beta, k)}, "
        f"examination {_in_words(found.examination, estimate.examination, k)}"
        for k in range(found.positions)
    )
    intervals = "" if estimate.alpha is None else f" with {estimate.confidence:.0%} intervals"
    return Figure(
        partial(draw_svg, "lines", draw),
        f"α, β and examination by rank{intervals}.",
        f"α and β by rank: {words}.",
    )


def _chances(estimate: BiasEstimate) -> Figure:
    found, moved = estimate.bias, estimate.movement

    def draw(axes: Axes) -> None:
        ranks = np.arange(1, found.positions + 1)
        for relevance, dashes in RELEVANCES:
            axes.plot(ranks, found.click_chance(relevance), linestyle=dashes, color=colour(CHANCES))
        ranks = np.arange(1, len(moved.rates) + 1)
        axes.plot(ranks, moved.rates, linestyle="", marker="x", color=colour(None))
        set_rank_axis(axes, len(moved.displays))
        axes.set_ylim(*SHARE_LIMITS)
        axes.set_ylabel("probability of a click")

    rates = ", ".join(f"{rate:.3f}" for rate in moved.rates)
    return Figure(
        partial(draw_svg, "chances", draw),
        "The probability of a click on documents of relevance 1 (solid), ½ (dashed) and 0 (dotted), and the "
        "share that was clicked (crosses), which also depends on the relevance of what was shown.",
        f"Share clicked by rank: {rates}.",
    )


def _numbers(estimate: BiasEstimate) -> Iterator[Block]:
    found = estimate.bias
    share = f"{estimate.confidence:.0%} interval"
    columns: list[str | Column] = [
        "rank",
        "α",
        share,
        "β",
        share,
        "examination",
        Column(share, brief=False),
    ]
    rows = [
        [
            f"{k + 1}",
            *(f"{found.alpha[k]:.3f}", _interval(estimate.alpha, k)),
            *(f"{found.beta[k]:.3f}", _interval(estimate.beta, k)),
            *(f"{found.examination[k]:.3f}", _interval(estimate.examination, k)),
        ]
        for k in range(found.positions)
    ]
    refused = range(found.positions, len(estimate.movement.displays))
    rows += [[f"{k + 1}", *[NONE] * 6] for k in refused]
    yield Table.build(f"α and β by rank, {NAMES[estimate.model]} model", columns, rows, brief=True)
    yield Text(f"Scale: {estimate.anchor}.", brief=True)
    yield Text(_examination(estimate), "quiet")


def _contexts(estimate: BiasEstimate) -> Iterator[Block]:
    """How much more users click in some contexts."""
    effects = estimate.bias.contexts
    if effects is None:
        return
    of_length = effects.of == LIST_LENGTH
    # Lengths have one effect for all ranks; values of a column have one per rank.
    ranks = (0,) if of_length else range(effects.ranks)
    known = range(len(effects.values) - (not of_length))
    names = [f"from {value}" if of_length else value for value in effects.values]
    rows = [
        [
            names[place],
            *(
                f"{effects.factors[place, k]:.2f}"
                + (
                    ""
                    if effects.low is None or effects.high is None
                    else f" ({effects.low[place, k]:.2f} – {effects.high[place, k]:.2f})"
                )
                for k in ranks
            ),
        ]
        for place in known
    ]
    columns = [effects.of, *(["times as often"] if of_length else [f"rank {k + 1}" for k in ranks])]
    yield Table.build(
        f"How often the same document at the same rank is clicked, by {effects.of}, relative to the mean "
        f"({estimate.confidence:.0%} intervals)",
        columns,
        rows,
        brief=True,
    )
    yield Text(
        "α and β are those of the mean. A display where users click more often counts as often.",
        "quiet",
    )


def _examination(estimate: BiasEstimate) -> str:
    """What examination means here."""
    if not estimate.is_estimated:
        return "Examination is that of the assumed curve; estimators without trust bias use it."
    return (
        "Examination is α + β, relative to rank 1: how often a document of relevance 1 is clicked there, and "
        "how often users look there if they click every such document that they see. Estimators without "
        "trust bias use it."
    )


def _comparison(estimate: BiasEstimate) -> Iterator[Block]:
    found = estimate.comparison
    if found is None:
        yield Text("The two models were not compared.", "quiet")
        return
    decision = found.decision
    yield Text(f"{decision[0].upper()}{decision[1:]}.", brief=True)
    yield Table.build(
        "Clicks on held-out queries, with relevance integrated out",
        ["model", "log-likelihood per display", "perplexity"],
        [
            [NAMES[name], f"{value:.5f}", f"{np.exp(-value):.4f}"]
            for name, value in (("affine", found.affine), ("position", found.position))
        ],
    )


def _movement(estimate: BiasEstimate) -> Iterator[Block]:
    moved = estimate.movement
    if estimate.method == "features":
        yield Text(
            "This estimate compares different documents with similar features. The table counts what pairs "
            "of query and document would tell without features."
        )
    ranks = range(len(moved.displays))
    rows = [
        [
            f"{k + 1}",
            f"{moved.displays[k]:,.0f}",
            f"{moved.rates[k]:.3f}",
            f"{moved.documents[k, k]:,}",
            f"{moved.moved[k]:,.0f}",
            "yes" if moved.connected[k] else "no",
        ]
        for k in ranks
    ]
    columns = ["rank", "displays", "clicked", "documents", "comparing displays", "comparable"]
    yield Table.build("Movement of documents between ranks", columns, rows, brief=True)
    yield Text(
        "A document that was shown n times at one rank and m times at another compares the two as well as "
        "n m / (n + m) displays at each would. Comparing displays: the sum between a rank and all others.",
        "quiet",
    )
    yield Table.build(
        "Displays that compare each pair of ranks; on the diagonal, all displays",
        ["rank", *(f"{k + 1}" for k in ranks)],
        [[f"{j + 1}", *(f"{moved.effective[j, k]:,.0f}" for k in ranks)] for j in ranks],
        folded=True,
    )


def _method(estimate: BiasEstimate) -> Facts:
    intervals = (
        f"{estimate.confidence:.0%}, from {estimate.resamples} bootstrap samples"
        if estimate.resamples
        else "none"
    )
    name = estimate.model
    facts = [("source", _source(estimate)), ("model", NAMES[name])]
    if estimate.method in ("pairs", "documents"):
        facts.append(("fit", METHODS[name]))
    return Facts((*facts, ("intervals", intervals)))


def _check(estimate: BiasEstimate) -> Iterator[Block]:
    found = estimate.check
    if found is None:
        return
    columns = ["rank", "harvested", "expected from α and β", "standard error"]
    rows = [
        [
            f"{k + 1}",
            f"{found.harvested[k]:.3f}",
            f"{found.expected[k]:.3f}",
            NONE if found.error is None else f"{found.error[k]:.3f}",
        ]
        for k in range(len(found.harvested))
    ]
    yield Table.build(
        f"Check: clicks at each rank relative to rank 1, on the same {found.unit}", columns, rows, folded=True
    )
    yield Text(
        "Harvested: from what was shown at two ranks, with no model of relevance. Expected: the same from "
        "the clicks that α and β expect. If the estimate is right, the two agree.",
        "quiet",
    )


def _next_step(estimate: BiasEstimate) -> str:
    """What to do with the estimate."""
    if estimate.method == "assumed":
        return (
            "`rankloop evaluate LOG … --sensitivity` shows how far a decision depends on the assumed curve. "
            "Let a part of the traffic vary its rankings, and the curve can be estimated."
        )
    return (
        "`rankloop fit LOG --bias FILE` learns a ranker with this bias. `rankloop evaluate` compares "
        "rankers, and its intervals include the uncertainty of the bias."
    )


def _points(axes: Axes, look: int, aside: float, values: Float64, ends: Interval | None) -> None:
    ranks = np.arange(1, len(values) + 1) + aside
    axes.plot(ranks, values, marker=marker(look), markersize=MARKER_SIZES[1], color=colour(look))
    if ends is not None:
        # From the point to either end; rounding must not make a length negative.
        lengths = np.maximum([values - ends.low, ends.high - values], 0.0)
        axes.errorbar(ranks, values, lengths, linestyle="", capsize=3, color=colour(look))


def _in_words(values: Float64, ends: Interval | None, k: int) -> str:
    return f"{values[k]:.3f}" if ends is None else f"{values[k]:.3f} ({_interval(ends, k)})"


def _interval(of: Interval | None, k: int) -> str:
    return NONE if of is None else f"{of.low[k]:.3f} – {of.high[k]:.3f}"
