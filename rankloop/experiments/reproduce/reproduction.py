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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankloop._version import __version__
from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.about import ABOUT, About, describe, missing_runs, versions
from rankloop.experiments.reproduce.claims import CLAIMS, Judged, judge
from rankloop.experiments.reproduce.costs import MINUTE, Costs, format_duration, measure
from rankloop.experiments.reproduce.evidence import AllRuns
from rankloop.experiments.reproduce.executors import Executor, local
from rankloop.experiments.reproduce.figures import AnyFigure
from rankloop.experiments.reproduce.plots import write_figure
from rankloop.experiments.reproduce.presets import Preset
from rankloop.experiments.reproduce.report import FigureFiles, claims_document
from rankloop.experiments.reproduce.schedule import Job, jobs
from rankloop.experiments.reproduce.seeds import spell_seeds
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

FIGURES = "figures"
CLAIMS_PAGE, CLAIMS_JSON, REPORT, DURATION = "claims.md", "claims.json", "report.html", "duration.json"


@dataclass(frozen=True)
class Reproduction:
    """The outcome of a reproduction.

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


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan of a reproduction.

    Attributes:
        about: the description of what the folder will hold.
        figures: the figures to make.
        folder: the folder of the reproduction.
        work: all runs, those that take longest first within a seed; None if no runs are needed.
        costs: how long things take; None if no runs are needed.
        unfinished: the runs that have not finished yet.
        missing_setups: the seeds whose setups have not been built yet.
    """

    about: About
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
        return sum(self._seconds_by_task().values()) / threads()

    @property
    def estimate(self) -> RemainingWork:
        """The runs that remain."""
        runs = len(self.jobs)
        return RemainingWork(self._seconds_by_task(), self.seconds, runs, runs - len(self.unfinished))

    def _seconds_by_task(self) -> dict[str, float]:
        """The seconds on one core of every run and setup that is to be made, by name."""
        if self.costs is None:
            return {}
        setups = self.costs.setups(self.about.preset, self.missing_setups)
        return {job.name: self.costs.run(job) for job in self.unfinished} | {
            setup_name(seed): seconds for seed, seconds in setups.items()
        }

    def __str__(self) -> str:
        names = ", ".join(figure.name for figure in self.figures)
        if not self.jobs:
            return f"{names}: no runs are needed"
        preset, arms = self.about.preset, len({job.arm for job in self.jobs})
        finished = self.estimate.finished
        before = f" ({finished} of them finished before)" if finished else ""
        cores = "one core" if threads() == 1 else f"{threads()} cores"
        return (
            f"{names}: {_count(arms, 'learner')} × {_count(len(self.jobs) // arms, 'run')} = "
            f"{_count(len(self.jobs), 'run')}{before} on "
            f"{preset.data}, up to {preset.horizon:,} impressions; "
            f"{'' if self.seconds < MINUTE else 'about '}{format_duration(self.seconds)} on {cores}"
        )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plan(
    preset: Preset,
    figures: Sequence[AnyFigure],
    folder: Path,
    seeds: Sequence[int] | None = None,
    learners: Sequence[str] | None = None,
) -> Plan:
    """Load the data, find out what there is to do, and measure about how long it will take.

    Args:
        preset: how large the reproduction is, and on which data.
        figures: the figures to make.
        folder: where to write; a reproduction that was interrupted there is resumed.
        seeds: the seeds to make runs of, a part of the preset's; None for all of them.
        learners: the names of the learners to make runs of, such as ``pdgd-0``; None for all that the figures
            show. Figures show the others as not run.

    Raises:
        RankloopError: the folder holds another reproduction, or cannot be written to.
    """
    chosen = preset.seeds if seeds is None else tuple(seeds)
    if beyond := set(chosen).difference(preset.seeds):
        raise RankloopError(
            f"--seeds {spell_seeds(beyond)} is beyond --runs {preset.runs}, whose seeds are "
            f"{spell_seeds(preset.seeds)}: make more runs (--runs), or choose other seeds (--seeds)"
        )
    wanted = jobs(figures, preset, chosen, learners)
    check_writable(folder / ABOUT)
    asked = _about(preset, figures, chosen)
    _check_folder(folder, asked)
    environment = Environment.load(preset.setup_spec(0)) if wanted else None
    if environment is not None:
        asked = asked.model_copy(update={"data_fingerprint": environment.fingerprint})
    with hold_folder(folder):
        stored = _check_folder(folder, asked)
        about = asked if stored is None else stored.joined(asked)
        about.write(folder)
    if environment is None:
        return Plan(about, tuple(figures), folder)
    costs = measure(environment, preset, wanted)
    # Longest first: what is left at the end is short, and no core waits long for the others.
    ordered = sorted(wanted, key=lambda job: (job.spec.seed, -costs.run(job)))
    work = Work(preset, environment, folder, tuple(ordered))
    return Plan(about, tuple(figures), folder, work, costs, work.unfinished_jobs(), work.missing_setups())


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
    folder, about, clock = planned.folder, planned.about, Clock(planned.folder / DURATION)
    figures = about.shown_figures(planned.figures)
    # In the order of the figures: results do not depend on how long runs take.
    table = ResultTable(jobs(figures, about.preset, about.seeds), folder)
    if planned.work is not None:
        executor(planned.work, Tracker(planned.estimate, table, clock, progress))
        table.write()
    return write_outcome(folder, about, figures, table.evidence(), clock.save())


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
    drawn = FigureFiles(figures, evidence, folder / FIGURES)
    write_page(claims_document(judged, told, drawn), folder / REPORT)
    return Reproduction(folder, judged, seconds, missing_runs(about, figures, evidence))


def _about(preset: Preset, figures: Sequence[AnyFigure], seeds: Sequence[int]) -> About:
    return About(
        version=__version__,
        preset=preset,
        seeds=tuple(seeds),
        figures=tuple(figure.name for figure in figures),
        data_fingerprint=None,
        versions=versions(),
    )


def _check_folder(folder: Path, asked: About) -> About | None:
    """The description of what a folder holds, if it holds anything; it may get more runs and figures."""
    if not (folder / ABOUT).exists():
        return None
    stored = About.read(folder)
    if stored.merged:
        raise RankloopError(
            f"{folder} holds merged results without their runs: make other runs in another folder, and merge "
            "the two (--merge)"
        )
    if difference := stored.difference(asked):
        raise RankloopError(
            f"{folder} holds another reproduction ({difference}): choose another folder, or remove this one"
        )
    return stored
