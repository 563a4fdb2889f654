"""Executors of the runs of a reproduction: threads of this process, or a Ray cluster.

On Ray, the data is sent once and every run is a task. All machines must see the folder of the reproduction
under the same path. Each run has its own streams of random numbers, so its results do not depend on where it
is made, or alongside what.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from typing import Any, Protocol

from rankloop import extras, names
from rankloop.experiments import parallel
from rankloop.experiments.reproduce.schedule import Job, Plan, setup_name
from rankloop.progress import Progress, report


class Executor(Protocol):
    """Does the work of a reproduction, resuming what was interrupted."""

    def __call__(self, plan: Plan, progress: Progress) -> None:
        """Build all setups and make all runs, in their order.

        Args:
            plan: what there is to do; what has been done before is left as it is.
            progress: called with the progress of each run, under its name, and once with the `Job` as detail
                when a run has finished; also when the setup of a seed, under the name ``seed-…``, has been
                built. It may be called from several threads.
        """
        ...


def local(plan: Plan, progress: Progress) -> None:
    """Use all cores of this machine, in threads that share one copy of the data."""
    # The first thread that needs the setup of a seed builds it, while others that need it wait.
    locks = {seed: threading.Lock() for seed in plan.seeds}

    def set_up(seed: int, progress: Progress) -> None:
        with locks[seed]:
            plan.set_up(seed, progress)

    def setup_job(seed: int) -> parallel.Job:
        def job(progress: Progress) -> None:
            set_up(seed, progress)
            report(progress, setup_name(seed), 1.0)

        return job

    def run_job(job: Job) -> parallel.Job:
        def run(progress: Progress) -> None:
            set_up(job.spec.seed, progress)
            plan.make(job, progress)
            report(progress, job.name, 1.0, milestone=True, detail=job)

        return run

    jobs = {setup_name(seed): setup_job(seed) for seed in plan.seeds}
    jobs |= {job.name: run_job(job) for job in plan.jobs}
    parallel.do_all(jobs, progress)


def ray(plan: Plan, progress: Progress) -> None:
    """Use a Ray cluster: the one that ``RAY_ADDRESS`` names, or one on this machine."""
    cluster = extras.load("ray")
    started_here = not cluster.is_initialized()
    if started_here:
        cluster.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    try:
        _execute(cluster, replace(plan, folder=plan.folder.resolve()), progress)
    finally:
        if started_here:
            cluster.shutdown()


def _execute(ray: Any, plan: Plan, progress: Progress) -> None:
    sent = ray.put(plan)
    set_up, run = ray.remote(num_cpus=1)(_set_up), ray.remote(num_cpus=1)(_run)
    setups = {seed: set_up.remote(sent, seed) for seed in plan.seeds}
    # A run waits for its last argument: the setup of its seed.
    runs = {run.remote(sent, job, setups[job.spec.seed]): job for job in plan.jobs}
    names = {task: setup_name(seed) for seed, task in setups.items()}
    pending = [*names, *runs]
    while pending:
        (done,), pending = ray.wait(pending)
        try:
            ray.get(done)
        except ray.exceptions.RayTaskError as error:
            for task in pending:
                ray.cancel(task)
            raise error.cause from error
        if done in runs:
            report(progress, runs[done].name, 1.0, milestone=True, detail=runs[done])
        else:
            report(progress, names[done], 1.0)


def _set_up(plan: Plan, seed: int) -> None:
    plan.set_up(seed)


def _run(plan: Plan, job: Job, _setup: None) -> None:
    plan.make(job)


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
