"""Policies over time: how many impressions each had, period by period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from ibis import _

from rankloop.logs.counting import Counting, as_text

# A picture of a log has room for about so many.
MOST_PERIODS = 60
MINUTE, HOUR, DAY = 60, 3_600, 86_400
# Lengths that people count time in, in seconds; a log of many years has periods of several times the last.
LENGTHS = (1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY)


@dataclass(frozen=True)
class Periods:
    """How many impressions each policy had in each of some periods, which follow one another.

    Attributes:
        seconds: how long a period is.
        starts: when each begins, UTC.
        impressions: by policy, one number a period; impressions without a time are in none.
    """

    seconds: int
    starts: tuple[datetime, ...]
    impressions: Mapping[str, tuple[int, ...]]


def periods_of(counting: Counting) -> Periods | None:
    """The policies of a log over time; None for a log without times."""
    known = [time for row in counting.policy_times for time in (row["first"], row["last"]) if time]
    if not known:
        return None
    seconds = length_for(int((max(known) - min(known)).total_seconds()))
    first, last = (int(end.timestamp() // seconds) for end in (min(known), max(known)))
    impressions = {row["policy_id"]: [0] * (last - first + 1) for row in counting.policy_times}
    timed = counting.impressions.filter(_.timestamp.notnull())
    if counting.log.starts:
        timed = timed.filter(_.position == 1)
    else:
        timed = timed.group_by("impression_id", "policy_id").agg(timestamp=_.timestamp.min())
    number = (_.timestamp.epoch_seconds() / seconds).floor().cast("int64")
    for row in counting.rows(timed.group_by(**as_text("policy_id"), period=number).agg(came=_.count())):
        impressions[row["policy_id"]][row["period"] - first] = row["came"]
    return Periods(
        seconds,
        tuple(datetime.fromtimestamp(period * seconds, UTC) for period in range(first, last + 1)),
        {policy: tuple(came) for policy, came in impressions.items()},
    )


def length_for(span: int) -> int:
    """The shortest length of a period, in seconds, of which a span does not have too many.

    >>> length_for(3 * HOUR) // MINUTE, length_for(30 * DAY) // DAY, length_for(20 * 365 * DAY) // (28 * DAY)
    (10, 1, 5)
    """
    for length in LENGTHS:
        if span < MOST_PERIODS * length:
            return length
    return LENGTHS[-1] * (span // (MOST_PERIODS * LENGTHS[-1]) + 1)
