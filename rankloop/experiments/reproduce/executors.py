"""Executors of the runs of a reproduction: threads of this process, or a Ray cluster."""

from __future__ import annotations

import threading
from typing import Protocol

from rankloop import extras, names
from rankloop.experiments import parallel
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.reproduce.work import Work, setup_name
from rankloop.progress import Progress, report


class Executor(Protocol):
    """Does the work of a reproduction, resuming what was interrupted."""

    def __call__(self, work: Work, progress: Progress) -> None:
        """Build all setups and make all runs, in their order.

        Args:
            work: the work; what has been done before is left as it is.
            progress: called with the progress of each run, under its name, and once with the `Job` as detail
                when a run has finished; also when the setup of a seed, under the name ``seed-…``, has been
                built. It may be called from several threads.
        """
        ...


def local(work: Work, progress: Progress) -> None:
    """Use all cores of this machine, in threads that share one copy of the data."""
    # The first thread that needs the setup of a seed builds it, while others that need it wait.
    locks = {seed: threading.Lock() for seed in work.seeds}

    def set_up(seed: int, progress: Progress) -> None:
        with locks[seed]:
            work.set_up(seed, progress)

    def setup_job(seed: int) -> parallel.Job:
        def job(progress: Progress) -> None:
            set_up(seed, progress)
            report(progress, setup_name(seed), 1.0)

        return job

    def run_job(job: Job) -> parallel.Job:
        def run(progress: Progress) -> None:
            set_up(job.spec.seed, progress)
            work.run(job, progress)
            report(progress, job.name, 1.0, milestone=True, detail=job)

        return run

    jobs = {setup_name(seed): setup_job(seed) for seed in work.seeds}
    jobs |= {job.name: run_job(job) for job in work.jobs}
    parallel.do_all(jobs, progress)


def ray(work: Work, progress: Progress) -> None:
    """Use a Ray cluster: the one that ``RAY_ADDRESS`` names, or one on this machine."""
    from rankloop.experiments.reproduce.ray_executor import execute

    execute(work, progress)


EXECUTORS: dict[str, Executor] = {"local": local, "ray": ray}


def executor(name: str) -> Executor:
    """The executor of this name.

    Raises:
        MissingExtraError: it is Ray, which is not installed.

    >>> executor("local") is local
    True
    """
    if name not in EXECUTORS:
        raise names.unknown("engine", name, EXECUTORS)
    if name == "ray":
        extras.require("ray")
    return EXECUTORS[name]
