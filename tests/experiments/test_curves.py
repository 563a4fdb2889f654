"""Figures: what is drawn is what was measured, and the same every time."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from rankloop.experiments.curves import Level, Series, curves
from rankloop.experiments.summary import Curve
from rankloop.reports import drawing
from rankloop.reports.drawing import marker

TIMES = np.array([100, 1000, 10_000])
BANDED = Series(Curve(TIMES, np.array([0.5, 0.6, 0.7]), np.array([0.1, 0.05, 0.02])), 0)
PLAIN = Series(Curve(TIMES, np.array([0.4, 0.45, np.nan]), np.zeros(3)), 1)
ALONE = Series(Curve(TIMES[2:], np.array([0.55]), np.array([0.05])), 2)
TRUTH = Series(Curve(TIMES, np.array([0.8, 0.8, 0.8]), np.zeros(3)), None)
SPAN = (100.0, 10_000.0)


def drawn(series: list[Series], **options: object) -> Figure:
    """The figure itself, caught on its way to SVG."""
    caught: list[Figure] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "svg", lambda figure: caught.append(figure) or "")
        curves("name", series, "ndcg@5", span=SPAN, **options)  # type: ignore[arg-type]
    return caught[0]


def test_a_figure_is_one_element_that_names_nothing_elsewhere() -> None:
    svg = curves("name", [BANDED, PLAIN, ALONE, TRUTH], "ndcg@5", span=SPAN, levels=[Level(0.5, ":")])
    assert svg.startswith("<svg")
    root = ElementTree.fromstring(svg)
    assert root.tag == "svg"
    assert "http" not in svg
    assert "font-family" not in svg
    texts = [text.text for text in root.iter("text")]
    # Text is text, which can be searched and read aloud.
    assert {"100", "1k", "10k", "impressions", "ndcg@5"} <= set(texts)


def test_colours_are_left_to_the_page() -> None:
    svg = curves("name", [BANDED, PLAIN], "ndcg@5", span=SPAN)
    assert "var(--series-0, #0072b2)" in svg
    assert "currentColor" in svg
    assert drawing.INK not in svg
    assert "#000000" not in svg
    assert "#ffffff" not in svg


def test_ids_are_referred_to_and_differ_between_figures_of_a_page() -> None:
    one, two = (curves(name, [BANDED, PLAIN], "ndcg@5", span=SPAN) for name in ("one", "two"))
    ids = [set(re.findall(r'\bid="([^"]*)"', svg)) for svg in (one, two)]
    used = set(re.findall(r'(?:href="|url\()#([^")]*)', one))
    assert used == ids[0]
    assert not ids[0] & ids[1]


def test_the_same_results_are_the_same_figure() -> None:
    assert curves("name", [BANDED], "a", span=SPAN) == curves("name", [BANDED], "a", span=SPAN)


def test_lines_are_the_curves_and_bands_their_intervals() -> None:
    (axes,) = drawn([BANDED, PLAIN], levels=[Level(0.9, "--")], limits=(0.0, 1.0)).axes
    level, banded, plain = axes.lines
    assert np.asarray(banded.get_xdata()).tolist() == TIMES.tolist()
    assert np.asarray(banded.get_ydata()).tolist() == [0.5, 0.6, 0.7]
    assert np.asarray(plain.get_ydata())[:2].tolist() == [0.4, 0.45]
    assert set(np.asarray(level.get_ydata())) == {0.9}
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    assert {(100.0, 0.4), (100.0, 0.6), (10_000.0, 0.68), (10_000.0, 0.72)} <= {
        (float(x), round(float(y), 9)) for x, y in np.asarray(corners)
    }
    assert axes.get_ylim() == (0.0, 1.0)
    assert axes.get_xscale() == "log"


def test_one_point_has_a_bar_and_a_line_of_one_point_a_cross() -> None:
    lone = Series(Curve(TIMES[2:], np.array([0.8]), np.zeros(1)), None)
    (axes,) = drawn([ALONE, lone]).axes
    # The bar itself; its ends are lines.
    assert len(axes.collections) == 1
    assert [line.get_marker() for line in axes.lines if line.get_marker() in ("^", "x")] == ["^", "x"]


def test_curves_differ_in_colour_and_in_marker() -> None:
    assert len({(drawing.colour(i), marker(i)) for i in range(18)}) == 18
    assert len({marker(i) for i in range(6)}) == 6


@pytest.mark.parametrize("span", [(700.0, 900.0), (1e6, 1e6), (100.0, 1e8)])
def test_every_axis_has_a_label(span: tuple[float, float]) -> None:
    one = Series(Curve(np.array(span), np.array([0.1, 0.2]), np.zeros(2)), 0)
    root = ElementTree.fromstring(curves("name", [one], "", span=span))
    counts = [text.text for text in root.iter("text") if re.fullmatch(r"\d+[kMG]?", text.text or "")]
    assert counts


def test_the_callers_matplotlib_is_left_alone() -> None:
    before = dict(mpl.rcParams)
    curves("name", [BANDED], "ndcg@5", span=SPAN)
    assert dict(mpl.rcParams) == before
