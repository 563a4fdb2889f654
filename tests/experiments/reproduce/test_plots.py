"""The paper's figures as pictures: what is drawn is what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.estimators import InterventionAware, InterventionOblivious
from rankloop.experiments.reproduce.figures import FIGURES, CurvesFigure
from rankloop.experiments.reproduce.figures.example import FIGURE as EXAMPLE
from rankloop.experiments.reproduce.plots import LEVELS, draw, write_figure
from rankloop.reports.style import colour, marker
from tests.experiments.reproduce.test_claims import TIMES, evidence

CURVES = {name: figure for name, figure in FIGURES.items() if isinstance(figure, CurvesFigure)}


@pytest.mark.parametrize("name", CURVES)
def test_lines_are_means_and_bands_their_bounds(name: str) -> None:
    spec, shown = CURVES[name], evidence()
    figure = draw(spec, shown)
    assert len(figure.axes) == len(spec.panels)
    for axes, panel in zip(figure.axes, spec.panels, strict=True):
        assert axes.get_xscale() == "log"
        levels, lines = axes.lines[: len(LEVELS)], axes.lines[len(LEVELS) :]
        heights = [np.asarray(level.get_ydata())[0] for level in levels]
        assert heights == pytest.approx([shown.baseline(name).mean() for name in LEVELS])
        for line, drawn, band in zip(panel.lines, lines, axes.collections, strict=True):
            curve = shown.curves(line.arm, panel.quantity).curve()
            assert np.asarray(drawn.get_xdata()).tolist() == TIMES.tolist()
            assert np.asarray(drawn.get_ydata()).tolist() == curve.values.tolist()
            corners = np.asarray(band.get_paths()[0].vertices)[:, 1]
            assert corners.min() == pytest.approx((curve.values - curve.half_widths).min())
            assert corners.max() == pytest.approx((curve.values + curve.half_widths).max())
            assert (drawn.get_color(), drawn.get_marker()) == (colour(line.look), marker(line.look))
    (legend,) = figure.legends
    told = [text.get_text() for text in legend.get_texts()]
    own = dict.fromkeys(line.label for panel in spec.panels for line in panel.lines)
    assert told == [*own, *(label for label, _ in LEVELS.values())]


@pytest.mark.parametrize("name", CURVES)
def test_lines_of_a_panel_look_different(name: str) -> None:
    for panel in CURVES[name].panels:
        looks = [(colour(line.look), marker(line.look)) for line in panel.lines]
        assert len({paint for paint, _ in looks}) == len({shape for _, shape in looks}) == len(looks)


def test_the_legend_hides_no_curve() -> None:
    figure = draw(FIGURES["interventions"], evidence())
    figure.draw_without_rendering()
    (legend,) = figure.legends
    place = legend.get_window_extent()
    for axes in figure.axes:
        assert not place.overlaps(axes.get_tightbbox())  # type: ignore[arg-type]


def test_the_example_is_the_papers() -> None:
    oblivious = EXAMPLE.weights(InterventionOblivious(clip="off"))
    aware = EXAMPLE.weights(InterventionAware(clip="off"))
    assert oblivious.tolist() == pytest.approx([4.0] * 100 + [20.0] * 300)
    # E[α | Π_T] = (100 · 0.25 + (T − 100) · 0.05) / T after the change.
    later = EXAMPLE.times[100:]
    assert aware[:100].tolist() == pytest.approx([4.0] * 100)
    assert aware[100:].tolist() == pytest.approx((later / (25 + 0.05 * (later - 100))).tolist())
    assert aware[-1] == pytest.approx(10.0)
    left, right = draw(EXAMPLE, evidence()).axes
    drawn = np.concatenate([np.asarray(line.get_ydata()) for line in right.lines[:2]])
    assert drawn.tolist() == aware.tolist()
    assert np.asarray(left.lines[1].get_ydata())[-1] == pytest.approx(0.1)


def test_files_are_the_same_each_time_and_carry_no_date(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        paths = write_figure(FIGURES["estimators"], evidence(), tmp_path / folder)
    assert [path.name for path in paths] == [f"estimators.{kind}" for kind in ("svg", "pdf", "png", "json")]
    for path in paths:
        assert path.read_bytes() == (tmp_path / "a" / path.name).read_bytes()
        assert b"CreationDate" not in path.read_bytes()
        assert b"<dc:date>" not in path.read_bytes()
