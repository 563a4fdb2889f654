"""The tests of a self-test, each of one assumption about clicks on the same document at the same position."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np
from scipy.special import ndtr

from rankloop.evidence.attraction import curve_contrasts, fold_of, surroundings
from rankloop.evidence.score_test import (
    NEGLIGIBLE,
    SEEN_LEVEL,
    SEEN_POWER,
    CellGroups,
    Effects,
    Joint,
    ScoreSums,
    combine,
    sum_scores,
)
from rankloop.statistics.counts import ImpressionTable
from rankloop.statistics.intervals import normal_quantile, tail_quantile
from rankloop.types import Bias, Float64, Int64

State = Literal["found", "nothing found", "not tested"]
LEAST_CLICKS = 50
# Positions below have one effect together: few users look there.
MOST_RANKS = 10
# Values of a column, or policies, that have effects of their own; the others share one.
MOST_VALUES = 6
EIGHTHS = 8
DAY, WEEK = 86_400, 7 * 86_400
# A weekday that came once is a day like any other.
LEAST_WEEKS = 2
# Fewer queries do not tell how much queries differ.
LEAST_QUERIES = 20
# 1970-01-01 was a Thursday.
WEEKDAYS = ("Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday")

POLICY, HALVES, EIGHTH, WEEKDAY = (
    "drift by policy",
    "drift between halves",
    "drift over time",
    "drift by weekday",
)
LENGTH, ORDER, SET, HIDDEN = "length", "order", "set", "hidden contexts"
COLUMN = "column "


@dataclass(frozen=True)
class PartialEffect:
    """The effect at one position, in one period or for one value.

    Attributes:
        of: which one.
        effect: the relative change of clicks.
        interval: the interval of the effect.
    """

    of: str
    effect: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class AssumptionTest:
    """The test of one assumption.

    Attributes:
        name: what was tested.
        state: ``found`` if the assumption does not hold, ``nothing found``, or ``not tested``.
        reason: why it could not be tested.
        p: the probability of as large a statistic by chance.
        adjusted: p after Holm's correction for all tests of the log.
        statistic: z if there is one degree of freedom, else χ².
        freedom: its degrees of freedom.
        effect: the relative change of clicks: the largest one, if there are several.
        interval: the interval of the effect.
        of: what the effect belongs to, such as the policy; empty if there is only one.
        position: the position that the effect belongs to; empty if it is that of all positions.
        size: the root mean square of the relative effects without noise, which is what has to matter.
        gate: the smallest size that matters.
        negligible: whether there is an effect, but too small a one to matter.
        smallest_seen: the smallest size that would have been seen (about 4 standard errors).
        clicks: the clicks that tell about it.
        parts: the effect by position, period or value.
        uneven: of drifts, the probability of effects that differ as much between positions by chance.
    """

    name: str
    state: State = "not tested"
    reason: str = ""
    p: float = 1.0
    adjusted: float = 1.0
    statistic: float = 0.0
    freedom: int = 0
    effect: float = float("nan")
    interval: tuple[float, float] | None = None
    of: str = ""
    position: str = ""
    size: float = float("nan")
    gate: float = 0.0
    negligible: bool = False
    smallest_seen: float = float("nan")
    clicks: float = 0.0
    parts: tuple[PartialEffect, ...] = ()
    uneven: float = 1.0


def all_tests(
    table: ImpressionTable, bias: Bias | None, *, drift: float, order: float
) -> Iterator[AssumptionTest]:
    """All tests, in the order in which they are reported, before p is adjusted for their number.

    Args:
        table: the impressions.
        bias: how users click; None if that is not known.
        drift: the smallest relative change of clicks that matters.
        order: the smallest one per standard deviation of what surrounds a document.
    """
    rows = _Rows(table)
    yield _guarded(POLICY, drift, partial(_by_policy, rows))
    yield _guarded(HALVES, drift, partial(_by_half, rows))
    yield _guarded(EIGHTH, drift, partial(_by_eighth, rows))
    yield _guarded(WEEKDAY, drift, partial(_by_weekday, rows))
    yield _guarded(LENGTH, drift, partial(_by_length, rows))
    for name in table.columns:
        yield _guarded(COLUMN + name, drift, partial(_by_column, rows, name))
    yield from _surrounded(rows, order)
    yield _guarded(HIDDEN, drift, partial(_hidden, rows, bias))


def context_tests(table: ImpressionTable, gate: float) -> Iterator[AssumptionTest]:
    """The tests of list length and of columns alone; none for lists of one length without columns.

    Args:
        table: the impressions.
        gate: the smallest relative change of clicks that matters.
    """
    if not table.columns and np.ptp(table.length) == 0:
        return
    rows = _Rows(table)
    yield _guarded(LENGTH, gate, partial(_by_length, rows))
    for name in table.columns:
        yield _guarded(COLUMN + name, gate, partial(_by_column, rows, name))


def drift_within(table: ImpressionTable, period: Int64, gate: float) -> AssumptionTest:
    """Test whether clicks differ by policy within periods: only by policies that served in the same one.

    Args:
        table: the impressions.
        period: int64, impressions; the number of the period.
        gate: the smallest relative change of clicks that matters.
    """
    rows = _Rows(table)
    cells = CellGroups(rows.document, rows.position, period[rows.impression])

    def test() -> AssumptionTest:
        columns, names = _values(rows.table.policy[rows.impression], rows.table.policy_ids, first=True)
        if not columns:
            raise _NotTestedError("the log has one policy")
        sums = sum_scores(cells, rows.clicked, columns, rows.unit, block=rows.rank, blocks=rows.ranks)
        return _drift(_checked(sums), names)

    return _guarded(POLICY, gate, test)


class _NotTestedError(Exception):
    """The reason why a test cannot be done."""


def _guarded(name: str, gate: float, run: Callable[[], AssumptionTest]) -> AssumptionTest:
    try:
        return replace(run(), name=name, gate=gate, state="nothing found")
    except _NotTestedError as reason:
        return AssumptionTest(name, reason=str(reason), gate=gate)


class _Rows:
    """A table, row by row; rows of one cell are next to each other, which makes sums fast."""

    def __init__(self, table: ImpressionTable) -> None:
        self.table = table
        rows = table.rows
        cell = combine(rows.document, rows.position)
        self.order = np.argsort(cell, kind="stable")
        self.impression = rows.impression_of[self.order]
        self.document, self.position = rows.document[self.order], rows.position[self.order]
        self.clicked = rows.amount[self.order]
        self.unit = table.unit[self.impression]
        self.rank = np.minimum(self.position, MOST_RANKS - 1)
        self.ranks = int(self.rank.max(initial=0)) + 1

    @cached_property
    def cells(self) -> CellGroups:
        return CellGroups(self.document, self.position)

    @cached_property
    def fold(self) -> Int64:
        return fold_of(self.table.unit)[self.impression]

    @cached_property
    def timed(self) -> tuple[Int64 | None, Float64]:
        """The rows whose time is known, None for all, and these times."""
        if self.table.time is None or np.isnan(self.table.time).all():
            raise _NotTestedError("the log has no times")
        time = self.table.time[self.impression]
        known = ~np.isnan(time)
        return (None, time) if known.all() else (np.flatnonzero(known), time[known])

    def period(self, count: int) -> Int64:
        """The number of the period with equally many impressions, for each row; one more if it is unknown."""
        if self.table.time is None:
            return np.zeros(len(self.impression), np.int64)
        known = self.table.time[~np.isnan(self.table.time)]
        if not len(known):
            return np.zeros(len(self.impression), np.int64)
        # NaN is sorted to the end.
        return np.searchsorted(_cuts(known, count), self.table.time, side="right")[self.impression]

    def sums(
        self, columns: Sequence[Float64], *, rows: Int64 | None = None, by_rank: bool = False
    ) -> ScoreSums:
        use = slice(None) if rows is None else rows
        cells = self.cells if rows is None else CellGroups(self.document[rows], self.position[rows])
        block, blocks = (self.rank[use], self.ranks) if by_rank else (None, 1)
        found = sum_scores(cells, self.clicked[use], columns, self.unit[use], block=block, blocks=blocks)
        return _checked(found)


def _checked(sums: ScoreSums) -> ScoreSums:
    if sums.all_clicks < LEAST_CLICKS:
        raise _NotTestedError(
            f"only {sums.all_clicks:.0f} clicks on documents at positions where this varies; at least "
            f"{LEAST_CLICKS} are needed"
        )
    return sums


def _cuts(times: Float64, count: int) -> Float64:
    result: Float64 = np.quantile(times, np.arange(1, count) / count)
    return result


def _drift(sums: ScoreSums, names: Sequence[str] = ("",), *, scale: float = 1.0) -> AssumptionTest:
    """Test columns at all ranks together, and at each rank: twice the smaller p of the two."""
    together, apart = sums.over_blocks().effects(), sums.effects()
    tests = together.test(), apart.test()
    if not len(together.values) or not tests[0].freedom:
        raise _NotTestedError("too few clicks on documents at positions where this varies")
    chosen = min(tests, key=lambda joint: joint.p)
    # One position is named only if an effect there is likely.
    if chosen is tests[0] or chosen.p > SEEN_LEVEL:
        test = _described(together, names, chosen, scale=scale)
    else:
        seen = scale * together.smallest_seen(tests[0].freedom)
        test = replace(_described(apart, names, chosen, scale=scale, by_position=True), smallest_seen=seen)
    main = names.index(test.of)
    return replace(
        test,
        p=min(1.0, 2.0 * chosen.p),
        size=scale * max(together.size(), apart.size()),
        clicks=sums.all_clicks,
        parts=_parts(apart, np.flatnonzero(apart.column == main), _rank_name, scale),
        uneven=apart.deviations().test().p,
    )


def _described(
    effects: Effects, names: Sequence[str], joint: Joint, *, scale: float = 1.0, by_position: bool = False
) -> AssumptionTest:
    """A test with its largest effect, in units of x times the scale."""
    errors = effects.errors()
    largest = int(np.argmax(np.abs(effects.values) / np.maximum(errors, NEGLIGIBLE)))
    single = joint.freedom == 1 and len(effects.values) == 1
    low, high = effects.intervals()
    return AssumptionTest(
        "",
        p=joint.p,
        statistic=math.copysign(math.sqrt(joint.statistic), effects.values[0]) if single else joint.statistic,
        freedom=joint.freedom,
        effect=scale * float(effects.values[largest]),
        interval=(scale * float(low[largest]), scale * float(high[largest])),
        of=names[int(effects.column[largest])],
        position=_rank_name(effects, largest) if by_position else "",
        size=scale * effects.size(),
        smallest_seen=scale * effects.smallest_seen(effects.test().freedom),
    )


def _parts(
    effects: Effects, chosen: Int64, name: Callable[[Effects, int], str], scale: float = 1.0
) -> tuple[PartialEffect, ...]:
    low, high = effects.intervals()
    return tuple(
        PartialEffect(
            name(effects, place),
            scale * float(effects.values[place]),
            (scale * float(low[place]), scale * float(high[place])),
        )
        for place in chosen.tolist()
    )


def _rank_name(effects: Effects, place: int) -> str:
    return f"{effects.block[place] + 1}"


def _values(codes: Int64, names: Sequence[str], *, first: bool) -> tuple[list[Float64], list[str]]:
    """One column of 0 and 1 per value: of the most frequent ones; the others share the last one.

    The value that others are compared with has no column: the first one, or the most frequent one.
    """
    counts = np.bincount(codes, minlength=len(names))
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    if first:
        order = np.concatenate([np.flatnonzero(counts)[:1], order[order != np.flatnonzero(counts)[:1]]])
    shown = order[1:MOST_VALUES]
    columns = [(codes == value).astype(np.float64) for value in shown]
    labels = [names[value] for value in shown]
    rest = order[MOST_VALUES:]
    if len(rest):
        columns.append(np.isin(codes, rest).astype(np.float64))
        labels.append("others")
    return columns, labels


def _by_policy(rows: _Rows) -> AssumptionTest:
    columns, names = _values(rows.table.policy[rows.impression], rows.table.policy_ids, first=True)
    if not columns:
        raise _NotTestedError("the log has one policy")
    return _drift(rows.sums(columns, by_rank=True), names)


def _by_half(rows: _Rows) -> AssumptionTest:
    used, _ = rows.timed
    period = rows.period(2)
    late = (period if used is None else period[used]).astype(np.float64)
    return _drift(rows.sums([late], rows=used, by_rank=True), ("second half",))


def _by_eighth(rows: _Rows) -> AssumptionTest:
    used, _ = rows.timed
    period = rows.period(EIGHTHS)
    return _by_period(
        rows, used, period if used is None else period[used], [f"{k + 1}" for k in range(EIGHTHS)]
    )


def _by_weekday(rows: _Rows) -> AssumptionTest:
    used, times = rows.timed
    if np.ptp(times) < LEAST_WEEKS * WEEK:
        raise _NotTestedError(f"the log covers fewer than {LEAST_WEEKS} weeks")
    return _by_period(rows, used, (times // DAY).astype(np.int64) % len(WEEKDAYS), WEEKDAYS)


def _by_period(rows: _Rows, used: Int64 | None, period: Int64, names: Sequence[str]) -> AssumptionTest:
    """Test the effects of periods, each compared with the first."""
    known = np.unique(period)
    if len(known) < 2:
        raise _NotTestedError("all impressions came at the same time")
    sums = rows.sums([(period == value).astype(np.float64) for value in known[1:]], rows=used)
    effects = sums.effects()
    joint = effects.test()
    if not joint.freedom:
        raise _NotTestedError("too few clicks on documents at positions where this varies")
    labels = [names[value] for value in known[1:]]
    base = PartialEffect(names[known[0]], 0.0, (0.0, 0.0))
    others = _parts(effects, np.arange(len(effects.values)), lambda found, k: labels[int(found.column[k])])
    return replace(_described(effects, labels, joint), clicks=sums.all_clicks, parts=(base, *others))


def _by_length(rows: _Rows) -> AssumptionTest:
    length = rows.table.length[rows.impression].astype(np.float64)
    if np.ptp(length) == 0.0:
        raise _NotTestedError("all lists have the same length")
    return _drift(rows.sums([length], by_rank=True), scale=_deviation(rows.cells, length, rows.clicked))


def _by_column(rows: _Rows, name: str) -> AssumptionTest:
    codes = rows.table.columns[name]
    known = rows.table.values.get(name) or [f"{code}" for code in range(int(codes.max(initial=-1)) + 1)]
    columns, names = _values(codes[rows.impression], known, first=False)
    if not columns:
        raise _NotTestedError("the column has one value")
    sums = rows.sums(columns, by_rank=True)
    effects = sums.effects()
    apart = effects.deviations()
    joint = apart.test()
    if not joint.freedom:
        raise _NotTestedError("too few clicks on documents at positions where this varies")
    test = _described(apart, names, joint, by_position=True)
    main = names.index(test.of)
    return replace(
        test,
        clicks=sums.all_clicks,
        parts=_parts(effects, np.flatnonzero(effects.column == main), _rank_name),
    )


def _surrounded(rows: _Rows, gate: float) -> Iterator[AssumptionTest]:
    """Test order and set: what else the list shows, among lists of one length and of the same half."""
    if int(np.diff(rows.table.rows.offsets).max(initial=0)) < 2:
        for name in (ORDER, SET):
            yield AssumptionTest(name, reason="the lists have one document each", gate=gate)
        return
    # Users differ: attractiveness of the other fold is compared within a fold.
    length = rows.table.length[rows.impression]
    cells = CellGroups(rows.document, rows.position, rows.fold, length, rows.period(2))
    around = surroundings(rows.table)
    weight = cells.mean(rows.clicked)
    others, above = (cells.residual(part[rows.order]) for part in (around.others, around.above))
    # What the order says beyond the set, at each rank.
    shared, square = (np.bincount(rows.rank, weight * others * part) for part in (above, others))
    above -= others * (shared / np.maximum(square, NEGLIGIBLE))[rows.rank]
    for name, column in ((ORDER, above), (SET, others)):
        yield _guarded(name, gate, partial(_standardised, rows, cells, column))


def _standardised(rows: _Rows, cells: CellGroups, column: Float64) -> AssumptionTest:
    """Test one column, with its effect per standard deviation."""
    by_rank = _checked(
        sum_scores(cells, rows.clicked, [column], rows.unit, block=rows.rank, blocks=rows.ranks)
    )
    together, apart = by_rank.over_blocks().effects(), by_rank.effects()
    joint = together.test()
    if not joint.freedom:
        raise _NotTestedError("too few clicks on documents at positions where this varies")
    scale = _deviation(cells, column, rows.clicked)
    test = _described(together, ("",), joint, scale=scale)
    parts = _parts(apart, np.arange(len(apart.values)), _rank_name, scale)
    return replace(test, clicks=by_rank.all_clicks, parts=parts)


def _deviation(cells: CellGroups, column: Float64, clicked: Float64) -> float:
    """The standard deviation of a column within cells where it varies, as clicks see it."""
    left, weight = cells.residual(column), cells.mean(clicked)
    varies = np.bincount(cells.index, np.abs(left) > NEGLIGIBLE)[cells.index] > 0.0
    return math.sqrt(float((weight * left**2).sum()) / max(float(weight[varies].sum()), NEGLIGIBLE))


def _hidden(rows: _Rows, bias: Bias | None) -> AssumptionTest:
    """Test whether a query's documents seem more relevant at some positions, in both halves of the units."""
    if bias is None:
        raise _NotTestedError("it is not known how users click")
    found = curve_contrasts(rows.table, bias)
    _, query = np.unique(found.query, return_inverse=True)
    by_query = np.bincount(query, found.product)
    if found.clicks < LEAST_CLICKS or len(by_query) < LEAST_QUERIES:
        raise _NotTestedError(
            f"only {len(by_query)} queries showed documents at several positions in both halves of the log; "
            f"at least {LEAST_QUERIES} are needed"
        )
    error = math.sqrt(float((by_query**2).sum()))
    if error == 0.0:
        raise _NotTestedError("no query has documents that moved between positions")
    total, scale = float(by_query.sum()), float(found.scale.sum())
    half = normal_quantile() * error
    effect, low, high = (math.sqrt(max(value, 0.0) / scale) for value in (total, total - half, total + half))
    return AssumptionTest(
        "",
        p=float(ndtr(-total / error)),
        statistic=total / error,
        freedom=1,
        effect=effect,
        interval=(low, high),
        size=effect,
        smallest_seen=math.sqrt(
            (tail_quantile(SEEN_LEVEL) + tail_quantile(1.0 - SEEN_POWER)) * error / scale
        ),
        clicks=found.clicks,
    )
