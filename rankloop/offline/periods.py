"""The periods of a log within which policies are compared, if they served at different times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, starmap

import numpy as np

from rankloop.bias.movement import count_movement
from rankloop.errors import DataError
from rankloop.evidence.traffic import traffic_cuts
from rankloop.logs import LogReader
from rankloop.logs.counter import DEEPEST_POSITION, Span
from rankloop.statistics import Counts
from rankloop.statistics.counts import ImpressionTable
from rankloop.statistics.tables import CellTable
from rankloop.types import Float64, Int64

# A policy belongs to a period with at least this share of its impressions: the rest of it weighs nothing.
WHOLLY = 0.995


@dataclass(frozen=True, eq=False)
class LogPeriods:
    """The periods of a log, each with its own traffic.

    Attributes:
        spans: the parts of the log; one if all policies served at the same time.
        counts: the counts of each, with the queries and documents of the log, at all its positions.
        comparable: whether documents moved within each period, so that clicks of one period can be compared
            with each other.
    """

    spans: tuple[Span, ...]
    counts: tuple[Counts, ...]
    comparable: bool

    def __len__(self) -> int:
        return len(self.spans)

    def of_impressions(self, table: ImpressionTable) -> Int64:
        """The number of the period of each impression: int64, impressions."""
        if self.spans[0].policies is not None:
            home = {name: number for number, span in enumerate(self.spans) for name in span.policies or ()}
            return np.array([home[name] for name in table.policy_ids], np.int64)[table.policy]
        return period_of(table, np.array([span.start for span in self.spans[1:]]))


def period_of(table: ImpressionTable, cuts: Float64) -> Int64:
    """The number of the period of each impression; those without a time belong to the first."""
    assert table.time is not None
    period = np.searchsorted(cuts, table.time, side="right")
    period[np.isnan(table.time)] = 0
    return period


def periods_of(log: LogReader) -> LogPeriods | None:
    """The periods within which policies of a log are compared; None if clicks of all times are pooled.

    Two policies that served at the same time have one period, and so has a log whose periods cannot be
    compared each by itself, because its rankings hardly vary within them.

    Args:
        log: the log.
    """
    if not log.periods:
        log.periods.append(_find_periods(log))
    found = log.periods[0]
    return found if found is not None and found.comparable else None


def counts_of_periods(log: LogReader, counts: Counts) -> list[Counts] | None:
    """The counts of each period, of as many positions and by the same contexts as those of the whole log."""
    found = periods_of(log)
    if found is None:
        return None
    if counts.context_of is None:
        return [part.of_ranks(counts.positions) for part in found.counts]
    return [log.count_span(span, counts.positions, counts.context_of) for span in found.spans]


def _find_periods(log: LogReader) -> LogPeriods | None:
    try:
        table = log.impression_table()
    except DataError:
        return None
    spans = _spans(table)
    if len(spans) < 2 or log.grading().graded:
        return None
    deep = log.count(DEEPEST_POSITION)
    whole = deep.of_ranks(int(deep.cells.position.max()) + 1)
    counts = tuple(log.count_span(span, whole.positions) for span in spans)
    return LogPeriods(spans, counts, _are_comparable(whole, counts))


def _spans(table: ImpressionTable) -> tuple[Span, ...]:
    cuts = traffic_cuts(table)
    if not len(cuts) or table.time is None:
        return (Span(),)
    period = period_of(table, cuts)
    served = np.zeros((len(table.policy_ids), len(cuts) + 1))
    np.add.at(served, (table.policy, period), 1.0)
    share = served.max(axis=1) / np.maximum(served.sum(axis=1), 1.0)
    if (share >= WHOLLY).all():
        # Counts are by policy already.
        names = np.array(table.policy_ids, object)
        home = served.argmax(axis=1)
        return tuple(Span(policies=tuple(names[home == number])) for number in range(len(cuts) + 1))
    edges = [-math.inf, *cuts.tolist(), math.inf]
    return tuple(starmap(Span, pairwise(edges)))


def _are_comparable(whole: Counts, counts: tuple[Counts, ...]) -> bool:
    """Whether rankings vary within each period, and all positions can be compared there."""
    if not all(part.impressions and part.explores() for part in counts):
        return False
    pooled = count_movement(CellTable.of(whole)).positions
    return 1 < pooled <= count_movement(CellTable.of_periods(counts)).positions
