"""All results as one tidy table: a row for every evaluation of every finished run."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.evidence import AllRuns, RunCurves
from rankloop.experiments.reproduce.presets import Arm
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.reproduce.work import finished_runs, run_of
from rankloop.experiments.results import RunResult
from rankloop.experiments.setup import BEST_SUPERVISED, NOISE_FREE, ORACLE, SUPERVISED
from rankloop.experiments.spec import ALL, spell
from rankloop.storage.files import write_whole

CSV, PARQUET = "results.csv", "results.parquet"
BOUNDS = (BEST_SUPERVISED, NOISE_FREE)
BASELINES = ("random", "start", SUPERVISED, ORACLE, *BOUNDS)
COLUMNS = (
    "run", "learner", "interventions", "seed", "impressions", "learned", "logging", "estimate",
    "estimate_error", "truth", "kept_start", "scale", *BASELINES,
)  # fmt: skip

# One row of the table: see `ResultTable`.
TableRow = Mapping[str, Any]


class ResultTable:
    """The rows of all finished runs, by learner and seed; each run is read once.

    Columns: run, learner, interventions, seed, impressions; the true NDCG of the policies learned and
    logging; estimate, its standard error and the truth that it estimates; kept_start, scale; and of the
    seed's baselines random, start, supervised, oracle, best_supervised and noise_free.

    Args:
        jobs: the runs, finished or not.
        folder: the folder of the reproduction.
    """

    def __init__(self, jobs: Sequence[Job], folder: Path) -> None:
        arms = dict.fromkeys(job.arm for job in jobs)
        self._jobs = [job for arm in arms for job in jobs if job.arm == arm]
        self._folder = folder
        self._rows = {job: _rows(job, run.result) for job, run in finished_runs(jobs, folder).items()}

    @property
    def rows(self) -> list[TableRow]:
        """The rows of the runs so far."""
        return [row for job in self._jobs for row in self._rows.get(job, [])]

    def add(self, job: Job) -> None:
        """Read the rows of a run that has finished, and write the table."""
        self._rows[job] = _rows(job, run_of(job, self._folder).result)
        self.write()

    def write(self) -> None:
        """Write the table as CSV and as Parquet."""
        write_table(self.rows, self._folder)

    def evidence(self) -> AllRuns:
        """The results so far, as claims and figures use them."""
        return evidence_of(self.rows)


def _rows(job: Job, result: RunResult) -> list[TableRow]:
    values = {name: getattr(result.facts, name) for name in BASELINES}
    return [
        {
            "run": job.name,
            "learner": job.arm.learner,
            "interventions": spell(job.arm.interventions),
            "seed": job.spec.seed,
            "impressions": row.impressions,
            **row.model_dump(include={"learned", "logging", "estimate", "estimate_error", "truth"}),
            "kept_start": row.kept_start,
            "scale": row.scale,
            **values,
        }
        for row in result.rows
    ]


def write_table(rows: Sequence[TableRow], folder: Path) -> None:
    """Write a table as CSV and as Parquet."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), buffer)
    write_whole(folder / CSV, text.getvalue().encode())
    write_whole(folder / PARQUET, buffer.getvalue())


def evidence_of(rows: Sequence[TableRow]) -> AllRuns:
    """The curves and baselines of a table; every arm has the runs that are in it."""
    runs: dict[Arm, dict[int, list[TableRow]]] = {}
    for row in rows:
        runs.setdefault(arm_of(row), {}).setdefault(row["seed"], []).append(row)

    def curves(column: str) -> dict[Arm, RunCurves]:
        found = {}
        for arm, by_seed in runs.items():
            seeds = tuple(sorted(by_seed))
            times = np.array([row["impressions"] for row in by_seed[seeds[0]]])
            values = np.array([[row[column] for row in by_seed[seed]] for seed in seeds])
            found[arm] = RunCurves(times, values, seeds)
        return found

    baselines = {row["seed"]: {name: row[name] for name in BASELINES} for row in rows}
    return AllRuns(curves("learned"), curves("logging"), baselines)


def arm_of(row: TableRow) -> Arm:
    """The arm that a row belongs to."""
    number = row["interventions"]
    return Arm(learner=row["learner"], interventions=ALL if number == ALL else int(number))


def read_table(folder: Path) -> list[TableRow]:
    """The rows of the table in a folder.

    Raises:
        RankloopError: there is none, or it is damaged.
    """
    path = folder / PARQUET
    if not path.exists():
        raise RankloopError(f"{path} does not exist: name the folder of a reproduction that has results")
    try:
        rows: list[TableRow] = parquet.read_table(path).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise RankloopError(f"{path} cannot be read: {error}") from error
    # Tables of earlier versions have no bounds.
    rows = [{**row, **{name: row.get(name) for name in BOUNDS}} for row in rows]
    if missing := set(COLUMNS).difference(rows[0] if rows else COLUMNS):
        raise RankloopError(f"{path} lacks columns: {', '.join(sorted(missing))}")
    return rows
