"""Figures: what is drawn is what was measured, and the same every time."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from rankloop.experiments import figures
from rankloop.experiments.ladder import Rung
from rankloop.models import Linear
from rankloop.training import Epoch, Training

MODEL = Linear(1, np.zeros(2))


def rung(name: str, *values: float) -> Rung:
    best = int(np.argmax(values))
    history = tuple(Epoch(n, value, n <= best) for n, value in enumerate(values))
    return Rung(name, 1234, 0.5, 0.4, Training(MODEL, history))


RUNGS = [Rung("random", 0, 0.25, 0.25, None), rung("first", 0.2, 0.5, 0.4), rung("second", 0.3, 0.6)]


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Figure:
    """The figure itself, caught on its way to the files."""
    caught: list[Figure] = []

    def catch(figure: Figure, _stem: Path) -> list[Path]:
        caught.append(figure)
        return []

    monkeypatch.setattr(figures, "save_figure", catch)
    figures.learning_curves(RUNGS, "ndcg@5", tmp_path / "curves")
    return caught[0]


def test_both_files_can_be_opened(tmp_path: Path) -> None:
    svg, png = figures.learning_curves(RUNGS, "ndcg@5", tmp_path / "new" / "curves")
    assert (svg.name, png.name) == ("curves.svg", "curves.png")
    assert ElementTree.parse(svg).getroot().tag.endswith("svg")
    text = svg.read_text(encoding="utf-8")
    # Text is text, which can be searched and read aloud.
    assert ">first: 1,234 queries<" in text
    assert ">expected ndcg@5 on held-out queries<" in text
    height, width, _ = imread(png).shape
    assert width > height > 300
    assert np.ptp(imread(png)) > 0.5


def test_the_same_results_are_the_same_files(tmp_path: Path) -> None:
    first, second = (figures.learning_curves(RUNGS, "ndcg@5", tmp_path / str(n)) for n in (1, 2))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_lines_are_the_histories_and_circles_the_best(drawn: Figure) -> None:
    (axes,) = drawn.axes
    lines = {line.get_label(): line for line in axes.lines}
    first = lines["first: 1,234 queries"]
    assert np.asarray(first.get_xdata()).tolist() == [0, 1, 2]
    assert np.asarray(first.get_ydata()).tolist() == [0.2, 0.5, 0.4]
    assert set(np.asarray(lines["random (test queries)"].get_ydata())) == {0.25}
    circles = [line for line in axes.lines if line.get_marker() == "o"]
    points = [(line.get_xdata(), line.get_ydata(), line.get_color()) for line in circles]
    assert [(list(x), list(y)) for x, y, _ in points] == [([1], [0.5]), ([1], [0.6])]  # type: ignore[arg-type]
    assert points[0][2] == first.get_color()


def test_lines_differ_in_colour_and_in_dashes(drawn: Figure) -> None:
    (axes,) = drawn.axes
    labelled = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert len({line.get_color() for line in labelled}) == len(labelled) == 3
    assert len({line.get_linestyle() for line in labelled[:2]}) == 2


def test_the_legend_stands_below_the_label_of_the_axis(drawn: Figure) -> None:
    (axes,) = drawn.axes
    drawn.canvas.draw()
    legend = axes.get_legend()
    assert legend is not None
    below = axes.xaxis.label.get_window_extent()
    assert legend.get_window_extent().y1 <= below.y0


def test_the_callers_matplotlib_is_left_alone(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    figures.learning_curves(RUNGS, "ndcg@5", tmp_path / "curves")
    assert dict(mpl.rcParams) == before
