"""A reproduction as a folder: the spec, all runs, and their figures, claims and report.

reproduction.json       preset, seeds, figures, versions of everything
setups/seed-…/          the starting policy and the baselines of each seed: see `rankloop.experiments.files`
runs/<arm>/seed-…/      one run each: see `rankloop.experiments.files`
results.csv, .parquet   all evaluations, one tidy table
figures/                SVG, PDF and PNG, and the spec of each figure
claims.md, claims.json  claim by claim
report.html             all of it on one page
duration.json           how long it took, in seconds
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.about import (
    ABOUT,
    About,
    MergedPart,
    describe,
    format_duration,
    missing_runs,
    read_seconds,
    write_seconds,
)
from rankloop.experiments.reproduce.claims import CLAIMS, Judged, judge
from rankloop.experiments.reproduce.executors import Executor, local
from rankloop.experiments.reproduce.figures import AnyFigure, arms
from rankloop.experiments.reproduce.plots import write_figure
from rankloop.experiments.reproduce.report import claims_document, figure_sections
from rankloop.experiments.reproduce.results import (
    AllRuns,
    TableRow,
    arm_of,
    read_table,
    table_frame,
    table_rows,
    write_table,
)
from rankloop.experiments.reproduce.schedule import Job, Plan, jobs
from rankloop.frames import Tabular
from rankloop.progress import Progress, Update, report
from rankloop.reports.html import write_page
from rankloop.reports.markdown import markdown_page
from rankloop.storage.files import check_writable, write_whole
from rankloop.storage.locks import hold_folder

if TYPE_CHECKING:
    import pyarrow

FIGURES = "figures"
CLAIMS_PAGE, CLAIMS_JSON, REPORT = "claims.md", "claims.json", "report.html"
# Until this share of the runs is made, nothing is said about the time that is left.
SHARE_TO_EXTRAPOLATE = 0.02
# The task that a reproduction is called in progress.
TASK = "reproduce"


@dataclass(frozen=True)
class Reproduction(Tabular):
    """The outcome of a reproduction; as a frame, one row for every evaluation of every run.

    Attributes:
        folder: where everything is.
        judged: the claims, in the order of the paper.
        seconds: how long it took, including earlier calls that were interrupted.
        missing: the runs that a complete reproduction would have and this one has not: by learner, their
            seeds.
    """

    folder: Path
    judged: tuple[Judged, ...]
    seconds: float
    missing: Mapping[str, str]

    def to_arrow(self) -> pyarrow.Table:
        """The table that ``results.parquet`` holds."""
        return table_frame(read_table(self.folder))


def reproduce(planned: Plan, executor: Executor = local, progress: Progress | None = None) -> Reproduction:
    """Make the runs, or resume them after an interruption; then the figures, the claims and the report.

    Args:
        planned: what `plan` returned.
        executor: where the runs are made.
        progress: called with the progress of the whole, from several threads; the detail is the `Job` when a
            run has finished.
    """
    folder, about = planned.folder, planned.about
    with hold_folder(folder):
        begin, before = time.monotonic(), read_seconds(folder)
        figures = about.shown_figures(planned.figures)
        # In the order of the figures: results do not depend on how long runs take.
        wanted = jobs(figures, about.preset, about.seeds)
        results = _Results(planned, sorted(wanted, key=lambda job: arms(figures).index(job.arm)))

        def save_time() -> float:
            write_seconds(folder, seconds := before + time.monotonic() - begin)
            return seconds

        def finish(job: Job) -> None:
            results.add(job)
            results.write()
            save_time()

        if planned.jobs:
            executor(planned, _total_progress(planned, finish, progress))
            results.write()
        return write_outcome(folder, about, figures, AllRuns.of(results.rows), save_time())


class _Results:
    """The rows of all finished runs, by learner and seed; each run is read once."""

    def __init__(self, planned: Plan, wanted: Sequence[Job]) -> None:
        self._planned, self._rows = planned, dict[Job, list[TableRow]]()
        self._wanted = wanted
        for job in wanted:
            if planned.run_of(job).finished:
                self.add(job)

    def add(self, job: Job) -> None:
        """Read the rows of a run that has finished."""
        self._rows[job] = table_rows(job.name, job.arm, self._planned.run_of(job).result)

    @property
    def rows(self) -> list[TableRow]:
        """The rows of the runs so far."""
        return [row for job in self._wanted for row in self._rows.get(job, [])]

    def write(self) -> None:
        """Write the table."""
        write_table(self.rows, self._planned.folder)


def _total_progress(planned: Plan, finish: Callable[[Job], None], progress: Progress | None) -> Progress:
    """A progress that takes the updates of the runs that are made, and reports that of the whole."""
    shares = {job.name: 0.0 for job in planned.unfinished}
    runs, lock, begin = len(planned.jobs), threading.Lock(), time.monotonic()
    finished = set(planned.jobs).difference(planned.unfinished)

    def follow(update: Update) -> None:
        # Runs that were made before have nothing new to report.
        if update.task not in shares or update.share is None:
            return
        job = update.detail if isinstance(update.detail, Job) else None
        with lock:
            shares[update.task] = max(update.share, shares[update.task])
            if job is not None:
                finish(job)
                finished.add(job)
            share = sum(shares.values()) / len(shares)
            note = f"{len(finished)} of {runs} runs, {share:.0%}"
        if share > SHARE_TO_EXTRAPOLATE:
            note += f", {format_duration((time.monotonic() - begin) * (1.0 - share) / share)} left"
        report(progress, TASK, share, note, milestone=job is not None, detail=job)

    return follow


def write_outcome(
    folder: Path, about: About, figures: Sequence[AnyFigure], evidence: AllRuns, seconds: float
) -> Reproduction:
    """Draw the figures, judge the claims and write the report.

    Args:
        folder: where to write.
        about: the description of the reproduction.
        figures: the figures to draw.
        evidence: the results.
        seconds: how long the runs took.
    """
    for figure in figures:
        write_figure(figure, evidence, folder / FIGURES)
    judged = tuple(judge(claim, evidence) for claim in CLAIMS)
    content = json.dumps([one.model_dump() for one in judged], indent=2, ensure_ascii=False)
    write_whole(folder / CLAIMS_JSON, content.encode())
    told = describe(about, figures, evidence, seconds, folder.name)
    write_whole(folder / CLAIMS_PAGE, markdown_page(claims_document(judged, told)).encode())
    page = claims_document(judged, told, figure_sections(figures, evidence, folder / FIGURES))
    write_page(page, folder / REPORT)
    return Reproduction(folder, judged, seconds, missing_runs(about, figures, evidence))


# The rows of one run, in the order of their times.
RunRows = list[TableRow]


def merge(folders: Sequence[Path], out: Path) -> Reproduction:
    """Merge the results of several reproductions, and make figures, claims and report from all of them.

    Only the description and the table of each folder are read, not its runs, so a merged folder is small and
    can be merged again. The result lists the runs that a complete reproduction still lacks.

    Args:
        folders: the reproductions: the same preset, version and data; seeds and figures may differ. A run
            that is in several of them must have exactly the same results in each.
        out: where to write: a new folder, or one that was merged before.

    Raises:
        RankloopError: they do not belong together, or the same run differs; nothing is written then.
    """
    if not folders:
        raise RankloopError("there is nothing to merge: name the folders of at least one reproduction")
    parts = [About.read(folder) for folder in folders]
    about = parts[0]
    for folder, part in zip(folders[1:], parts[1:], strict=True):
        if difference := part.difference(about):
            raise RankloopError(f"{folder} does not belong to {folders[0]}: {difference}")
        about = about.joined(part)
    runs = _merge_runs(folders)
    merged = _unique([one for each in zip(folders, parts, strict=True) for one in _parts(*each)])
    about = about.model_copy(update={"merged": merged})
    _check_out(out)
    figures = about.shown_figures()
    order = {arm: place for place, arm in enumerate(arms(figures))}

    def place(own: RunRows) -> tuple[int, str, int]:
        arm = arm_of(own[0])
        return order.get(arm, len(order)), arm.name, own[0]["seed"]

    rows = [row for own in sorted(runs.values(), key=place) for row in own]
    seconds = sum(part.seconds for part in merged)
    with hold_folder(out):
        write_table(rows, out)
        write_seconds(out, seconds)
        done = write_outcome(out, about, figures, AllRuns.of(rows), seconds)
        # Last: a folder with a description has everything else.
        about.write(out)
    return done


def _merge_runs(folders: Sequence[Path]) -> dict[str, RunRows]:
    """The rows of every run by its name."""
    runs: dict[str, RunRows] = {}
    source: dict[str, Path] = {}
    for folder in folders:
        own: dict[str, RunRows] = {}
        for row in read_table(folder):
            own.setdefault(row["run"], []).append(row)
        for name, rows in own.items():
            if name in runs and runs[name] != rows:
                raise RankloopError(
                    f"{source[name]} and {folder} both hold the run {name}, with different results "
                    f"({_difference(runs[name], rows)}): leave one of the two folders out"
                )
            runs.setdefault(name, rows)
            source.setdefault(name, folder)
    return runs


def _difference(one: RunRows, other: RunRows) -> str:
    """Where two versions of a run differ first."""
    if len(one) != len(other):
        return f"{len(one)} and {len(other)} rows"
    column, a, b = next(
        (column, left, right) for left, right in zip(one, other, strict=True) for column in left
        if left[column] != right.get(column)
    )  # fmt: skip
    return f"{column} is {a[column]} and {b.get(column)} at {a['impressions']:,} impressions"


def _parts(folder: Path, about: About) -> Sequence[MergedPart]:
    if about.merged:
        return about.merged
    seconds = read_seconds(folder)
    return [MergedPart(seeds=about.seeds, figures=about.figures, versions=about.versions, seconds=seconds)]


def _unique(parts: Sequence[MergedPart]) -> tuple[MergedPart, ...]:
    """The parts, each once: a folder may be merged again together with one that it is a part of."""
    unique: list[MergedPart] = []
    for part in parts:
        if part not in unique:
            unique.append(part)
    return tuple(unique)


def _check_out(out: Path) -> None:
    check_writable(out / ABOUT)
    if (out / ABOUT).exists() and not About.read(out).merged:
        raise RankloopError(f"{out} holds a reproduction with its runs: merge into another folder")
