"""The paper's figures as pictures: what is drawn is what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.estimators import InterventionAware, InterventionOblivious
from rankloop.experiments.reproduce.figures import EXAMPLE, FIGURES, CurvesFigure
from rankloop.experiments.reproduce.plots import LEVELS, dashes_of, draw, write_figure
from rankloop.experiments.reproduce.results import AllRuns
from rankloop.reports.drawing import colour, marker
from tests.experiments.reproduce.test_claims import TIMES, curves, evidence

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
        # In grey, too: every line has its own dashes.
        assert len({str(dashes_of(line.look)) for line in panel.lines}) == len(looks)


def test_lines_that_end_early_are_marked_and_panels_share_their_axes() -> None:
    """The bar is where the runs end; lines that go to the horizon have none."""
    short = curves([0.71, 0.76, 0.79, 0.80, 0.80, 0.80, 0.80], last=10**6)
    figure = draw(FIGURES["online"], evidence(pdgd_online=short))
    for axes in figure.axes:
        (end,) = [line for line in axes.lines if line.get_marker() == "|"]
        assert np.asarray(end.get_xdata()).tolist() == [10**6]
        assert np.asarray(end.get_ydata()).tolist() == [short.values[:, -1].mean()]
    assert (
        len({axes.get_xlim() for axes in figure.axes}) == len({axes.get_ylim() for axes in figure.axes}) == 1
    )
    assert "end of runs that are shorter" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_lines_without_runs_are_named_and_not_drawn() -> None:
    """As in a part of a reproduction, or in results from before a learner was added."""
    shown = evidence()
    lines = FIGURES["online"].panels[0].lines  # type: ignore[union-attr]
    kept = {arm: runs for arm, runs in shown.learned.items() if arm != lines[1].arm}
    figure = draw(FIGURES["online"], AllRuns(kept, kept, shown.baselines))
    assert len(figure.axes[0].lines) == len(LEVELS) + len(lines) - 1
    assert f"{lines[1].label} (not run)" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_learner_with_runs_in_one_panel_is_not_called_not_run() -> None:
    shown, figure = evidence(), CURVES["estimators"]
    first = {line.arm for line in figure.panels[0].lines}
    kept = {arm: runs for arm, runs in shown.learned.items() if arm in first}
    told = [
        text.get_text() for text in draw(figure, AllRuns(kept, kept, shown.baselines)).legends[0].get_texts()
    ]
    assert [label for label in told if "not run" in label] == ["intervention-oblivious (not run)"]


def test_a_baseline_below_the_production_ranker_does_not_stretch_the_axis() -> None:
    shown = evidence()
    low = {seed: {**values, "supervised": 0.1} for seed, values in shown.baselines.items()}
    figure = draw(FIGURES["interventions"], AllRuns(shown.learned, shown.logging, low))
    assert figure.axes[0].get_ylim()[0] > 0.6
    assert len(figure.axes[0].lines) == len(draw(FIGURES["interventions"], shown).axes[0].lines) - 1
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "supervised, the paper's learner (0.100, not drawn)" in told


def test_a_bound_that_is_not_known_is_neither_drawn_nor_named() -> None:
    """As the noise of labels of real collections, or bounds in tables of earlier versions."""
    shown = evidence()
    unknown = {seed: {**values, "noise_free": None} for seed, values in shown.baselines.items()}
    figure = draw(FIGURES["interventions"], AllRuns(shown.learned, shown.logging, unknown))
    assert len(figure.axes[0].lines) == len(draw(FIGURES["interventions"], shown).axes[0].lines) - 1
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert LEVELS["noise_free"][0] not in told
    assert LEVELS["best_supervised"][0] in told


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
