"""What impressions look like: how many rows, which positions, which clicks, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any

import ibis
from ibis import _

from rankloop.logs.counter import LogCounter
from rankloop.logs.engines import Expression
from rankloop.logs.periods import DAY, HOUR

# Columns that may tell who looked; a log need not have any of them.
CLIENT_COLUMNS = ("client_id", "user_id", "session_id")
# Hashes of rows are reduced to this many, so that their sum over an impression does not overflow.
CONTENT_CODES = 2**44
# Impressions with fewer rows are often clicked everywhere.
LEAST_ROWS = 3


@dataclass(frozen=True)
class ClockGap:
    """A time without impressions that is much longer than usual.

    Attributes:
        start: the last impression before it.
        end: the first impression after it.
    """

    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.end - self.start


class ImpressionShapes:
    """Counts impressions by what they look like, on the engine of a counter.

    Args:
        counter: counts the log.
    """

    def __init__(self, counter: LogCounter) -> None:
        self.counter = counter
        found = (name for name in CLIENT_COLUMNS if name in counter.impressions.columns)
        self.client = next(found, None)

    @cached_property
    def table(self) -> Expression:
        """One row per impression."""
        rows = self.counter.impressions
        shown = rows.mutate(
            # Hashes of ids are smaller than ids.
            code=rows.impression_id.hash(),
            query=rows.query_id.hash(),
            content=(
                rows.doc_id.cast("string")
                + ibis.literal("|")
                + rows.position.cast("string")
                + rows.clicked.cast("string")
            ).hash(),
        )
        names = {"client": _[self.client].cast("string").min()} if self.client else {}
        by_impression = shown.group_by("code").agg(
            rows=_.count(),
            clicks=_.clicked.sum(),
            last=_.position.max(),
            # A sum does not depend on the order of rows; of so many bits, half a million fit into 64.
            content=(_.content % CONTENT_CODES).sum(),
            query_id=_.query_id.cast("string").min(),
            mixed=_.query.min() != _.query.max(),
            time=_.timestamp.min(),
            **names,
        )
        return self.counter.engine.stored(by_impression)

    @cached_property
    def totals(self) -> Mapping[str, int]:
        """How many impressions there are, and how many of several kinds."""
        full = (_.clicks == _.rows) & (_.rows >= LEAST_ROWS)
        found = self.counter.rows(
            self.table.agg(
                impressions=_.count(),
                single=(_.rows == 1).sum(),
                mixed=_.mixed.sum(),
                overfull=(_.rows > _.last).sum(),
                longest=_.rows.max(),
                full=full.sum(),
                unclicked=(_.clicks == 0).sum(),
                several=(_.rows >= LEAST_ROWS).sum(),
            )
        )
        return {name: int(value or 0) for name, value in found[0].items()}

    def copies(self) -> int:
        """How many impressions look like another one: query, time, documents, positions and clicks."""
        timed = self.table.filter(_.time.notnull())
        # Times that are only days say little.
        timed = timed.filter(_.time.epoch_seconds() % DAY != 0)
        alike = timed.group_by("query_id", "time", "content").agg(n=_.count()).filter(_.n > 1)
        ((extra,),) = (row.values() for row in self.counter.rows(alike.agg(extra=(_.n - 1).sum())))
        return int(extra or 0)

    def clock_gaps(self, *, least: int, times_usual: float) -> tuple[ClockGap, ...]:
        """Times without impressions, the longest first.

        Args:
            least: the number of impressions below which nothing is usual.
            times_usual: how many times the mean time between impressions such a time is, at least; and at
                least an hour.
        """
        hour = (_.time.epoch_seconds() / HOUR).floor().cast("int64")
        by_hour = (
            self.table.filter(_.time.notnull())
            .group_by(hour=hour)
            .agg(n=_.count(), begins=_.time.min(), ends=_.time.max())
        )
        hours = sorted(self.counter.rows(by_hour), key=lambda row: row["hour"])
        impressions = sum(row["n"] for row in hours)
        if impressions < least:
            return ()
        span = (hours[-1]["ends"] - hours[0]["begins"]).total_seconds()
        bound = max(HOUR, times_usual * span / impressions)
        found = [
            ClockGap(_utc(before["ends"]), _utc(after["begins"]))
            for before, after in pairwise(hours)
            if (after["begins"] - before["ends"]).total_seconds() > bound
        ]
        return tuple(sorted(found, key=lambda gap: -gap.length))

    def eager(self, by: str, *, rows: int, rate: float) -> list[dict[str, Any]]:
        """Queries or clients that click nearly everything, those with the most impressions first.

        Args:
            by: ``query_id`` or ``client``.
            rows: how many rows they were shown, at least.
            rate: the share of them that they clicked, at least.
        """
        found = self.table.group_by(name=_[by]).agg(n=_.count(), rows=_.rows.sum(), clicks=_.clicks.sum())
        # Where a single row is shown, it is often the one that was asked for.
        found = found.filter((_.rows >= rows) & (_.rows >= LEAST_ROWS * _.n) & (_.clicks >= rate * _.rows))
        return self.counter.rows(found.order_by(ibis.desc("n"), "name"))

    def eager_clients(self, *, rows: int, eager: float, human: float) -> tuple[list[dict[str, Any]], int]:
        """Clients that click most of what they are shown, and how many come close to it.

        Args:
            rows: how many rows they were shown, at least.
            eager: the share of them that they clicked, at least.
            human: the share that those who come close clicked, at least.

        Returns:
            the clients with the most impressions first, and the number of those between the two shares.
        """
        found = self.table.group_by(name=_.client).agg(n=_.count(), rows=_.rows.sum(), clicks=_.clicks.sum())
        # Where a single row is shown, it is often the one that was asked for.
        found = found.filter((_.rows >= rows) & (_.rows >= LEAST_ROWS * _.n) & (_.clicks >= human * _.rows))
        all_of_them = self.counter.rows(found.order_by(ibis.desc("n"), "name"))
        first = [row for row in all_of_them if row["clicks"] >= eager * row["rows"]]
        return first, len(all_of_them) - len(first)

    def tireless(self, by: str, *, hours: int, per_hour: int) -> list[dict[str, Any]]:
        """Queries or clients that never stop: active in nearly all hours of a day, or very often in one hour.

        Args:
            by: ``query_id`` or ``client``.
            hours: how many different hours of one day, at least.
            per_hour: or how many impressions in one hour, at least.
        """
        timed = self.table.filter(_.time.notnull())
        hour = (_.time.epoch_seconds() / HOUR).floor().cast("int64")
        by_hour = timed.group_by(name=_[by], hour=hour).agg(n=_.count())
        by_day = by_hour.mutate(day=(_.hour / 24).floor()).group_by("name", "day")
        days = by_day.agg(hours=_.count(), most=_.n.max(), n=_.n.sum())
        found = days.filter((_.hours >= hours) | (_.most >= per_hour))
        return self.counter.rows(found.group_by("name").agg(n=_.n.sum()).order_by(ibis.desc("n"), "name"))

    def bursts(self, *, per_hour: int, times_usual: float) -> list[dict[str, Any]]:
        """Queries that came far more often in one hour than usual, with the impressions of that hour.

        Args:
            per_hour: how many impressions in the hour, at least.
            times_usual: how many times the query's mean over all hours of the log, at least.
        """
        timed = self.table.filter(_.time.notnull())
        hour = (_.time.epoch_seconds() / HOUR).floor().cast("int64")
        span = self.counter.rows(timed.agg(first=hour.min(), last=hour.max()))[0]
        if span["first"] is None:
            return []
        hours = span["last"] - span["first"] + 1
        by_hour = timed.group_by(name=_.query_id, hour=hour).agg(n=_.count())
        by_query = by_hour.group_by("name").agg(n=_.n.max(), total=_.n.sum())
        found = by_query.filter((_.n >= per_hour) & (_.n * hours >= times_usual * _.total))
        return self.counter.rows(found.select("name", "n").order_by(ibis.desc("n"), "name"))


def _utc(time: datetime) -> datetime:
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
