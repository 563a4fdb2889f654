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
import os
import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from rankloop._version import __version__
from rankloop.experiments.files import check_same, read_object, write_json
from rankloop.experiments.reproduce.claims import CLAIMS, Judged, judge
from rankloop.experiments.reproduce.costs import Costs, format_duration, measure
from rankloop.experiments.reproduce.executors import Executor, local
from rankloop.experiments.reproduce.figures import AnyFigure
from rankloop.experiments.reproduce.plots import write_figure
from rankloop.experiments.reproduce.presets import Preset
from rankloop.experiments.reproduce.report import FigureFiles, claims_document
from rankloop.experiments.reproduce.schedule import Job, jobs
from rankloop.experiments.reproduce.table import ResultTable
from rankloop.experiments.reproduce.tracker import Clock, RemainingWork, Tracker
from rankloop.experiments.reproduce.work import Work, setup_name
from rankloop.experiments.setup import Environment
from rankloop.progress import Progress
from rankloop.ragged import threads
from rankloop.reports.html import write_page
from rankloop.reports.markdown import markdown_page
from rankloop.storage.files import check_writable, write_whole
from rankloop.storage.locks import hold_folder

ABOUT, FIGURES = "reproduction.json", "figures"
CLAIMS_PAGE, CLAIMS_JSON, REPORT, DURATION = "claims.md", "claims.json", "report.html", "duration.json"
# Packages that results may depend on.
PACKAGES = ("numpy", "numba", "scipy", "scikit-learn", "matplotlib", "pydantic")


@dataclass(frozen=True)
class Reproduction:
    """The outcome of a reproduction.

    Attributes:
        folder: where everything is.
        judged: the claims, in the order of the paper.
        seconds: how long it took, including earlier calls that were interrupted.
    """

    folder: Path
    judged: tuple[Judged, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan of a reproduction.

    Attributes:
        preset: how large the reproduction is.
        figures: the figures to make.
        folder: the folder of the reproduction.
        work: all runs, those that take longest first within a seed; None if no runs are needed.
        costs: how long things take; None if no runs are needed.
        unfinished: the runs that have not finished yet.
        missing_setups: the seeds whose setups have not been built yet.
    """

    preset: Preset
    figures: tuple[AnyFigure, ...]
    folder: Path
    work: Work | None = None
    costs: Costs | None = None
    unfinished: tuple[Job, ...] = ()
    missing_setups: tuple[int, ...] = ()

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All runs, in the order in which they are started."""
        return () if self.work is None else self.work.jobs

    @property
    def seconds(self) -> float:
        """About how long it will take on this machine."""
        return (
            0.0 if self.costs is None else self.costs.total(self.unfinished, self.missing_setups, threads())
        )

    @property
    def estimate(self) -> RemainingWork:
        """The runs that remain."""
        seconds: dict[str, float] = {}
        if self.costs is not None:
            seconds = {job.name: self.costs.run(job) for job in self.unfinished}
            seconds |= {setup_name(seed): self.costs.setup for seed in self.missing_setups}
        return RemainingWork(seconds, self.seconds, len(self.jobs), len(self.jobs) - len(self.unfinished))

    def __str__(self) -> str:
        names = ", ".join(figure.name for figure in self.figures)
        if not self.jobs:
            return f"{names}: no runs are needed"
        arms = len({job.arm for job in self.jobs})
        finished = self.estimate.finished
        before = f" ({finished} of them finished before)" if finished else ""
        return (
            f"{names}: {arms} learners × {self.preset.runs} runs = {len(self.jobs)} runs{before} on "
            f"{self.preset.data}, up to {self.preset.horizon:,} logged queries; "
            f"about {format_duration(self.seconds)} on {threads()} cores"
        )


def plan(preset: Preset, figures: Sequence[AnyFigure], folder: Path) -> Plan:
    """Load the data, find out what there is to do, and measure about how long it will take.

    Args:
        preset: how large the reproduction is, and on which data.
        figures: the figures to make.
        folder: where to write; a reproduction that was interrupted there is resumed.

    Raises:
        RankloopError: the folder holds another reproduction, or cannot be written to.
    """
    check_writable(folder / ABOUT)
    _check_same(preset, folder)
    wanted = jobs(figures, preset)
    environment = Environment.load(preset.setup_spec(0)) if wanted else None
    with hold_folder(folder):
        _check_same(preset, folder)
        write_json(folder / ABOUT, _about(preset, figures))
    if environment is None:
        return Plan(preset, tuple(figures), folder)
    costs = measure(environment, wanted)
    # Longest first: what is left at the end is short, and no core waits long for the others.
    ordered = sorted(wanted, key=lambda job: (job.spec.seed, -costs.run(job)))
    work = Work(preset, environment, folder, tuple(ordered))
    return Plan(preset, tuple(figures), folder, work, costs, work.unfinished_jobs(), work.missing_setups())


def reproduce(planned: Plan, executor: Executor = local, progress: Progress | None = None) -> Reproduction:
    """Make the runs, or resume them after an interruption; then the figures, the claims and the report.

    Args:
        planned: what `plan` returned.
        executor: where the runs are made.
        progress: called with the progress of the whole, from several threads; the detail is the `Job` when a
            run has finished.
    """
    with hold_folder(planned.folder):
        return _reproduce(planned, executor, progress)


def _reproduce(planned: Plan, executor: Executor, progress: Progress | None) -> Reproduction:
    folder, clock = planned.folder, Clock(planned.folder / DURATION)
    # In the order of the figures: results do not depend on how long runs take.
    table = ResultTable(jobs(planned.figures, planned.preset), folder)
    if planned.work is not None:
        executor(planned.work, Tracker(planned.estimate, table, clock, progress))
        table.write()
    evidence = table.evidence()
    for figure in planned.figures:
        write_figure(figure, evidence, folder / FIGURES)
    judged = tuple(judge(claim, evidence) for claim in CLAIMS)
    content = json.dumps([one.model_dump() for one in judged], indent=2, ensure_ascii=False)
    write_whole(folder / CLAIMS_JSON, content.encode())
    seconds = clock.save()
    about = _description(planned, seconds)
    write_whole(folder / CLAIMS_PAGE, markdown_page(claims_document(judged, about)).encode())
    drawn = FigureFiles(planned.figures, evidence, folder / FIGURES)
    write_page(claims_document(judged, about, drawn), folder / REPORT)
    return Reproduction(folder, judged, seconds)


def _about(preset: Preset, figures: Sequence[AnyFigure]) -> dict[str, Any]:
    return {
        "version": __version__,
        "preset": preset.model_dump(),
        "seeds": list(preset.seeds),
        "figures": [figure.name for figure in figures],
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """The versions of everything that results may depend on."""
    return {
        "rankloop": __version__,
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in PACKAGES},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _description(planned: Plan, seconds: float) -> dict[str, str]:
    preset = planned.preset
    return {
        "command": command(planned),
        "data": preset.data if preset.fold == 1 else f"{preset.data}, fold {preset.fold}",
        "size": f"{preset.runs} runs of each learner (seeds 0 to {preset.runs - 1}), "
        f"{preset.horizon:,} logged queries, evaluated at {len(preset.grid)} times",
        "learning": preset.learning,
        "duration": f"{format_duration(seconds)} on {threads()} cores",
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
    }


def command(planned: Plan) -> str:
    """The command line that makes this reproduction."""
    preset = planned.preset
    words = ["rankloop", "reproduce", preset.data, "--preset", preset.name, "--runs", str(preset.runs)]
    words += ["--horizon", str(preset.horizon), "--learning", preset.learning, "--fold", str(preset.fold)]
    words += ["--relevance", preset.relevance, "--out", planned.folder.name]
    for figure in planned.figures:
        words += ["--only", figure.name]
    return shlex.join(words)


def _check_same(preset: Preset, folder: Path) -> None:
    """A folder may get more runs or figures; nothing else may differ."""
    if not (folder / ABOUT).exists():
        return
    content = read_object(folder / ABOUT)
    preset_there = content.get("preset")
    stored = {
        "version": content.get("version"),
        **(preset_there if isinstance(preset_there, dict) else {}),
    }
    asked = {"version": __version__, **preset.model_dump(mode="json", exclude={"runs"})}
    check_same(folder, "reproduction", stored, asked)
