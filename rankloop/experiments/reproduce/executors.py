"""Where the runs of a reproduction are made: in threads of this process, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from rankloop import names
from rankloop.experiments import parallel
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.reproduce.seed_setups import SeedSetups
from rankloop.experiments.results import CHECKPOINT, LEARNED
from rankloop.experiments.run import prepare, run, share_done
from rankloop.experiments.setup import Setup
from rankloop.loop import Event

# Told which run it is and how much of it is done, from 0 to 1; it may be called from several threads.
Watch = Callable[[str, float], None]

# Folders of a reproduction.
RUNS, SETUPS = "runs", "setups"


class Executor(Protocol):
    """Makes runs, going on with those that were cut."""

    def __call__(self, jobs: Sequence[Job], seed_setups: SeedSetups, folder: Path, watch: Watch) -> None:
        """Make all runs, those of the first seeds first.

        Args:
            jobs: the runs.
            seed_setups: what they stand on.
            folder: of the reproduction.
            watch: told how far each run has come; also of ``seed-…``, when a seed is set up.
        """
        ...


def setup_name(seed: int) -> str:
    """What setting up a seed is called in progress."""
    return f"seed-{seed}"


def seeds_of(jobs: Iterable[Job]) -> list[int]:
    """The seeds of the runs, each once."""
    return sorted({job.spec.seed for job in jobs})


def make_run(job: Job, setup: Setup, folder: Path, tell: Callable[[Event], None] | None = None) -> None:
    """Make one run, unless it has been made.

    A run that has come to its end needs no checkpoint, which may be as large as all its policies' exposures.
    """
    place = folder / RUNS / job.name
    prepare(job.spec, place, shared=setup)
    if not (place / LEARNED).exists():
        run(job.spec, place, tell, shared=setup)
    (place / CHECKPOINT).unlink(missing_ok=True)


def done(job: Job, event: Event) -> float:
    """How much of a run an event has behind it, in time."""
    # Online methods take as long for one interaction as for another, estimators for one training.
    return event.timesteps / job.spec.horizon if job.arm.is_online else share_done(job.spec, event)


def local(jobs: Sequence[Job], seed_setups: SeedSetups, folder: Path, watch: Watch) -> None:
    """All cores of this machine, in threads that share one copy of the data."""
    by_name = {job.name: job for job in jobs}

    def laying(seed: int) -> parallel.Job:
        def build(_tell: object) -> None:
            seed_setups(seed)
            watch(setup_name(seed), 1.0)

        return build

    def running(job: Job) -> parallel.Job:
        def make(tell: Callable[[Event], None]) -> None:
            make_run(job, seed_setups(job.spec.seed), folder, tell)
            watch(job.name, 1.0)

        return make

    work = {setup_name(seed): laying(seed) for seed in seeds_of(jobs)}
    work |= {job.name: running(job) for job in jobs}
    parallel.side_by_side(work, lambda name, event: watch(name, done(by_name[name], event)))


def ray(jobs: Sequence[Job], seed_setups: SeedSetups, folder: Path, watch: Watch) -> None:
    """A Ray cluster: the one that ``RAY_ADDRESS`` names, or one on this machine."""
    from rankloop.experiments.reproduce.on_ray import make_all

    make_all(jobs, seed_setups, folder, watch)


ENGINES: dict[str, Executor] = {"local": local, "ray": ray}


def engine(name: str) -> Executor:
    """The engine of this name.

    >>> engine("local") is local
    True
    """
    if name not in ENGINES:
        raise names.unknown("engine", name, ENGINES)
    return ENGINES[name]
