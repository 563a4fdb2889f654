"""Policies over time: the impressions of each policy per period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from ibis import _

from rankloop.logs.counter import LogCounter, as_text

# A chart has room for about this many.
MOST_PERIODS = 60
MINUTE, HOUR, DAY = 60, 3_600, 86_400
# Usual lengths of a period, in seconds; a log of many years has periods of a multiple of the last one.
LENGTHS = (1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY)


@dataclass(frozen=True)
class Periods:
    """The impressions of each policy in consecutive periods.

    Attributes:
        seconds: the length of a period.
        starts: when each period begins, UTC.
        impressions: by policy, one number per period; impressions without a time are not counted.
    """

    seconds: int
    starts: tuple[datetime, ...]
    impressions: Mapping[str, tuple[int, ...]]


def count_by_period(counter: LogCounter) -> Periods | None:
    """Count the impressions of each policy per period; None for a log without times."""
    known = [time for row in counter.policy_times for time in (row["first"], row["last"]) if time]
    if not known:
        return None
    seconds = period_length(int((max(known) - min(known)).total_seconds()))
    first, last = (int(end.timestamp() // seconds) for end in (min(known), max(known)))
    impressions = {row["policy_id"]: [0] * (last - first + 1) for row in counter.policy_times}
    timed = counter.impressions.filter(_.timestamp.notnull())
    if counter.log.starts:
        timed = timed.filter(_.position == 1)
    else:
        timed = timed.group_by("impression_id", "policy_id").agg(timestamp=_.timestamp.min())
    number = (_.timestamp.epoch_seconds() / seconds).floor().cast("int64")
    for row in counter.rows(timed.group_by(**as_text("policy_id"), period=number).agg(came=_.count())):
        impressions[row["policy_id"]][row["period"] - first] = row["came"]
    return Periods(
        seconds,
        tuple(datetime.fromtimestamp(period * seconds, UTC) for period in range(first, last + 1)),
        {policy: tuple(came) for policy, came in impressions.items()},
    )


def period_length(span: int) -> int:
    """The shortest usual length of a period, in seconds, that cuts a span into few enough periods.

    >>> period_length(3 * HOUR) // MINUTE, period_length(30 * DAY) // DAY
    (10, 1)
    >>> period_length(20 * 365 * DAY) // (28 * DAY)
    5
    """
    for length in LENGTHS:
        if span < MOST_PERIODS * length:
            return length
    return LENGTHS[-1] * (span // (MOST_PERIODS * LENGTHS[-1]) + 1)
