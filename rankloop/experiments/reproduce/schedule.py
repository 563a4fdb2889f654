"""What a reproduction has to do: the runs that its figures need, each once, and the setups of their seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rankloop import names
from rankloop._version import __version__
from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.about import ABOUT, About, versions
from rankloop.experiments.reproduce.figures import AnyFigure, arms
from rankloop.experiments.reproduce.presets import Arm, Preset, spell_seeds
from rankloop.experiments.run import Run
from rankloop.experiments.setup import Environment, Setup
from rankloop.experiments.spec import ALL, RunSpec
from rankloop.progress import Progress
from rankloop.ragged import threads
from rankloop.storage.files import check_writable
from rankloop.storage.locks import hold_folder

# Folders of a reproduction.
RUNS, SETUPS = "runs", "setups"


@dataclass(frozen=True)
class Job:
    """One run of a reproduction.

    Attributes:
        arm: how it learns.
        spec: what to run.
    """

    arm: Arm
    spec: RunSpec

    @property
    def name(self) -> str:
        """The name of its folder in the folder of all runs."""
        return f"{self.arm.name}/seed-{self.spec.seed}"


def jobs(
    figures: Sequence[AnyFigure],
    preset: Preset,
    seeds: Sequence[int] | None = None,
    learners: Sequence[str] | None = None,
) -> list[Job]:
    """The runs that the figures need, seed by seed.

    Args:
        figures: the figures.
        preset: how large the reproduction is.
        seeds: the seeds to make runs of; None for all of the preset.
        learners: the names of the arms to make runs of; None for all that the figures show.

    Example:
        >>> from rankloop.experiments.reproduce.figures import FIGURES
        >>> from rankloop.experiments.reproduce.presets import QUICK
        >>> len(jobs([FIGURES["online"]], QUICK)), len(jobs([FIGURES["pdgd"]], QUICK))
        (25, 20)
        >>> len(jobs([FIGURES["online"], FIGURES["pdgd"]], QUICK))  # they share PDGD online
        40
        >>> [job.name for job in jobs([FIGURES["pdgd"]], QUICK, [3], ["pdgd-0"])]
        ['pdgd-0/seed-3']
    """
    chosen = preset.seeds if seeds is None else seeds
    shown = {arm.name: arm for arm in arms(figures)}
    for name in learners or ():
        if name not in shown:
            raise names.unknown("learner", name, shown)
    made = [arm for name, arm in shown.items() if learners is None or name in learners]
    return [Job(arm, preset.spec(arm, seed)) for seed in chosen for arm in made]


@dataclass(frozen=True, eq=False)
class Plan:
    """The plan of a reproduction. It can be sent to another process.

    Attributes:
        about: the description of what the folder will hold.
        figures: the figures to make.
        folder: the folder of the reproduction.
        jobs: all runs, in the order in which to start them.
        environment: the data and the users; None if no runs are needed.
    """

    about: About
    figures: tuple[AnyFigure, ...]
    folder: Path
    jobs: tuple[Job, ...] = ()
    environment: Environment | None = None

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs, each once."""
        return sorted({job.spec.seed for job in self.jobs})

    @cached_property
    def unfinished(self) -> tuple[Job, ...]:
        """The runs that had not reached their horizon."""
        return tuple(job for job in self.jobs if not self.run_of(job).finished)

    def run_of(self, job: Job) -> Run:
        """The run of a job, in its folder."""
        return Run(job.spec, self.folder / RUNS / job.name, job.name)

    def set_up(self, seed: int, progress: Progress | None = None) -> Setup:
        """Read the setup of a seed, or build it."""
        assert self.environment is not None  # there are runs
        spec, folder = self.about.preset.setup_spec(seed), self.folder / SETUPS / setup_name(seed)
        return Setup.read_or_build(spec, folder, self.environment, progress)

    def make(self, job: Job, progress: Progress | None = None) -> None:
        """Run a job to its end, or resume it; a finished one is left as it is."""
        self.run_of(job).resume(self.set_up(job.spec.seed, progress), progress)

    def __str__(self) -> str:
        shown = ", ".join(figure.name for figure in self.figures)
        if not self.jobs:
            return f"{shown}: no runs are needed"
        preset, runs = self.about.preset, len(self.jobs)
        learners = len({job.arm for job in self.jobs})
        finished = runs - len(self.unfinished)
        before = f" ({finished} of them finished before)" if finished else ""
        return (
            f"{shown}: {_count(learners, 'learner')} × {_count(runs // learners, 'run')} = "
            f"{_count(runs, 'run')}{before} on {preset.data}, up to {preset.horizon:,} impressions, "
            f"on {_count(threads(), 'core')}"
        )


def setup_name(seed: int) -> str:
    """The name of the setup of a seed, in progress and as a folder."""
    return f"seed-{seed}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plan(
    preset: Preset,
    figures: Sequence[AnyFigure],
    folder: Path,
    seeds: Sequence[int] | None = None,
    learners: Sequence[str] | None = None,
) -> Plan:
    """Load the data, and find out what there is to do.

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
    asked = About(
        version=__version__,
        preset=preset,
        seeds=chosen,
        figures=tuple(figure.name for figure in figures),
        data_fingerprint=None,
        versions=versions(),
    )
    _check_folder(folder, asked)
    environment = Environment.load(preset.setup_spec(0)) if wanted else None
    if environment is not None:
        asked = asked.model_copy(update={"data_fingerprint": environment.fingerprint})
    with hold_folder(folder):
        stored = _check_folder(folder, asked)
        about = asked if stored is None else stored.joined(asked)
        about.write(folder)
    return Plan(about, tuple(figures), folder, tuple(sorted(wanted, key=_turn)), environment)


def _turn(job: Job) -> tuple[int, bool, int]:
    """When a run is started: of a seed, what takes longest first, so that no core waits long for the others.

    Online methods learn from every impression; of the others, training takes the time, at every deployment.
    """
    number = job.arm.interventions
    return job.spec.seed, not job.arm.is_online, 0 if number == ALL else -number


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
