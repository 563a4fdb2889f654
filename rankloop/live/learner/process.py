"""The learner as a process: steps until it is told to stop, one learner per store."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from rankloop.errors import RankloopError, one_line
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.notes import SETTINGS, save_note
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.store.database import Store, open_store
from rankloop.live.store.leases import LEASE_SECONDS, Lease

LOGGER = logging.getLogger("rankloop.live")


def run_learner(
    store: Store,
    settings: LearnerSettings,
    *,
    sealing_only: bool = False,
    lease_seconds: float = LEASE_SECONDS,
    stop: threading.Event | None = None,
    tell: Callable[[str], None] = LOGGER.info,
) -> None:
    """Learn from a store until told to stop; while another process does, wait.

    Args:
        store: the store.
        settings: when and how to learn.
        sealing_only: whether to seal and do nothing else.
        lease_seconds: how long after the end of one that was killed another may begin.
        stop: set to stop.
        tell: called with what was done.
    """
    stopped = stop or threading.Event()
    lease = Lease(store, "learner", seconds=lease_seconds)
    learner = LiveLearner(store, settings, sealing_only=sealing_only)
    waiting = False
    with store.engine.begin() as connection:
        if not sealing_only:
            save_note(connection, SETTINGS, settings.model_dump())
    while not stopped.is_set():
        try:
            if lease.acquire():
                waiting = False
                with _renewed(lease):
                    for line in learner.step():
                        tell(line)
            elif not waiting:
                waiting = True
                tell("another learner works on this store; this one waits until it ends")
        except (RankloopError, SQLAlchemyError, OSError) as error:
            tell(f"this step failed and is tried again: {one_line(error)}")
        stopped.wait(settings.every)
    lease.release()


@contextmanager
def _renewed(lease: Lease) -> Iterator[None]:
    """Renew a lease while a long step runs."""
    done = threading.Event()

    def renew() -> None:
        while not done.wait(lease.seconds / 3):
            try:
                lease.acquire()
            except SQLAlchemyError as error:
                LOGGER.warning("the lease cannot be renewed: %s", one_line(error))

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def start_process(location: str, log: Path, settings: LearnerSettings, *, sealing_only: bool) -> BaseProcess:
    """Start the learner as a process of its own, which ends when this one does."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(
        target=_main, args=(location, log, settings, sealing_only, os.getpid()), name="learner", daemon=True
    )
    process.start()
    return process


def _main(location: str, log: Path, settings: LearnerSettings, sealing_only: bool, parent: int) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())

    def watch() -> None:
        # A server that was killed cannot stop its learner.
        while not stop.wait(1.0):
            if os.getppid() != parent:
                stop.set()

    threading.Thread(target=watch, daemon=True).start()
    # Requests come first.
    os.nice(5)
    store = open_store(location, log=log)
    run_learner(store, settings, sealing_only=sealing_only, stop=stop)
    store.close()
