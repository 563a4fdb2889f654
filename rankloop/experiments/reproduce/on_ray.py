"""Runs on a Ray cluster: the data is put there once, every run is a task, results go to the common folder.

All machines must see the folder of the reproduction under the same path. A run draws from streams of random
numbers of its own, so that where it is made, and beside what, does not matter to its numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.executors import SETUPS, Watch, make_run, seeds_of, setup_name
from rankloop.experiments.reproduce.presets import Preset
from rankloop.experiments.reproduce.schedule import Job
from rankloop.experiments.reproduce.seed_setups import SeedSetups
from rankloop.loop.simulated_users import SimulatedUsers
from rankloop.types import Dataset

World = tuple[Dataset, SimulatedUsers]


def make_all(jobs: Sequence[Job], seed_setups: SeedSetups, folder: Path, watch: Watch) -> None:
    """Make all runs; see `rankloop.experiments.reproduce.executors.Engine`."""
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    try:
        _make_all(ray, jobs, seed_setups, folder.resolve(), watch)
    finally:
        if ours:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise RankloopError('Ray is not installed: pip install "rankloop[ray]"') from error
    return ray


def _make_all(ray: Any, jobs: Sequence[Job], seed_setups: SeedSetups, folder: Path, watch: Watch) -> None:
    world = ray.put(seed_setups.world)
    build, make = ray.remote(num_cpus=1)(_build), ray.remote(num_cpus=1)(_make)
    built = {seed: build.remote(world, seed_setups.preset, seed, folder) for seed in seeds_of(jobs)}
    names: dict[Any, str] = {task: setup_name(seed) for seed, task in built.items()}
    # A run begins when its seed is set up: that is what its last argument waits for.
    names |= {
        make.remote(world, seed_setups.preset, job, folder, built[job.spec.seed]): job.name for job in jobs
    }
    waiting = list(names)
    while waiting:
        (ended,), waiting = ray.wait(waiting)
        try:
            ray.get(ended)
        except ray.exceptions.RayTaskError as error:
            for task in waiting:
                ray.cancel(task)
            raise error.cause from error
        watch(names[ended], 1.0)


def _build(world: World, preset: Preset, seed: int, folder: Path) -> None:
    SeedSetups(preset, folder / SETUPS, world)(seed)


def _make(world: World, preset: Preset, job: Job, folder: Path, _laid: None) -> None:
    make_run(job, SeedSetups(preset, folder / SETUPS, world)(job.spec.seed), folder)
