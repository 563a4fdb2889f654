"""Curves over interactions, as SVG that is part of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from rankloop.experiments.summary import Curve
from rankloop.reports.style import BAND_OPACITY, MARKER_SIZES, PLACE, STYLE, colour, marker, short_count, svg

# How far a logarithmic axis extends beyond the first and the last point, as a factor.
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
        return svg(figure)


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
