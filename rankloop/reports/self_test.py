"""The section of a report on the self-test of a log: sentences, a table and pictures of the effects."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rankloop.evidence.assumption_tests import (
    COLUMN,
    EIGHTH,
    HALVES,
    HIDDEN,
    LENGTH,
    ORDER,
    POLICY,
    SET,
    WEEKDAY,
    AssumptionTest,
)
from rankloop.evidence.self_test import SelfTest
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


class Sentences(NamedTuple):
    """What a test found, and what to do about it.

    Attributes:
        text: what was found.
        remedy: what to do.
    """

    text: str
    remedy: str


def finding_of(test: AssumptionTest) -> Sentences:
    r"""What a test found, in plain sentences.

    Example:
        >>> from rankloop.evidence.assumption_tests import POLICY, AssumptionTest
        >>> found = AssumptionTest(POLICY, "found", effect=0.13, interval=(0.11, 0.15), of="variant")
        >>> print(*finding_of(found), sep="\n")
        The same document at the same position was clicked 13 % (11 to 15) more under `variant`.
        Users or demand changed: compare policies within each period only.
    """
    name = test.name.removeprefix(COLUMN) if test.name.startswith(COLUMN) else test.name
    at = f"at position {test.position}" if test.position else "at the same position"
    change = _change(test)
    if test.name == POLICY:
        return Sentences(
            f"The same document {at} was clicked {change} under `{test.of}`.",
            "Users or demand changed: compare policies within each period only.",
        )
    if test.name == HALVES:
        return Sentences(
            f"The same document {at} was clicked {change} in the second half of the log.",
            "Users or demand changed: compare policies within each period only.",
        )
    if test.name in (EIGHTH, WEEKDAY):
        return Sentences(
            f"Clicks vary {'by weekday' if test.name == WEEKDAY else 'over time'}: the same document at the "
            f"same position was clicked {change} {_when(test)}.",
            "This does not favour a policy that served all the time; compare others within each period only.",
        )
    if test.name == LENGTH:
        less = "less" if test.effect < 0.0 else "more"
        return Sentences(
            f"In longer lists the same document {at} is clicked {less} ({_percent(test)}).",
            "List length must be accounted for.",
        )
    if test.name == ORDER:
        return Sentences(
            f"Clicks depend on what stands above ({_percent(test)}).", "Predicted clicks are not reliable."
        )
    if test.name == SET:
        return Sentences(
            f"Documents compete for the click: beside more attractive ones, a document is clicked "
            f"{'less' if test.effect < 0.0 else 'more'} ({_percent(test)}).",
            "Only orders of the same documents can be judged firmly.",
        )
    if test.name == HIDDEN:
        return Sentences(
            f"Queries have different position curves: clicks at one position differ by {test.effect:.0%} "
            f"({_ends(test)}) between queries.".replace("%", " %"),
            "Give a column that explains it, such as the device or the kind of query.",
        )
    return Sentences(
        f"Users of different {name} have different position curves: with `{test.of}`, clicks {at} differ by "
        f"{_percent(test)} from what this column changes at all positions.",
        f"One bias for all is wrong: account for {name}.",
    )


def summary_of(found: SelfTest) -> str:
    """The result of the self-test in one sentence."""
    if not found.tested:
        return "Self-test: nothing could be tested; the log has too few clicks, or documents never move."
    if found.found:
        names = ", ".join(test.name for test in found.found)
        return f"Self-test: an assumption does not hold ({names})."
    seen = found.smallest_drift_seen
    if isnan(seen):
        return "Self-test: nothing found; changes over time or by policy could not be tested."
    return (
        f"Self-test: nothing found; a change of click rates above {seen:.0%} would have been seen.".replace(
            "%", " %"
        )
    )


def self_test_section(found: SelfTest) -> Section:
    """The section on the self-test of a log."""
    findings = [finding_of(test) for test in found.found]
    blocks: list[Block] = [Text(summary_of(found), "strong", brief=True)]
    blocks += [Text(" ".join(finding), "warning") for finding in findings]
    if found.share < 1.0:
        text = (
            f"The log is large: {found.impressions:,} impressions were tested, {found.share:.1%} of its rows."
        )
        blocks.append(Text(text, brief=True))
    rows = [_row(test) for test in found.tests]
    columns: list[str | Column] = ["test", Column("result", words=True), "effect", "90 % interval"]
    columns += ["smallest seen", Column("z or χ²", brief=False), Column("p", brief=False)]
    caption = f"What clicks on the same document at the same position depend on, by {found.unit}"
    blocks += [Table.build(caption, columns, rows, brief=True), Text(NOTE, "quiet")]
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


def _change(test: AssumptionTest) -> str:
    return f"{abs(test.effect):.0%} ({_ends(test)}) {'less' if test.effect < 0.0 else 'more'}".replace(
        "%", " %"
    )


def _ends(test: AssumptionTest) -> str:
    if test.interval is None:
        return NONE
    low, high = test.interval if test.effect >= 0.0 else (-test.interval[1], -test.interval[0])
    return f"{100.0 * low:.0f} to {100.0 * high:.0f}"


def _percent(test: AssumptionTest) -> str:
    return f"{test.effect:+.0%}".replace("%", " %").replace("-", "−")


def _when(test: AssumptionTest) -> str:
    base = test.parts[0].of if test.parts else ""
    if test.name == WEEKDAY:
        return f"on {test.of} than on {base}"
    return f"in eighth {test.of} of the log than in eighth {base}"
