"""The section of a report on the self-test of a log: sentences, a table and pictures of the effects."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rankloop.evidence.assumption_tests import EIGHTH, HALVES, POLICY, WEEKDAY, AssumptionTest
from rankloop.evidence.self_test import SelfTest, finding_of, summary_of
from rankloop.reports.document import NONE, Block, Column, Figure, Figures, Section, Table, Text
from rankloop.reports.drawing import (
    draw_band,
    draw_curve,
    draw_level,
    draw_svg,
    set_integer_axis,
    set_rank_axis,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADING = "Self-test"
# A page has room for so many pictures of effects.
MOST_FIGURES = 3
NOTE = (
    "Each test asks whether clicks on the same document at the same position depend on something else. The "
    "effect is a relative change of clicks; for order, set and length, per standard deviation. A change of "
    "the size in the column ‘smallest seen’ would have been found in about three of four logs. p is adjusted "
    "for all tests (Holm): about one sound log in a hundred has an alarm."
)


def self_test_section(found: SelfTest, *, of_decision: bool = False) -> Section:
    """The section on the self-test of a log.

    Args:
        found: the self-test.
        of_decision: whether the page is about a decision, which says itself what to do; a terminal then shows
            the result only.
    """
    findings = [finding_of(test) for test in found.found]
    blocks: list[Block] = [Text(summary_of(found), "strong", brief=True)]
    if of_decision:
        blocks += [Text(finding.text) for finding in findings]
    else:
        blocks += [Text(" ".join(finding), "warning") for finding in findings]
    if found.share < 1.0:
        text = (
            f"The log is large: {found.impressions:,} impressions were tested, {found.share:.1%} of its rows."
        )
        blocks.append(Text(text, brief=not of_decision))
    rows = [_row(test) for test in found.tests]
    columns: list[str | Column] = ["test", Column("result", words=True), "effect", "90 % interval"]
    columns += ["smallest seen", Column("z or χ²", brief=False), Column("p", brief=False)]
    caption = f"What clicks on the same document at the same position depend on, by {found.unit}"
    blocks += [Table.build(caption, columns, rows, brief=not of_decision), Text(NOTE, "quiet")]
    # Without a finding, the picture shows that there is no drift.
    usual = [test for test in found.tested if test.name in (POLICY, HALVES)][:1]
    drawn = [test for test in found.found or usual if test.parts]
    if drawn:
        blocks.append(Figures(tuple(_figure(test) for test in drawn[:MOST_FIGURES])))
    return Section(HEADING, tuple(blocks))


def _row(test: AssumptionTest) -> list[str]:
    if test.state == "not tested":
        return [test.name, f"not tested: {test.reason}", *[NONE] * 5]
    state = "too small to matter" if test.negligible else test.state
    statistic = (
        f"z {test.statistic:.1f}" if test.freedom == 1 else f"χ² {test.statistic:.0f} of {test.freedom}"
    )
    effect = f"{test.effect:+.1%}" + "".join(
        f" {word} {value}" for word, value in (("·", test.of), ("position", test.position)) if value
    )
    ends = NONE if test.interval is None else f"{test.interval[0]:+.1%} – {test.interval[1]:+.1%}"
    return [test.name, state, effect, ends, f"{test.smallest_seen:.1%}", statistic, f"{test.adjusted:.2g}"]


def _figure(test: AssumptionTest) -> Figure:
    ranked = test.name not in (EIGHTH, WEEKDAY)

    def draw(axes: Axes) -> None:
        low, high = np.array([part.interval for part in test.parts]).T * 100.0
        x = [int(part.of) if part.of.isdigit() else place for place, part in enumerate(test.parts)]
        draw_level(axes, 0.0, ":")
        draw_band(axes, 0, x, low, high)
        draw_curve(axes, 0, x, [100.0 * part.effect for part in test.parts])
        if ranked:
            set_rank_axis(axes, max(x), "position")
        elif test.name == EIGHTH:
            set_integer_axis(axes, "eighth of the log")
        else:
            axes.set_xticks(x, [part.of[:2] for part in test.parts])
        axes.set_ylabel("change of clicks, %")

    words = "; ".join(f"{part.of}: {part.effect:+.1%}" for part in test.parts)
    by = "position" if ranked else "period"
    of = f", {test.of}" if test.of and ranked else ""
    return Figure(
        partial(draw_svg, f"self-test-{test.name}".replace(" ", "-"), draw),
        f"{test.name.capitalize()}: relative change of clicks by {by}{of}, with 90 % intervals.",
        f"{test.name}, by {by}: {words}.",
    )
