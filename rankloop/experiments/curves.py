"""Curves over impressions, as SVG that is part of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rankloop.experiments.results import Row
from rankloop.experiments.summary import Curve, Group, Mean
from rankloop.loop import SUPPORT_LEVELS
from rankloop.reports.document import Figure, Figures, LegendEntry
from rankloop.reports.drawing import (
    MARKER_SIZES,
    SHARE_LIMITS,
    colour,
    draw_band,
    draw_level,
    draw_svg,
    marker,
    set_log_axis,
)
from rankloop.statistics.intervals import normal_quantile

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


# Free space above and below the curves, as a share of their height.
MARGIN = 0.05
# The dashes of the levels that runs are compared with.
START_DASHES, ORACLE_DASHES, TRUTH_DASHES = ":", "--", "--"


def full_name(group: Group) -> str:
    """A group by the name of its folder and by what sets it apart."""
    return f"{group.name}: {group.label}"


def value_figures(groups: Sequence[Group], metric: str) -> Figures:
    """The true metric of the learned and of the logging policies, on the same axes."""
    quantities: list[tuple[str, Callable[[Row], float]]] = [
        ("learned", lambda row: row.learned),
        ("logging", lambda row: row.logging),
    ]
    drawn = {name: [group.curve(quantity) for group in groups] for name, quantity in quantities}
    levels = _levels(groups)
    limits = _limits([curve for several in drawn.values() for curve in several], levels)
    captions = {
        "learned": "Learned policies, from all clicks so far.",
        "logging": "Logging policies: what users were shown while the clicks were collected.",
    }
    figures = tuple(
        Figure(
            partial(curves, name, _series(several), metric, span=_span(groups), levels=levels, limits=limits),
            captions[name],
            f"{metric} of the {name} policies by impressions. {_ends(groups, several)}",
        )
        for name, several in drawn.items()
    )
    drawn_dashes = {level.dashes for level in levels}
    lines = [("starting policy", START_DASHES), ("oracle", ORACLE_DASHES)]
    return Figures(figures, _legend(groups, *(line for line in lines if line[1] in drawn_dashes)))


def estimate_figures(groups: Sequence[Group]) -> Figures:
    """The estimate of each learned policy from held-out clicks, next to its true value."""
    figures = []
    for i, group in enumerate(groups):
        estimate = group.curve(lambda row: row.estimate)
        errors = group.curve(lambda row: row.estimate_error).values
        noisy = Curve(estimate.times, estimate.values, normal_quantile() * np.nan_to_num(errors))
        truth = group.curve(lambda row: row.truth)
        exact = Curve(truth.times, truth.values, np.zeros_like(truth.values))
        drawn = [Series(exact, None), Series(noisy, i)]
        figures.append(
            Figure(
                partial(curves, f"estimate-{i}", drawn, "metric per held-out query", span=_span(groups)),
                full_name(group),
                f"Estimated and true metric by impressions. At the end the estimate is "
                f"{noisy.values[-1]:.4f} ± {noisy.half_widths[-1]:.4f}, the truth {truth.values[-1]:.4f}.",
            )
        )
    return Figures(tuple(figures), _legend(groups, ("true metric", TRUTH_DASHES)))


def support_figures(groups: Sequence[Group]) -> Figures:
    """The number of documents that the logging policies hardly show, and the scales of these policies."""
    quantities: list[tuple[str, str, Callable[[Row], float], str, str]] = [
        (
            f"support-{level:g}",
            "share of documents",
            _share_below(f"{level:g}"),
            f"Documents whose expected α is below {level:g} under the logging policy.",
            f"Share of documents with an expected α below {level:g}.",
        )
        for level in SUPPORT_LEVELS
    ]
    quantities.append(
        (
            "scale",
            "scale of the scores",
            lambda row: row.scale,
            "Softness of the logging policies: the factor that the learned scores were multiplied by.",
            "Scale of the logging policies' scores.",
        )
    )
    figures = []
    for name, label, quantity, caption, words in quantities:
        several = [group.curve(quantity) for group in groups]
        draw = partial(curves, name, _series(several), label, span=_span(groups), limits=SHARE_LIMITS)
        figures.append(Figure(draw, caption, f"{words} {_ends(groups, several)}"))
    return Figures(tuple(figures), _legend(groups))


def _legend(groups: Sequence[Group], *lines: tuple[str, str]) -> tuple[LegendEntry, ...]:
    """One curve per group, and lines in ink by their names and dashes."""
    entries = [LegendEntry(full_name(group), i) for i, group in enumerate(groups)]
    return (*entries, *(LegendEntry(name, None, dashes) for name, dashes in lines))


def _share_below(level: str) -> Callable[[Row], float]:
    return lambda row: row.support[level]


def _series(several: Sequence[Curve]) -> list[Series]:
    return [Series(curve, i) for i, curve in enumerate(several)]


def _span(groups: Sequence[Group]) -> tuple[float, float]:
    """The horizontal axis that all figures share, so that they can be read side by side."""
    return float(min(group.times[0] for group in groups)), float(max(group.times[-1] for group in groups))


def _levels(groups: Sequence[Group]) -> list[Level]:
    """The starting policy and oracle of each group; in ink if all groups share them."""
    levels = []
    for dashes, values in (
        (START_DASHES, [group.mean(lambda run: run.facts.start).value for group in groups]),
        (ORACLE_DASHES, [bound.value if (bound := group.oracle) else None for group in groups]),
    ):
        shared = len(set(values)) == 1
        for i, value in enumerate(values[:1] if shared else values):
            if value is not None:
                levels.append(Level(value, dashes, None if shared else i))
    return levels


def _limits(drawn: Sequence[Curve], levels: Sequence[Level]) -> tuple[float, float]:
    ends = [end for c in drawn for end in (*(c.values - c.half_widths), *(c.values + c.half_widths))]
    ends += [level.value for level in levels]
    low, high = min(ends), max(ends)
    margin = MARGIN * ((high - low) or 1.0)
    return low - margin, high + margin


def _ends(groups: Sequence[Group], several: Sequence[Curve]) -> str:
    ends = (
        f"{full_name(group)}: {Mean(float(curve.values[-1]), float(curve.half_widths[-1]))}"
        for group, curve in zip(groups, several, strict=True)
    )
    return f"At the end, {'; '.join(ends)}."
