"""The work of a reproduction: the setups of its seeds and its runs, each of which can be done anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rankloop.experiments.reproduce.presets import Preset
from rankloop.experiments.reproduce.schedule import Job, seeds
from rankloop.experiments.run import Run
from rankloop.experiments.setup import Environment, Setup, is_saved
from rankloop.progress import Progress

# Folders of a reproduction.
RUNS, SETUPS = "runs", "setups"


def run_of(job: Job, folder: Path) -> Run:
    """The run of a job in the folder of a reproduction."""
    return Run(job.spec, folder / RUNS / job.name, job.name)


def setup_name(seed: int) -> str:
    """The name of the setup of a seed, in progress and as a folder."""
    return f"seed-{seed}"


@dataclass(frozen=True, eq=False)
class Work:
    """All runs of a reproduction, and what they need. It can be sent to another process.

    Attributes:
        preset: how large the reproduction is.
        environment: the data and the users.
        folder: the folder of the reproduction.
        jobs: the runs, in the order in which to start them.
    """

    preset: Preset
    environment: Environment
    folder: Path
    jobs: tuple[Job, ...]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs, each once."""
        return seeds(self.jobs)

    def unfinished_jobs(self) -> tuple[Job, ...]:
        """The runs that have not reached their horizon."""
        return tuple(job for job in self.jobs if not run_of(job, self.folder).finished)

    def missing_setups(self) -> tuple[int, ...]:
        """The seeds whose setups have not been built."""
        return tuple(seed for seed in self.seeds if not is_saved(self._setup_folder(seed)))

    def set_up(self, seed: int, progress: Progress | None = None) -> Setup:
        """Read the setup of a seed, or build it."""
        spec, folder = self.preset.setup_spec(seed), self._setup_folder(seed)
        return Setup.read_or_build(spec, folder, self.environment, progress)

    def run(self, job: Job, progress: Progress | None = None) -> None:
        """Run a job to its end, or resume it; a finished one is left as it is."""
        run_of(job, self.folder).resume(self.set_up(job.spec.seed, progress), progress)

    def _setup_folder(self, seed: int) -> Path:
        return self.folder / SETUPS / setup_name(seed)


def finished_runs(jobs: Iterable[Job], folder: Path) -> dict[Job, Run]:
    """The runs that have reached their horizon."""
    runs = {job: run_of(job, folder) for job in jobs}
    return {job: run for job, run in runs.items() if run.finished}
