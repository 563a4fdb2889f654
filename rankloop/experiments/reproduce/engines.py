"""Where the runs of a reproduction are made: in threads of this process, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from rankloop import names
from rankloop.experiments import together
from rankloop.experiments.grounds import Grounds
from rankloop.experiments.reproduce.footing import Footing
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.results import CHECKPOINT, LEARNED
from rankloop.experiments.run import prepare, run, share_done
from rankloop.loop import Event

# Told which run it is and how much of it is done, from 0 to 1; it may be called from several threads.
Watch = Callable[[str, float], None]

# Folders of a reproduction.
RUNS, FOOTING = "runs", "footing"


class Engine(Protocol):
    """Makes runs, going on with those that were cut."""

    def __call__(self, jobs: Sequence[Job], footing: Footing, folder: Path, watch: Watch) -> None:
        """Make all runs, those of the first seeds first.

        Args:
            jobs: the runs.
            footing: what they stand on.
            folder: of the reproduction.
            watch: told how far each run has come; also of ``seed-…``, when the footing of a seed is laid.
        """
        ...


def footing_name(seed: int) -> str:
    """What the laying of a seed's footing is called in progress."""
    return f"seed-{seed}"


def seeds_of(jobs: Iterable[Job]) -> list[int]:
    """The seeds of the runs, each once."""
    return sorted({job.spec.seed for job in jobs})


def make_run(job: Job, grounds: Grounds, folder: Path, tell: Callable[[Event], None] | None = None) -> None:
    """Make one run, unless it has been made.

    A run that has come to its end needs no checkpoint, which may be as large as all its policies' exposures.
    """
    place = folder / RUNS / job.name
    prepare(job.spec, place, shared=grounds)
    if not (place / LEARNED).exists():
        run(job.spec, place, tell, shared=grounds)
    (place / CHECKPOINT).unlink(missing_ok=True)


def done(job: Job, event: Event) -> float:
    """How much of a run an event has behind it, in time."""
    # Online methods take as long for one interaction as for another, estimators for one training.
    return event.timesteps / job.spec.horizon if job.arm.is_online else share_done(job.spec, event)


def local(jobs: Sequence[Job], footing: Footing, folder: Path, watch: Watch) -> None:
    """All cores of this machine, in threads that share one copy of the data."""
    by_name = {job.name: job for job in jobs}

    def laying(seed: int) -> together.Job:
        def lay(_tell: object) -> None:
            footing(seed)
            watch(footing_name(seed), 1.0)

        return lay

    def running(job: Job) -> together.Job:
        def make(tell: Callable[[Event], None]) -> None:
            make_run(job, footing(job.spec.seed), folder, tell)
            watch(job.name, 1.0)

        return make

    work = {footing_name(seed): laying(seed) for seed in seeds_of(jobs)}
    work |= {job.name: running(job) for job in jobs}
    together.side_by_side(work, lambda name, event: watch(name, done(by_name[name], event)))


def ray(jobs: Sequence[Job], footing: Footing, folder: Path, watch: Watch) -> None:
    """A Ray cluster: the one that ``RAY_ADDRESS`` names, or one on this machine."""
    from rankloop.experiments.reproduce.on_ray import make_all

    make_all(jobs, footing, folder, watch)


ENGINES: dict[str, Engine] = {"local": local, "ray": ray}


def engine(name: str) -> Engine:
    """The engine of this name.

    >>> engine("local") is local
    True
    """
    if name not in ENGINES:
        raise names.unknown("engine", name, ENGINES)
    return ENGINES[name]
