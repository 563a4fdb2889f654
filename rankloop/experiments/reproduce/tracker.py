"""The progress of a reproduction over all its runs, by their expected time."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rankloop.experiments.files import read_object
from rankloop.experiments.reproduce.costs import format_duration
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.reproduce.table import ResultTable
from rankloop.progress import Progress, Update, report
from rankloop.storage.files import write_whole

# The task that a reproduction is called in progress.
TASK = "reproduce"
# Until this share of the work is done, the remaining time is the planned one.
SHARE_TO_EXTRAPOLATE = 0.02


class Clock:
    """The time that a reproduction has taken, including earlier calls that were interrupted."""

    def __init__(self, path: Path) -> None:
        self._path, self._begin = path, time.monotonic()
        self._before = read_seconds(path)

    def save(self) -> float:
        """Write the seconds so far to the file, and return them."""
        seconds = self._before + time.monotonic() - self._begin
        write_seconds(self._path, seconds)
        return seconds


def write_seconds(path: Path, seconds: float) -> None:
    """Write a duration to a file."""
    write_whole(path, json.dumps({"seconds": seconds}).encode())


def read_seconds(path: Path) -> float:
    """The duration in a file; 0 if there is none."""
    seconds = read_object(path).get("seconds") if path.exists() else 0.0
    # A damaged file costs the time that was counted so far, which no result depends on.
    return float(seconds) if isinstance(seconds, int | float) and math.isfinite(seconds) else 0.0


@dataclass(frozen=True)
class RemainingWork:
    """The estimated work that remains.

    Attributes:
        seconds_by_task: the seconds on one core of every run and setup that is to be made, by name.
        seconds: the seconds of all of them on all cores.
        runs: the number of all runs.
        finished: the number of runs that had finished before.
    """

    seconds_by_task: Mapping[str, float]
    seconds: float
    runs: int
    finished: int


class Tracker:
    """Adds up the progress of all runs and setups, and keeps the table of results up to date.

    Args:
        estimate: what is to be done.
        table: gets the rows of every run that finishes.
        clock: saved whenever a run finishes.
        progress: called with the progress of the whole; its detail is the `Job` when a run has finished.
    """

    def __init__(
        self, estimate: RemainingWork, table: ResultTable, clock: Clock, progress: Progress | None
    ) -> None:
        self._estimate, self._table, self._clock, self._progress = estimate, table, clock, progress
        self._shares = dict.fromkeys(estimate.seconds_by_task, 0.0)
        self._finished, self._begin = estimate.finished, time.monotonic()
        self._lock = threading.Lock()

    def __call__(self, update: Update) -> None:
        """Take an update of a run or setup; those that were made before have nothing new to report."""
        if update.task not in self._shares or update.share is None:
            return
        job = update.detail if isinstance(update.detail, Job) else None
        with self._lock:
            self._shares[update.task] = max(update.share, self._shares[update.task])
            if job is not None:
                self._finished += 1
                self._table.add(job)
                self._clock.save()
            share = self._share()
            note = f"{self._finished} of {self._estimate.runs} runs, {share:.0%}, {self._left(share)} left"
        report(self._progress, TASK, share, note, milestone=job is not None, detail=job)

    def _share(self) -> float:
        seconds = self._estimate.seconds_by_task
        return sum(seconds[name] * share for name, share in self._shares.items()) / sum(seconds.values())

    def _left(self, share: float) -> str:
        if share < SHARE_TO_EXTRAPOLATE:
            return format_duration(self._estimate.seconds)
        return format_duration((time.monotonic() - self._begin) * (1.0 - share) / share)
