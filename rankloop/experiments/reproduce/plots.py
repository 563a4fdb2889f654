"""Figures as files: for print and for the web, readable in grey and by the colour-blind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rankloop.estimators import InterventionAware, InterventionOblivious
from rankloop.experiments.reproduce.evidence import Evidence
from rankloop.experiments.reproduce.figures import AnyFigure, CurvesFigure, ExampleFigure, Panel
from rankloop.reports.drawing import draw_band, set_log_axis, settings
from rankloop.reports.style import colour, marker
from rankloop.storage.files import write_whole

FORMATS = ("svg", "pdf", "png")
# No date: a fixed one would be wrong, and the real one would change the file.
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
    "png": {"Software": None},
}
INCHES, PANEL_INCHES, LEGEND_INCHES = 6.4, 2.7, 0.24
DOTS_PER_INCH = 200
# Markers tell lines apart in grey; on every point of a long curve they would hide it.
MARKERS_PER_LINE = 9
MARKER_SIZE = 4.5
# What runs are compared with: by the name of the baseline, what the legend calls it and how it is drawn.
LEVELS: dict[str, tuple[str, Literal["--", "-.", ":"]]] = {
    "supervised": ("supervised, all labels", "--"),
    "oracle": ("oracle: true relevance, same learner", "-."),
    "start": ("production ranker", ":"),
}


def draw(figure: AnyFigure, evidence: Evidence) -> Figure:
    """Draw the figure."""
    with matplotlib.rc_context(settings(figure.name)):
        if isinstance(figure, ExampleFigure):
            return _example(figure)
        return _curves(figure, evidence)


def write_figure(figure: AnyFigure, evidence: Evidence, folder: Path) -> list[Path]:
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


def _curves(spec: CurvesFigure, evidence: Evidence) -> Figure:
    labels = list(dict.fromkeys(line.label for panel in spec.panels for line in panel.lines))
    entries = len(labels) + len(LEVELS)
    height = len(spec.panels) * PANEL_INCHES + LEGEND_INCHES * (entries + 1) // 2
    figure = Figure(figsize=(INCHES, height), layout="constrained")
    several: Sequence[Axes] = figure.subplots(len(spec.panels), 1, sharex=True, sharey=True)
    for axes, panel in zip(several, spec.panels, strict=True):
        _panel(axes, panel, evidence)
    several[-1].set_xlabel("logged queries")
    handles = _legend(spec)
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=8.5)
    return figure


def _panel(axes: Axes, panel: Panel, evidence: Evidence) -> None:
    for name, (_, dashes) in LEVELS.items():
        axes.axhline(
            float(evidence.baseline(name).mean()), color=colour(None), linestyle=dashes, linewidth=1.0
        )
    ends: list[float] = []
    for line in panel.lines:
        curve = evidence.curves(line.arm, panel.quantity).curve()
        axes.plot(
            curve.times,
            curve.values,
            color=colour(line.look),
            marker=marker(line.look),
            markersize=MARKER_SIZE,
            # Lines have their markers at different times: they would hide each other where lines meet.
            markevery=(line.look % 3, max(1, len(curve.times) // MARKERS_PER_LINE)),
        )
        low, high = curve.values - curve.half_widths, curve.values + curve.half_widths
        draw_band(axes, line.look, curve.times, low, high)
        ends += [float(curve.times[0]), float(curve.times[-1])]
    set_log_axis(axes, (min(ends), max(ends)))
    axes.set_title(panel.title, fontsize=9.5, loc="left")
    axes.set_ylabel("NDCG@5")


def _legend(spec: CurvesFigure) -> list[Line2D]:
    lines = {line.label: line for panel in spec.panels for line in panel.lines}
    handles = [
        Line2D([], [], color=colour(line.look), marker=marker(line.look), markersize=MARKER_SIZE, label=label)
        for label, line in lines.items()
    ]
    return handles + [
        Line2D([], [], color=colour(None), linestyle=dashes, linewidth=1.0, label=label)
        for label, dashes in LEVELS.values()
    ]


def _example(spec: ExampleFigure) -> Figure:
    figure = Figure(figsize=(INCHES, PANEL_INCHES), layout="constrained")
    left, right = figure.subplots(1, 2)
    weights = [
        spec.weights(kind) for kind in (InterventionAware(clip="off"), InterventionOblivious(clip="off"))
    ]
    exposures = [1.0 / values for values in weights]
    # The dashed line comes last: before the change both are the same, and it must not hide the other.
    for axes, values, names, title in (
        (left, exposures, ("E[α | Π$_T$]", "E[α | π$_T$]"), "Expected α of the item"),
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
        axes.set_title(title, fontsize=9.5, loc="left")
        axes.set_xlabel("timestep T")
        axes.set_ylim(bottom=0.0)
        axes.legend(frameon=False, fontsize=8.5)
    return figure
