"""The folder of a run, read back: what was asked for, what was known, what was measured.

spec.json            what was asked for, and the version
facts.json           what was known beforehand: data, users, starting policy, full information
results.jsonl        one row an evaluation
timing.json          where the time went, in seconds
start.rankloop       the starting policy
checkpoint.rankloop  the state after the last event
learned.rankloop     the policy learned in the end
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from rankloop.errors import RankloopError
from rankloop.experiments.setup import Facts
from rankloop.experiments.spec import ALL, RunSpec

SPEC, FACTS, RESULTS, TIMING = "spec.json", "facts.json", "results.jsonl", "timing.json"
START, CHECKPOINT, LEARNED = "start.rankloop", "checkpoint.rankloop", "learned.rankloop"

Content = TypeVar("Content", bound=BaseModel)


class Row(BaseModel):
    """One evaluation.

    Attributes:
        timesteps: how many interactions there were.
        learned: the true metric of the policy learned from them, on the test queries.
        logging: that of the policy that gathered the last of them.
        estimate: the reward of the learned policy as held-out clicks estimate it; None without any.
        estimate_error: the standard error of the estimate.
        truth: the true reward of the learned policy on the same held-out queries: what is estimated.
        kept_start: whether the starting policy was kept, because nothing better was found.
        scale: what the scores of the logging policy were multiplied by.
        support: the share of items whose expected α under the logging policy is below each level.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    timesteps: int
    learned: float
    logging: float
    estimate: float | None
    estimate_error: float | None
    truth: float
    kept_start: bool
    scale: float
    support: dict[str, float]


@dataclass(frozen=True)
class Run:
    """A run as its folder tells it.

    Attributes:
        folder: where it is.
        name: what it is called beside other runs: the path of its folder, as far as it tells them apart.
        version: of the program that made it.
        spec: what was asked for.
        facts: what was known beforehand.
        rows: the evaluations so far, at least one.
        timing: seconds by what they were spent on.
    """

    folder: Path
    name: str
    version: str
    spec: RunSpec
    facts: Facts
    rows: tuple[Row, ...]
    timing: dict[str, float]

    def shown(self, last: int) -> float:
        """The true metric of what users were shown, on average over the interactions up to a row.

            1/t_last · Σ_i (t_i − t_{i−1}) · ((1 − floor) · logging_i + floor · start)

        Against the starting policy, it is what exploring has cost, or learning has gained, on the way. A
        policy that changes with every interaction is taken to be half-way between two rows.
        """
        total, before, logged_before = 0.0, 0, self.facts.start
        for row in self.rows[: last + 1]:
            logged = row.logging
            if self.spec.interventions == ALL:
                logged = 0.5 * (logged_before + row.logging)
            served = (1.0 - self.spec.floor) * logged + self.spec.floor * self.facts.start
            total += (row.timesteps - before) * served
            before, logged_before = row.timesteps, row.logging
        return total / before


def read_run(folder: Path) -> Run:
    """The run in a folder, finished or not.

    Raises:
        RankloopError: a file is missing or damaged, or nothing has been evaluated yet.
    """
    content = read_json(folder / SPEC)
    version = content.pop("version", None) if isinstance(content, dict) else None
    rows = read_rows(folder)
    if not rows:
        raise RankloopError(
            f"{folder}: the run has no results yet; the command that began it goes on with it"
        )
    return Run(
        folder,
        folder.resolve().name,
        str(version),
        _checked(RunSpec, content, folder / SPEC),
        read_facts(folder),
        tuple(rows),
        read_json(folder / TIMING),
    )


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """The runs in these folders and in the folders within, in the order of their paths.

    Raises:
        RankloopError: there is none in one of them, or two are the same run.
    """
    found: dict[Path, Path] = {}
    for folder in folders:
        specs = sorted(folder.rglob(SPEC))
        if not specs:
            raise RankloopError(
                f"{folder} holds no run: rankloop run --out {folder} would write {SPEC} there"
            )
        found |= {spec.parent.resolve(): spec.parent for spec in specs}
    above = Path(os.path.commonpath([place.parent for place in found]))
    runs = [
        replace(read_run(folder), name=place.relative_to(above).as_posix()) for place, folder in found.items()
    ]
    seen: dict[str, Path] = {}
    for run in runs:
        other = seen.setdefault(f"{run.version} {run.spec.model_dump_json()}", run.folder)
        if other != run.folder:
            raise RankloopError(
                f"{other} and {run.folder} hold the same run: it must not count twice, name one of them"
            )
    return runs


def read_facts(folder: Path) -> Facts:
    """What was known before the run in a folder began."""
    return read_model(Facts, folder / FACTS)


def read_model(kind: type[Content], path: Path) -> Content:
    """What was written as JSON, as the kind of value that it was."""
    return _checked(kind, read_json(path), path)


def read_rows(folder: Path) -> list[Row]:
    """The evaluations of the run in a folder so far."""
    path = folder / RESULTS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [_checked(Row, _parsed(line, path), path) for line in lines]


def read_json(path: Path) -> Any:
    """The content of a file of a run."""
    try:
        return _parsed(path.read_text(encoding="utf-8"), path)
    except OSError as error:
        raise RankloopError(f"{path} cannot be read: {error.strerror or error}") from error


def _parsed(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise RankloopError(f"{path} is damaged, it is not JSON: {error}") from error


def _checked(kind: type[Content], content: object, path: Path) -> Content:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "its content"
        raise RankloopError(
            f"{path} is damaged, or of another version of rankloop: {where}: {first['msg']}"
        ) from error
