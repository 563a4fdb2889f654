"""Runs on a Ray cluster: the data is sent once, every run is a task, results go to a shared folder.

All machines must see the folder of the reproduction under the same path. Each run has its own streams of
random numbers, so its results do not depend on where it is made, or alongside what.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from rankloop import extras
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.reproduce.work import Work, setup_name
from rankloop.progress import Progress, report


def execute(work: Work, progress: Progress) -> None:
    """Do all work; see `rankloop.experiments.reproduce.executors.Executor`."""
    ray = extras.load("ray")
    started_here = not ray.is_initialized()
    if started_here:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    try:
        _execute(ray, replace(work, folder=work.folder.resolve()), progress)
    finally:
        if started_here:
            ray.shutdown()


def _execute(ray: Any, work: Work, progress: Progress) -> None:
    sent = ray.put(work)
    set_up, run = ray.remote(num_cpus=1)(_set_up), ray.remote(num_cpus=1)(_run)
    setups = {seed: set_up.remote(sent, seed) for seed in work.seeds}
    # A run waits for its last argument: the setup of its seed.
    runs = {run.remote(sent, job, setups[job.spec.seed]): job for job in work.jobs}
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


def _set_up(work: Work, seed: int) -> None:
    work.set_up(seed)


def _run(work: Work, job: Job, _setup: None) -> None:
    work.run(job)
