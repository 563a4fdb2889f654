"""Several runs in parallel: each in its own thread, all on one copy of the data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from rankloop.experiments.run import Run
from rankloop.experiments.setup import Setup
from rankloop.progress import Progress, Update
from rankloop.ragged import threads

# A piece of work, which reports its progress.
Job = Callable[[Progress], object]


class _StoppedError(Exception):
    """Another job failed, or the caller was interrupted."""


def resume_all(runs: Sequence[Run], setup: Setup, progress: Progress | None = None) -> None:
    """Run or resume several runs, as many at a time as there are threads.

    Kernels release the GIL, so runs keep several cores busy. If one fails, or the caller is interrupted, the
    others stop after their current event and can be resumed.

    Args:
        runs: the runs, with different names; they differ only in how they learn.
        setup: what all of them run on.
        progress: called after every event, from several threads.
    """
    # Here and not in the threads: a folder that holds another run is reported before the work begins.
    for run in runs:
        run.check()

    def job(run: Run) -> Job:
        return lambda progress: run.resume(setup, progress)

    do_all({run.name: job(run) for run in runs}, progress)


def do_all(jobs: Mapping[str, Job], progress: Progress | None = None) -> None:
    """Do each job in a thread, in order, as many at a time as there are threads.

    If one fails, or the caller is interrupted, the others stop at the next update that they report.

    Args:
        jobs: the jobs by name; each is given a function to report its progress to.
        progress: called with every update, from several threads.
    """
    stop = threading.Event()

    def report(update: Update) -> None:
        if progress is not None:
            progress(update)
        if stop.is_set():
            raise _StoppedError

    with ThreadPoolExecutor(threads(), thread_name_prefix="run") as pool:
        futures = [pool.submit(job, report) for job in jobs.values()]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            if not all(future.done() for future in futures):
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
    failures = [future.exception() for future in futures if not future.cancelled()]
    for failure in failures:
        if failure is not None and not isinstance(failure, _StoppedError):
            raise failure
