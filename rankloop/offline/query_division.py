"""The queries of a log to train on, and those to hold out: a random share, or those that came later."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankloop.data.prepare import counts_by_share
from rankloop.errors import DataError, RankloopError
from rankloop.logs import LogReader, LogStatistics
from rankloop.logs.folder import open_folder
from rankloop.logs.schema import CANDIDATES, FEATURES, IMPRESSIONS
from rankloop.offline.model_inputs import LearningInput
from rankloop.statistics import Statistics
from rankloop.storage.temporary import scratch_folder
from rankloop.types import Int64, Split, Str


@dataclass(frozen=True, eq=False)
class Part:
    """Some queries of a log, with their documents and clicks.

    Attributes:
        query_ids: the ids of the queries.
        split: their documents with features.
        statistics: what was shown and clicked.
    """

    query_ids: Str
    split: Split
    statistics: Statistics

    @classmethod
    def of(cls, found: LogStatistics, split: Split, queries: Int64) -> Part:
        """The part of these queries."""
        return cls(found.query_ids[queries], split.select(queries), found.statistics.select(queries))


def divide_by_share(given: LearningInput, validation: float, rng: np.random.Generator) -> tuple[Part, Part]:
    """Hold out a random share of the queries."""
    came = np.flatnonzero(given.found.statistics.query_counts > 0)
    if len(came) < 2:
        raise DataError(
            f"{'only one' if len(came) else 'no'} query of the log has impressions: a ranker is fitted to "
            "some queries and judged on others, and needs hundreds of them. `rankloop relevance` estimates "
            "the relevance of documents of single queries, without features"
        )
    first, _ = counts_by_share(len(came), (1.0 - validation, validation))
    order = rng.permutation(came)
    train, held_out = np.sort(order[:first]), np.sort(order[first:])
    return Part.of(given.found, given.split, train), Part.of(given.found, given.split, held_out)


@dataclass(frozen=True, eq=False)
class TimeDivision:
    """A log that is divided at a point in time.

    Attributes:
        train: what came before.
        held_out: the queries that came for the first time since then.
        fill_values: what replaces missing values of features, as the part to train on gives it.
        sentence: what a report says about both.
    """

    train: Part
    held_out: Part
    fill_values: tuple[float, ...] | None
    sentence: str


def divide_by_time(
    log: LogReader, given: LearningInput, start: datetime, read: Callable[[LogReader], LearningInput]
) -> TimeDivision:
    """Hold out the queries that first came at a time or later, and train on what came before it.

    Impressions since then of queries that had come before are used for neither: a model that is trained on
    them would know the future, and a model that is judged on them would know the queries.

    Args:
        log: the log.
        given: its documents and clicks.
        start: the time.
        read: reads the documents and clicks of a log.
    """
    found = given.found
    with _earlier(log, start) as earlier:
        past = read(earlier)
        came_before = np.flatnonzero(past.found.statistics.query_counts > 0)
        train = Part.of(past.found, past.split, came_before)
    came = found.statistics.query_counts > 0
    new = np.flatnonzero(came & ~np.isin(found.query_ids, train.query_ids))
    if not len(new):
        raise DataError(
            f"no query came for the first time at {start.isoformat()} or later: choose an earlier time, or "
            f"hold out a share of the queries instead"
        )
    held_out = Part.of(found, given.split, new)
    unused = found.statistics.timesteps - train.statistics.timesteps - held_out.statistics.timesteps
    sentence = (
        f"Fitted to the {train.statistics.timesteps:,} impressions before {start.isoformat()}; held out: "
        f"{held_out.statistics.timesteps:,} impressions of queries that first came since then."
    )
    if unused:
        sentence += f" {unused:,} later impressions of earlier queries are used for neither."
    return TimeDivision(train, held_out, past.fill_values, sentence)


def parse_time(time: str | datetime) -> datetime:
    """A point in time; without a time zone it is in UTC, as the times of logs are.

    >>> parse_time("2024-05-01").isoformat()
    '2024-05-01T00:00:00+00:00'
    """
    try:
        found = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError as error:
        raise RankloopError(
            f"{time!r} is not a time: expected a date such as 2024-05-01, or a time such as 2024-05-01T12:00"
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@contextmanager
def _earlier(log: LogReader, start: datetime) -> Iterator[LogReader]:
    """The log until a point in time, as a temporary log of its own."""
    with scratch_folder() as scratch:
        folder = scratch / "log"
        (folder / f"{IMPRESSIONS}.parquet").mkdir(parents=True)
        rows = 0
        for number, path in enumerate(log.files(IMPRESSIONS)):
            table = pq.read_table(path.absolute(), partitioning=None)
            kept = table.filter(_is_before(table.column("timestamp"), start, path))
            rows += len(kept)
            pq.write_table(kept, folder / f"{IMPRESSIONS}.parquet" / f"{number:06d}.parquet")
        if not rows:
            raise DataError(f"the log has no impressions before {start.isoformat()}: choose a later time")
        for other in (CANDIDATES, FEATURES):
            if log.has(other):
                source = log.folder / f"{other}.parquet"
                _link(source.resolve(), folder / source.name)
        found = open_folder(folder)
        yield replace(log, folder=found.folder, tables=found.tables, starts=False)


def _is_before(times: pa.ChunkedArray, start: datetime, path: Path) -> Any:
    if pa.types.is_null(times.type) or times.null_count:
        raise DataError(
            f"{path}: some impressions have no timestamp, so the log cannot be divided by time: hold out a "
            f"share of the queries instead"
        )
    at = pa.scalar(start if times.type.tz else start.astimezone(UTC).replace(tzinfo=None))
    return pc.less(times, at.cast(times.type, safe=False))


def _link(source: Path, target: Path) -> None:
    try:
        target.symlink_to(source, target_is_directory=source.is_dir())
    except OSError:  # not every file system has links
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
