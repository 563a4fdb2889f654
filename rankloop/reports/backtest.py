"""The report on a backtest: predicted and measured clicks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from rankloop.offline import Backtest
from rankloop.reports.document import (
    Column,
    Document,
    Figure,
    Figures,
    LegendEntry,
    Section,
    Table,
    Text,
    next_step,
    warnings,
)
from rankloop.reports.drawing import colour, draw_svg, marker
from rankloop.statistics.intervals import CONFIDENCE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Height of the figure: of its axis, and of each prediction.
WIDTH, AXIS_INCHES, LINE_INCHES = 5.0, 1.0, 0.45
# How far above its line the name of a policy stands.
LABEL_POINTS = 6
BOTTOM = 0.3


def backtest_document(found: Backtest) -> Document:
    """The report on a backtest."""
    rows = [
        [
            one.policy,
            one.by,
            f"{one.predicted:.3f}",
            f"{one.low:.3f} to {one.high:.3f}",
            f"{one.measured:.3f}",
            "yes" if one.held else "no",
            f"{one.impressions:,}",
            f"{one.queries:,}",
        ]
        for one in found.predictions
    ]
    columns: list[str | Column] = [
        "policy",
        "predicted from",
        "predicted",
        f"{CONFIDENCE:.0%} interval",
        "measured",
        "inside",
        Column("impressions", brief=False),
        Column("queries", brief=False),
    ]
    title = "Predicted and measured clicks"
    return Document(
        title,
        title,
        (
            Text(found.text, "strong", brief=True),
            *(Text(one.text) for one in found.predictions),
            *warnings(found.notes),
            Section(
                "Predictions",
                (
                    _figure(found),
                    Table.build("Clicks per impression", columns, rows, brief=True),
                    Text(
                        "Each prediction uses what one policy displayed and the clicks on the other one, on "
                        "queries that both served at the same time. The interval is where the measurement is "
                        "expected: it contains the errors of the prediction, of the bias and of the "
                        "measurement.",
                        "quiet",
                    ),
                ),
            ),
            next_step(Text(_what_now(found), brief=True)),
        ),
    )


def _what_now(found: Backtest) -> str:
    if all(one.held for one in found.predictions):
        return (
            "Evaluations on this log predict well. A backtest does not test everything: `rankloop check` "
            "tests what evaluations assume."
        )
    return (
        "Clicks were not predicted within the interval: see what `rankloop check` says about the log. One in "
        "ten sound predictions is outside, too."
    )


def _figure(found: Backtest) -> Figures:
    figure = Figure(
        partial(_draw, found),
        "Clicks per impression, predicted and measured.",
        " ".join(one.text for one in found.predictions),
    )
    return Figures((figure,), (LegendEntry("predicted, with interval", 0), LegendEntry("measured", 1)))


def _draw(found: Backtest) -> str:
    def draw(axes: Axes) -> None:
        for number, one in enumerate(found.predictions):
            axes.plot([one.low, one.high], [-number, -number], color=colour(0), linewidth=3)
            axes.plot([one.predicted], [-number], marker=marker(0), markersize=8, color=colour(0))
            axes.plot([one.measured], [-number], marker=marker(1), markersize=8, color=colour(1))
            axes.annotate(one.policy, (one.low, -number), (0, LABEL_POINTS), textcoords="offset points")
        axes.set_ylim(-len(found.predictions) + 0.4, 0.8)
        axes.set_yticks([])
        axes.set_xlabel("clicks per impression")

    inches = (WIDTH, AXIS_INCHES + LINE_INCHES * len(found.predictions))
    return draw_svg("backtest", draw, inches=inches, bottom=BOTTOM)
