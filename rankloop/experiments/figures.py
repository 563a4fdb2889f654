"""Figures as SVG that is part of a page: one look, readable in grey, by the colour-blind, light or dark.

Colours are written as variables of the page's style, with a default for light paper, so that the page decides
how they look. Legends are the page's too: its text wraps and grows as the reader needs it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rankloop.experiments.summary import Curve

# Okabe & Ito's palette, told apart by colour-blind readers; ink is kept for axes and reference lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
# In points. They shrink, so that a curve which lies upon another leaves that one's markers to be seen.
MARKER_SIZES = (6.0, 4.5, 3.0)
# No black that anything else would be drawn in: it is searched for in the SVG.
INK = "#010203"
# Small, because a phone shows it at about this size.
INCHES = (5.0, 3.1)
STYLE: Any = {
    "figure.figsize": INCHES,
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.4,
    # Text stays text, which can be searched and read aloud.
    "svg.fonttype": "none",
}
# Where the axes stand, as shares of the figure: the same in all, so that those above each other line up.
PLACE = {"left": 0.15, "right": 0.985, "bottom": 0.155, "top": 0.975}
BAND_OPACITY = 0.18
# How far a logarithmic axis goes on beyond the first and the last point, as a factor.
ROOM = 1.4
# A shorter axis may have no power of ten on it to be labelled.
DECADE = 10.0


@dataclass(frozen=True)
class Series:
    """A curve of a figure.

    Attributes:
        curve: what is drawn.
        look: which colour and marker it has; None for ink and dashes, the truth beside its estimates.
    """

    curve: Curve
    look: int | None


@dataclass(frozen=True)
class Level:
    """A value that does not change, drawn as a horizontal line.

    Attributes:
        value: where.
        dashes: how the line looks, as matplotlib has it: ``:`` or ``--``.
        look: whose it is; None if it belongs to all.
    """

    value: float
    dashes: str
    look: int | None = None


def colour(look: int | None) -> str:
    """The colour of a look; ink for what belongs to all."""
    return INK if look is None else COLOURS[look % len(COLOURS)]


def variable(look: int) -> str:
    """The colour of a look as the style of a page has it.

    >>> variable(0)
    'var(--series-0, #0072b2)'
    """
    return f"var(--series-{look % len(COLOURS)}, {colour(look)})"


def marker(look: int) -> str:
    """The marker of a look: when the colours have been used up, they come again with other markers."""
    return MARKERS[(look + look // len(COLOURS)) % len(MARKERS)]


def curves(
    name: str,
    series: Sequence[Series],
    label: str,
    *,
    span: tuple[float, float],
    levels: Sequence[Level] = (),
    limits: tuple[float, float] | None = None,
) -> str:
    """Curves over a logarithmic axis of interactions, as SVG.

    Args:
        name: different for each figure of a page: the ids in the SVG are made from it, and not at random.
        series: what is drawn, each with its confidence band.
        label: of the vertical axis.
        span: the fewest and the most interactions that the axis has to show.
        levels: horizontal lines.
        limits: of the vertical axis; None to fit what is drawn.
    """
    # A figure of its own, not one of pyplot's: the caller's windows and backend are left alone.
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name}):
        figure = Figure()
        axes = figure.subplots(gridspec_kw=PLACE)
        for level in levels:
            axes.axhline(level.value, color=colour(level.look), linestyle=level.dashes, linewidth=1.1)
        for one in series:
            _draw(axes, one)
        axes.set_xscale("log")
        axes.set_xlim(span[0] / ROOM, span[1] * ROOM)
        if axes.get_xlim()[1] < DECADE * axes.get_xlim()[0]:
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("logged interactions")
        axes.set_ylabel(label)
        if limits is not None:
            axes.set_ylim(*limits)
        return _svg(figure)


def _draw(axes: Axes, series: Series) -> None:
    curve, paint, alone = series.curve, colour(series.look), len(series.curve.times) == 1
    if series.look is None:
        axes.plot(curve.times, curve.values, linestyle="--", marker="x" if alone else "", color=paint)
    else:
        size = MARKER_SIZES[0 if alone else series.look % len(MARKER_SIZES)]
        axes.plot(curve.times, curve.values, marker=marker(series.look), markersize=size, color=paint)
    if not np.any(curve.half_widths > 0):
        return
    if alone:
        axes.errorbar(curve.times, curve.values, curve.half_widths, color=paint, capsize=4)
    else:
        low, high = curve.values - curve.half_widths, curve.values + curve.half_widths
        axes.fill_between(curve.times, low, high, color=paint, alpha=BAND_OPACITY, linewidth=0)


def short_count(value: float) -> str:
    """A count as an axis has it.

    >>> [short_count(value) for value in (100, 1_000, 20_000, 1e6, 1e8)]
    ['100', '1k', '20k', '1M', '100M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element of a page: its style is the page's, nothing is from elsewhere."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    for unwanted in (
        r"<metadata>.*?</metadata>\s*",
        r"<defs>\s*<style.*?</style>\s*</defs>\s*",
        r'\s+xmlns(:\w+)?="[^"]*"',
        r" font-family: [^;]*;",
        r' transform="rotate\(-0 [^"]*"',
        # What is not drawn, and ids that nothing refers to: "axes_1" would be in every figure of the page.
        r'<path d="[^"]*" style="fill: none"/>\s*',
        r' id="[A-Za-z0-9.]+_\d+"',
    ):
        text = re.sub(unwanted, "", text, flags=re.DOTALL)
    text = text.replace("xlink:href", "href").replace(INK, "currentColor")
    for look, paint in enumerate(COLOURS):
        text = text.replace(paint, variable(look))
    return text
