"""Curves over impressions, as SVG that is part of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rankloop.experiments.summary import Curve
from rankloop.reports.drawing import draw_band, draw_level, draw_svg, set_log_axis
from rankloop.reports.style import MARKER_SIZES, colour, marker

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Series:
    """A curve of a figure.

    Attributes:
        curve: the values to draw.
        look: the number of its colour and marker; None for ink and dashes, as for true values.
    """

    curve: Curve
    look: int | None


@dataclass(frozen=True)
class Level:
    """A value that does not change, drawn as a horizontal line.

    Attributes:
        value: its height.
        dashes: how the line is drawn, as matplotlib writes it: ``:`` or ``--``.
        look: the look of the curve it belongs to; None if it belongs to all.
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
    """Curves over a logarithmic axis of impressions, as SVG.

    Args:
        name: different for each figure of a page; the ids in the SVG are derived from it.
        series: the curves, each with its confidence band.
        label: of the vertical axis.
        span: the fewest and the most impressions that the axis must show.
        levels: horizontal lines.
        limits: of the vertical axis; None to fit what is drawn.
    """

    def draw(axes: Axes) -> None:
        for level in levels:
            draw_level(axes, level.value, level.dashes, level.look)
        for each in series:
            _draw(axes, each)
        set_log_axis(axes, span, "impressions")
        axes.set_ylabel(label)
        if limits is not None:
            axes.set_ylim(*limits)

    return draw_svg(name, draw)


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
        draw_band(axes, series.look, curve.times, low, high)
