"""The results of a reproduction: one tidy table, and its curves as figures and claims use them.

Arms may have runs of different seeds, as when only a part of a reproduction has been made. What is compared
are the runs of seeds that both sides have: they share the data, the production ranker and its baselines.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.figures import Quantity
from rankloop.experiments.reproduce.presets import Arm
from rankloop.experiments.results import RunResult
from rankloop.experiments.setup import BEST_SUPERVISED, NOISE_FREE, ORACLE, SUPERVISED
from rankloop.experiments.spec import ALL, spell
from rankloop.experiments.summary import RunCurves
from rankloop.storage.files import write_whole
from rankloop.types import Float64

CSV, PARQUET = "results.csv", "results.parquet"
BOUNDS = (BEST_SUPERVISED, NOISE_FREE)
BASELINES = ("random", "start", SUPERVISED, ORACLE, *BOUNDS)
# Which run, and when; the true NDCG of the policies learned and logging; the estimate, its standard error and
# the truth that it estimates; and the baselines of the seed.
COLUMNS = (
    "run", "learner", "interventions", "seed", "impressions", "learned", "logging", "estimate",
    "estimate_error", "truth", "kept_start", "scale", *BASELINES,
)  # fmt: skip

# One row of the table: see `COLUMNS`.
TableRow = Mapping[str, Any]


class NotRunError(RankloopError):
    """A claim needs runs that were not made."""


@dataclass(frozen=True, eq=False)
class AllRuns:
    """All runs of a reproduction.

    Attributes:
        learned: the curves of the learned policies by arm; runs in the order of the seeds.
        logging: the curves of the logging policies by arm.
        baselines: by seed, the values of the baselines by name (`random`, `start`, `supervised`, `oracle`,
            `best_supervised`, `noise_free`); None for those that are not known.
    """

    learned: Mapping[Arm, RunCurves]
    logging: Mapping[Arm, RunCurves]
    baselines: Mapping[int, Mapping[str, float | None]]

    @classmethod
    def of(cls, rows: Sequence[TableRow]) -> AllRuns:
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
        return cls(curves("learned"), curves("logging"), baselines)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of which there is any run."""
        return tuple(sorted(self.baselines))

    def curves(self, arm: Arm, quantity: Quantity = "learned") -> RunCurves:
        """The runs of an arm.

        Raises:
            NotRunError: there are none.
        """
        known = self.learned if quantity == "learned" else self.logging
        if arm not in known:
            raise NotRunError(f"{arm.name} was not run")
        return known[arm]

    def pair(self, one: Arm, other: Arm) -> tuple[RunCurves, RunCurves]:
        """Two arms: the runs of the seeds that both have, at the times at which both were evaluated.

        Raises:
            NotRunError: they have no seed in common.
        """
        a, b = self.curves(one).paired(self.curves(other))
        if not a.seeds:
            raise NotRunError(f"{one.name} and {other.name} have no seed in common")
        return a, b

    def baseline(self, name: str, seeds: Sequence[int] | None = None) -> Float64:
        """The values of a baseline, one per seed.

        Args:
            name: which baseline.
            seeds: which seeds, such as those of an arm; None for all.

        Raises:
            NotRunError: there are none.
        """
        if not self.baselines:
            raise NotRunError("no production ranker and no baselines were trained")
        values = [self.baselines[seed].get(name) for seed in (self.seeds if seeds is None else seeds)]
        if None in values:
            raise NotRunError(f"the baseline {name} is not known for all runs")
        return np.array(values)

    def has_baseline(self, name: str) -> bool:
        """Whether the value of a baseline is known for every seed."""
        known = [own.get(name) is not None for own in self.baselines.values()]
        return bool(known) and all(known)


def table_rows(name: str, arm: Arm, result: RunResult) -> list[TableRow]:
    """The rows of a run, under its name in the reproduction."""
    values = {name: getattr(result.facts, name) for name in BASELINES}
    return [
        {
            "run": name,
            "learner": arm.learner,
            "interventions": spell(arm.interventions),
            "seed": result.spec.seed,
            "impressions": row.impressions,
            **row.model_dump(include={"learned", "logging", "estimate", "estimate_error", "truth"}),
            "kept_start": row.kept_start,
            "scale": row.scale,
            **values,
        }
        for row in result.rows
    ]


def table_frame(rows: Sequence[TableRow]) -> pyarrow.Table:
    """A table as a frame."""
    return pyarrow.Table.from_pylist([dict(row) for row in rows])


def write_table(rows: Sequence[TableRow], folder: Path) -> None:
    """Write a table as CSV and as Parquet."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    buffer = io.BytesIO()
    parquet.write_table(table_frame(rows), buffer)
    write_whole(folder / CSV, text.getvalue().encode())
    write_whole(folder / PARQUET, buffer.getvalue())


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
