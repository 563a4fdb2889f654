"""Results of runs, read back from their folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, RootModel

from rankloop.errors import RankloopError
from rankloop.experiments.files import FACTS, LEARNED, RESULTS, SPEC, TIMING, parse_json, read_json, validate
from rankloop.experiments.setup import SetupFacts, read_facts
from rankloop.experiments.spec import ALL, RunSpec
from rankloop.notebook import NotebookResult
from rankloop.storage.files import write_whole
from rankloop.storage.fingerprints import canonical_json, fingerprint

# The key under which each row has a fingerprint of its run and itself.
OWNER = "run"


class Row(BaseModel):
    """One evaluation.

    Attributes:
        impressions: the number of impressions so far.
        learned: the true metric, on the test queries, of the policy learned from them.
        logging: the true metric of the policy that logged the last of them.
        estimate: the metric of the learned policy, estimated from held-out clicks; None if there are none.
        estimate_error: the standard error of the estimate.
        truth: the true metric of the learned policy on the same held-out queries: what is estimated.
        kept_start: whether the starting policy was kept because nothing better was found.
        scale: what the scores of the logging policy were multiplied by when it explored.
        explored: the share of the impressions in which it explored.
        guess_gain: how much more likely clicks are by the guess of relevance, in nats per display, on queries
            whose clicks it did not see; None if there is no guess.
        support: the share of documents whose expected α under the logging policy is below each level.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    impressions: int
    learned: float
    logging: float
    estimate: float | None
    estimate_error: float | None
    truth: float
    kept_start: bool
    scale: float
    explored: float = 1.0
    guess_gain: float | None = None
    support: dict[str, float]


class Timing(RootModel[dict[str, float]]):
    """Seconds by stage."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class RunResult(NotebookResult):
    """The results of a run, finished or not.

    Attributes:
        folder: the folder of the run.
        name: a short name among other runs: the part of the folder's path that tells them apart.
        version: the version of rankloop that made the run.
        spec: the spec of the run.
        facts: what was known before the first impression.
        rows: the evaluations so far, at least one.
        timing: seconds by stage.
    """

    document: ClassVar[str] = "rankloop.experiments.report:page_document"
    folder: Path
    name: str
    version: str
    spec: RunSpec
    facts: SetupFacts
    rows: tuple[Row, ...]
    timing: dict[str, float]

    def shown(self, last: int) -> float:
        """The true metric of what users were shown, averaged over the impressions up to a row.

            1/t_last · Σ_i (t_i − t_{i−1}) · ((1 − floor) · logging_i + floor · start)

        Compared to the starting policy, it is what exploration has cost, or learning has gained, so far. The
        value of a policy that changes with every impression is taken to be the mean of two rows.
        """
        total, before, logged_before = 0.0, 0, self.facts.start
        for row in self.rows[: last + 1]:
            logged = row.logging
            if self.spec.interventions == ALL:
                logged = 0.5 * (logged_before + row.logging)
            served = (1.0 - self.spec.floor) * logged + self.spec.floor * self.facts.start
            total += (row.impressions - before) * served
            before, logged_before = row.impressions, row.logging
        return total / before


def read_result(folder: Path) -> RunResult:
    """The results of the run in a folder, finished or not.

    Raises:
        RankloopError: a file is missing or damaged, or nothing has been evaluated yet.
    """
    content = read_json(folder / SPEC)
    version = content.pop("version", None) if isinstance(content, dict) else None
    spec, facts = validate(RunSpec, content, folder / SPEC), read_facts(folder)
    rows = read_rows(folder)
    times = [row.impressions for row in rows]
    finished = (folder / LEARNED).exists()
    if times != (list(spec.times) if finished else sorted(set(times))):
        raise RankloopError(
            f"{folder / RESULTS}: rows are missing or out of order: a run with this spec is evaluated at "
            f"{list(spec.times)}, but these are the rows of {times}; restore the file, or run it again in "
            f"another folder"
        )
    if not rows:
        raise RankloopError(
            f"{folder}: the run has no results yet; the command that started it also resumes it"
        )
    return RunResult(
        folder,
        folder.resolve().name,
        str(version),
        spec,
        facts,
        tuple(rows),
        read_timing(folder),
    )


def read_timing(folder: Path) -> dict[str, float]:
    """The seconds that the stages of the run in a folder have taken so far."""
    return validate(Timing, read_json(folder / TIMING), folder / TIMING).root


def find_results(folders: Iterable[Path]) -> list[RunResult]:
    """The results of all runs in these folders and their subfolders, in the order of their paths.

    Raises:
        RankloopError: one of the folders holds no run, or two of them hold the same run.
    """
    found: dict[Path, Path] = {}
    for folder in folders:
        specs = sorted(folder.rglob(SPEC))
        if not specs:
            raise RankloopError(
                f"{folder} holds no run: there is no {SPEC} in it; rankloop run --out {folder} makes one"
            )
        found |= {spec.parent.resolve(): spec.parent for spec in specs}
    common = Path(os.path.commonpath([path.parent for path in found]))
    results = [
        replace(read_result(folder), name=path.relative_to(common).as_posix())
        for path, folder in found.items()
    ]
    seen: dict[str, Path] = {}
    for result in results:
        other = seen.setdefault(f"{result.version} {result.spec.model_dump_json()}", result.folder)
        if other != result.folder:
            raise RankloopError(
                f"{other} and {result.folder} hold the same run, which must not count twice: name only one"
            )
    return results


def run_fingerprint(folder: Path) -> str:
    """A name for the run in a folder: for its spec, its version and the facts it began with."""
    parts = (read_json(folder / SPEC), read_json(folder / FACTS))
    try:
        return fingerprint(*(canonical_json(part).encode() for part in parts))
    except ValueError as error:  # JSON has no NaN and no infinity
        raise RankloopError(f"{folder}: {SPEC} or {FACTS} is damaged: {error}") from error


def read_rows(folder: Path) -> list[Row]:
    """The evaluations of the run in a folder so far.

    Raises:
        RankloopError: a row is damaged, or belongs to another run.
    """
    path = folder / RESULTS
    return _read_rows(path, folder) if path.exists() else []


def _read_rows(path: Path, folder: Path) -> list[Row]:
    """The rows of a file that belongs to the run in a folder."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RankloopError(f"{path} cannot be read: {error}") from error
    owner = run_fingerprint(folder) if lines else ""
    rows = []
    for number, line in enumerate(lines, 1):
        content = parse_json(line, path)
        stored = content.pop(OWNER, None) if isinstance(content, dict) else None
        rows.append(validate(Row, content, path))
        if stored != _row_fingerprint(owner, rows[-1]):
            raise RankloopError(
                f"{path}, line {number}: this row is damaged, or does not belong to the run in this folder "
                f"(its spec and facts have the fingerprint {owner}): choose another folder"
            )
    return rows


def write_rows(folder: Path, rows: Iterable[Row]) -> None:
    """Write the evaluations of the run in a folder, each with the name of the run."""
    owner = run_fingerprint(folder)
    lines = (
        json.dumps({OWNER: _row_fingerprint(owner, row), **row.model_dump(mode="json")}) + "\n"
        for row in rows
    )
    content = "".join(lines).encode()
    write_whole(folder / RESULTS, content, read_back=lambda path: _read_rows(path, folder))


def _row_fingerprint(owner: str, row: Row) -> str:
    return fingerprint(owner.encode(), canonical_json(row.model_dump(mode="json")).encode())
