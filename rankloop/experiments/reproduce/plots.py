"""Figures as files: for print and for the web, readable in grey and by the colour-blind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rankloop.estimators import InterventionAware, InterventionOblivious
from rankloop.experiments.reproduce.figures import AnyFigure, CurvesFigure, ExampleFigure, Level, Panel
from rankloop.experiments.reproduce.results import AllRuns
from rankloop.reports.drawing import colour, draw_band, marker, set_log_axis, settings
from rankloop.storage.files import write_whole

FORMATS = ("svg", "pdf", "png")
# No date: a fixed one would be wrong, and the real one would change the file.
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}
# Two columns of a paper are about 7 inches wide: text keeps its size when the figure is included.
INCHES, PANEL_INCHES, LEGEND_INCHES = 7.0, 2.6, 0.2
LEGEND_COLUMNS, LEGEND_LINE = 2, 3.2
TEXT_POINTS, LEGEND_POINTS = 9.5, 8.5
DOTS_PER_INCH = 200
# Markers tell lines apart in grey; on every point of a long curve they would hide it.
MARKERS_PER_LINE = 9
MARKER_SIZE = 4.5
# Of the curves; baselines are thin lines without markers.
DASHES: tuple[Any, ...] = (
    "-",
    (0, (6, 1.5)),
    (0, (3, 1)),
    (0, (6, 1.5, 1.5, 1.5)),
    (0, (1.5, 1)),
    (0, (9, 2)),
)
LEVEL_WIDTH = 0.9
# Where runs end before those of other lines.
END: Any = {"marker": "|", "markersize": 11, "markeredgewidth": 2.0, "linestyle": "none"}
# What runs are compared with: by the name of the baseline, what the legend calls it and how it is drawn.
LEVELS: dict[Level, tuple[str, Any]] = {
    "noise_free": ("ceiling: labels without noise", (0, (1, 3))),
    "best_supervised": ("supervised, competent learner", (0, (8, 2, 1, 2, 1, 2))),
    "supervised": ("supervised, the paper's learner", "--"),
    "oracle": ("oracle: true relevance, same learner", "-."),
    "start": ("production ranker", ":"),
}


def draw(figure: AnyFigure, evidence: AllRuns) -> Figure:
    """Draw the figure."""
    with matplotlib.rc_context(settings(figure.name)):
        if isinstance(figure, ExampleFigure):
            return _example(figure)
        return _curves(figure, evidence)


def write_figure(figure: AnyFigure, evidence: AllRuns, folder: Path) -> list[Path]:
    """Write the figure in all formats, and its spec; return the paths."""
    drawn = draw(figure, evidence)
    paths = []
    for kind in FORMATS:
        with matplotlib.rc_context(settings(figure.name)):
            buffer = io.BytesIO()
            drawn.savefig(buffer, format=kind, dpi=DOTS_PER_INCH, metadata=METADATA[kind], facecolor="white")
        paths.append(write_whole(folder / f"{figure.name}.{kind}", buffer.getvalue()))
    spec = figure.model_dump_json(indent=2).encode()
    return [*paths, write_whole(folder / f"{figure.name}.json", spec)]


def _curves(spec: CurvesFigure, evidence: AllRuns) -> Figure:
    handles = _legend(spec, evidence)
    rows = -(-len(handles) // LEGEND_COLUMNS)
    height = len(spec.panels) * PANEL_INCHES + LEGEND_INCHES * rows
    figure = Figure(figsize=(INCHES, height), layout="constrained")
    grid = figure.subplots(len(spec.panels), 1, sharex=True, sharey=True, squeeze=False)
    several: Sequence[Axes] = list(grid[:, 0])
    shown = [evidence.curves(arm).times for arm in spec.arms if arm in evidence.learned]
    if shown:
        # Before anything is drawn: panels that are compared have one axis, whatever they show.
        set_log_axis(several[0], (min(map(min, shown)), max(map(max, shown))))
    for axes, panel, letter in zip(several, spec.panels, "abcdef", strict=False):
        _draw_levels(axes, spec.levels, evidence)
        _draw_lines(axes, panel, evidence)
        axes.set_title(f"({letter}) {panel.title}", fontsize=TEXT_POINTS, loc="left")
        axes.set_ylabel("NDCG@5")
    several[-1].set_xlabel("impressions")
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=LEGEND_COLUMNS,
        frameon=False,
        fontsize=LEGEND_POINTS,
        handlelength=LEGEND_LINE,
    )
    return figure


def _draw_levels(axes: Axes, levels: Sequence[Level], evidence: AllRuns) -> None:
    for name in levels:
        if evidence.has_baseline(name) and not _is_below_start(name, evidence):
            height = float(evidence.baseline(name).mean())
            axes.axhline(height, color=colour(None), linestyle=LEVELS[name][1], linewidth=LEVEL_WIDTH)


def _is_below_start(name: Level, evidence: AllRuns) -> bool:
    """Whether a baseline did not even learn what the production ranker knows: then it bounds no curve.

    The axis would have to reach far down for it, and flatten everything else.
    """
    return bool(evidence.baseline(name).mean() < evidence.baseline("start").mean())


def _level_label(name: Level, evidence: AllRuns) -> str:
    label = LEVELS[name][0]
    if _is_below_start(name, evidence):
        return f"{label} ({evidence.baseline(name).mean():.3f}, not drawn)"
    return label


def _draw_lines(axes: Axes, panel: Panel, evidence: AllRuns) -> None:
    drawn = [line for line in panel.lines if line.arm in evidence.learned]
    horizon = max((int(evidence.curves(line.arm).times[-1]) for line in drawn), default=0)
    for line in drawn:
        curve = evidence.curves(line.arm, panel.quantity).curve()
        axes.plot(
            curve.times,
            curve.values,
            color=colour(line.look),
            linestyle=dashes_of(line.look),
            marker=marker(line.look),
            markersize=MARKER_SIZE,
            # Lines have their markers at different times: they would hide each other where lines meet.
            markevery=(line.look % 3, max(1, len(curve.times) // MARKERS_PER_LINE)),
        )
        low, high = curve.values - curve.half_widths, curve.values + curve.half_widths
        draw_band(axes, line.look, curve.times, low, high)
        if curve.times[-1] < horizon:
            axes.plot(curve.times[-1:], curve.values[-1:], color=colour(line.look), **END)


def _legend(spec: CurvesFigure, evidence: AllRuns) -> list[Line2D]:
    lines = {line.label: line for panel in spec.panels for line in panel.lines}
    # A label may stand for a line in each panel, of different runs.
    drawn = {line.label for panel in spec.panels for line in panel.lines if line.arm in evidence.learned}
    handles = [
        Line2D(
            [], [],
            color=colour(line.look),
            linestyle=dashes_of(line.look),
            marker=marker(line.look),
            markersize=MARKER_SIZE,
            label=label if label in drawn else f"{label} (not run)",
        )
        for label, line in lines.items()
    ]  # fmt: skip
    handles += [
        Line2D(
            [], [],
            color=colour(None),
            linestyle=LEVELS[name][1],
            linewidth=LEVEL_WIDTH,
            label=_level_label(name, evidence),
        )
        for name in spec.levels
        if evidence.has_baseline(name)
    ]  # fmt: skip
    if _some_end_early(spec, evidence):
        handles.append(Line2D([], [], color=colour(None), label="end of runs that are shorter", **END))
    return handles


def _some_end_early(spec: CurvesFigure, evidence: AllRuns) -> bool:
    for panel in spec.panels:
        ends = {int(evidence.curves(x.arm).times[-1]) for x in panel.lines if x.arm in evidence.learned}
        if len(ends) > 1:
            return True
    return False


def dashes_of(look: int) -> Any:
    """How the line of a look is drawn: in grey, dashes and markers tell lines apart."""
    return DASHES[look % len(DASHES)]


def _example(spec: ExampleFigure) -> Figure:
    figure = Figure(figsize=(INCHES, PANEL_INCHES), layout="constrained")
    left, right = figure.subplots(1, 2)
    weights = [
        spec.weights(kind) for kind in (InterventionAware(clip="off"), InterventionOblivious(clip="off"))
    ]
    exposures = [1.0 / values for values in weights]
    # The dashed line comes last: before the change both are the same, and it must not hide the other.
    for axes, values, names, title in (
        (left, exposures, ("E[α | Π$_T$]", "E[α | π$_T$]"), "Expected α of the document"),
        (right, weights, ("intervention-aware", "intervention-oblivious"), "Weight of a click at T"),
    ):
        for look, (series, name, dashes) in enumerate(zip(values, names, ("-", "--"), strict=True)):
            paint = colour(look)
            # One curve jumps at the change: it is drawn in two parts, so that the jump has no slope.
            for part in (spec.times <= spec.change, spec.times > spec.change):
                axes.plot(
                    spec.times[part],
                    series[part],
                    color=paint,
                    linestyle=dashes,
                    label=name if part[0] else None,
                )
        axes.axvline(spec.change, color=colour(None), linestyle=":", linewidth=1.0)
        axes.set_title(title, fontsize=TEXT_POINTS, loc="left")
        axes.set_xlabel("impression T")
        axes.set_ylim(bottom=0.0)
        axes.legend(frameon=False, fontsize=LEGEND_POINTS)
    return figure
