"""All results as one tidy table: a row for every evaluation of every run."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from rankloop.experiments.reproduce.evidence import Evidence, RunCurves
from rankloop.experiments.reproduce.executors import RUNS, SETUPS
from rankloop.experiments.reproduce.presets import Arm
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.reproduce.seed_setups import BOUNDS, Bounds, read_bounds
from rankloop.experiments.results import LEARNED, Row, read_rows
from rankloop.experiments.spec import spell
from rankloop.storage.files import write_whole

CSV, PARQUET = "results.csv", "results.parquet"


def tidy(jobs: Sequence[Job], folder: Path) -> list[dict[str, Any]]:
    """The rows of all runs so far, in the order of the jobs' arms and seeds.

    Columns: run, learner, interventions, seed, logged_queries; the true NDCG of the policies learned and
    logging; estimate, its standard error and the truth that it estimates; kept_start, scale; and of the seed
    random, production, full_information and same_optimiser.
    """
    rows: list[dict[str, Any]] = []
    bounds = read_all_bounds(jobs, folder)
    for arm in dict.fromkeys(job.arm for job in jobs):
        for job in (job for job in jobs if job.arm == arm):
            known = bounds.get(job.spec.seed)
            rows += [_row(job, row, known) for row in read_rows(folder / RUNS / job.name)]
    return rows


def _row(job: Job, row: Row, bounds: Bounds | None) -> dict[str, Any]:
    return {
        "run": job.name,
        "learner": job.arm.learner,
        "interventions": spell(job.arm.interventions),
        "seed": job.spec.seed,
        "logged_queries": row.timesteps,
        **row.model_dump(include={"learned", "logging", "estimate", "estimate_error", "truth"}),
        "kept_start": row.kept_start,
        "scale": row.scale,
        **({} if bounds is None else bounds.model_dump()),
    }


def write_table(rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Write the table as CSV and as Parquet; the paths."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), buffer)
    return [
        write_whole(folder / CSV, text.getvalue().encode()),
        write_whole(folder / PARQUET, buffer.getvalue()),
    ]


def read_all_bounds(jobs: Sequence[Job], folder: Path) -> dict[int, Bounds]:
    """What runs are compared with, by seed, as far as it is known."""
    seeds = sorted({job.spec.seed for job in jobs})
    places = {seed: folder / SETUPS / f"seed-{seed}" for seed in seeds}
    return {seed: read_bounds(place) for seed, place in places.items() if (place / BOUNDS).exists()}


def is_made(job: Job, folder: Path) -> bool:
    """Whether a run has come to its end."""
    return is_made_by_name(job.name, folder)


def is_made_by_name(name: str, folder: Path) -> bool:
    """Whether the run of this name has."""
    return (folder / RUNS / name / LEARNED).exists()


def read_evidence(jobs: Sequence[Job], folder: Path) -> Evidence:
    """What finished runs have shown; an arm of which a run is missing is left out."""
    learned: dict[Arm, RunCurves] = {}
    logging: dict[Arm, RunCurves] = {}
    for arm in dict.fromkeys(job.arm for job in jobs):
        own = [job for job in jobs if job.arm == arm]
        if not all(is_made(job, folder) for job in own):
            continue
        runs = [read_rows(folder / RUNS / job.name) for job in own]
        times = np.array([row.timesteps for row in runs[0]])
        learned[arm] = RunCurves(times, np.array([[row.learned for row in run] for run in runs]))
        logging[arm] = RunCurves(times, np.array([[row.logging for row in run] for run in runs]))
    return Evidence(learned, logging, list(read_all_bounds(jobs, folder).values()))
