"""Several runs side by side: each in its own thread, all on one copy of the data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from rankloop.experiments.run import prepare, run
from rankloop.experiments.setup import Setup
from rankloop.experiments.spec import RunSpec
from rankloop.loop import Event
from rankloop.ragged import threads

# Told which run it is, and what happened.
Watch = Callable[[str, Event], None]
# What is to be done, telling its events.
Job = Callable[[Callable[[Event], None]], object]


class _StoppedError(Exception):
    """Another run failed, or somebody has had enough."""


def run_together(
    specs: Mapping[str, RunSpec], folder: Path, shared: Setup, watch: Watch | None = None
) -> None:
    """Run each spec in a folder of its name, as many at once as there are threads to work with.

    Kernels release the GIL, so runs keep several cores busy. If one fails, or the caller is interrupted, the
    others stop after the event they are at, and can be gone on with.

    Args:
        specs: the runs by name; they differ in how they learn alone.
        folder: where their folders are.
        shared: the setup that all of them stand on.
        watch: told of every event; it is called from several threads.
    """
    # Here and not in the threads: a folder that holds something else is said before the work begins.
    for name, spec in specs.items():
        prepare(spec, folder / name, shared=shared)

    def job(name: str, spec: RunSpec) -> Job:
        return lambda tell: run(spec, folder / name, tell, shared=shared)

    side_by_side({name: job(name, spec) for name, spec in specs.items()}, watch)


def side_by_side(jobs: Mapping[str, Job], watch: Watch | None = None) -> None:
    """Do each job in a thread, in their order, as many at once as there are threads to work with.

    If one fails, or the caller is interrupted, the others stop at the next event that they tell of.

    Args:
        jobs: by name; each is given a function to tell its events to.
        watch: told of every event; it is called from several threads.
    """
    stop = threading.Event()

    def one(name: str, job: Job) -> None:
        def tell(event: Event) -> None:
            if watch is not None:
                watch(name, event)
            if stop.is_set():
                raise _StoppedError

        job(tell)

    with ThreadPoolExecutor(threads(), thread_name_prefix="run") as pool:
        begun = [pool.submit(one, name, job) for name, job in jobs.items()]
        try:
            wait(begun, return_when=FIRST_EXCEPTION)
        finally:
            if not all(job.done() for job in begun):
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
    failures = [job.exception() for job in begun if not job.cancelled()]
    for failure in failures:
        if failure is not None and not isinstance(failure, _StoppedError):
            raise failure
