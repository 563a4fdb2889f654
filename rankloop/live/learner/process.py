"""The learner as a process: steps until it is told to stop, one learner per store."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from rankloop.errors import RankloopError, one_line
from rankloop.live.diagnostics import configure_logging
from rankloop.live.learner.health import Heartbeat, save_heartbeat
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.notes import SETTINGS, save_note
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.store.database import Store, open_store
from rankloop.live.store.leases import LEASE_SECONDS, Lease, release_leases

LOGGER = logging.getLogger("rankloop.live")
# A learner that dies again and again is started again at most this many seconds later.
LONGEST_PAUSE = 60.0


class InThread(Executor):
    """Runs each job in a thread of its own, which nobody waits for when the process ends."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of a job that has begun."""
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(fn(*args, **kwargs))
            except Exception as error:
                done.set_exception(error)

        threading.Thread(target=run, name="learning", daemon=True).start()
        return done


def run_learner(
    store: Store,
    settings: LearnerSettings,
    *,
    sealing_only: bool = False,
    lease_seconds: float = LEASE_SECONDS,
    stop: threading.Event | None = None,
    tell: Callable[[str], None] = LOGGER.info,
    restarts: int = 0,
) -> None:
    """Learn from a store until told to stop; while another process does, wait.

    Args:
        store: the store.
        settings: when and how to learn.
        sealing_only: whether to seal and to watch what is live, and not to learn.
        lease_seconds: how long after the end of one that was killed another may begin.
        stop: set to stop.
        tell: called with what was done.
        restarts: how often it was started before, and died.
    """
    stopped = stop or threading.Event()
    lease = Lease(store, "learner", seconds=lease_seconds)
    # A fit takes minutes: meanwhile, impressions are sealed and harm is noticed.
    executor = InThread()
    learner = LiveLearner(store, settings, sealing_only=sealing_only, executor=executor)
    now = time.time()
    beat = Heartbeat(not sealing_only, settings.every, settings.window, restarts, now, now)
    waiting, known = False, False
    while not stopped.is_set():
        begun = time.monotonic()
        try:
            if lease.acquire():
                waiting = False
                if not known and not sealing_only:
                    # Those of the learner that works, not of one that waits.
                    with store.engine.begin() as connection:
                        save_note(connection, SETTINGS, settings.model_dump())
                known = True
                with _renewed(lease, beat):
                    for line in learner.step():
                        tell(line)
                beat = replace(beat, failed=0, error="")
            elif not waiting:
                waiting = True
                tell("another learner works on this store; this one waits until it ends")
        except Exception as error:
            # One that ended would leave impressions unsealed, and harm unnoticed.
            if not isinstance(error, RankloopError | SQLAlchemyError | OSError):
                LOGGER.exception("a step of the learner failed")
            beat = replace(beat, failed=beat.failed + 1, error=one_line(error))
            tell(f"this step failed and is tried again: {one_line(error)}")
        if not waiting:
            now, took = time.time(), time.monotonic() - begun
            beat = replace(beat, seen_at=now, stepped_at=now, step_seconds=took, steps=beat.steps + 1)
            _say(store, beat)
        stopped.wait(settings.every)
    lease.release()


def _say(store: Store, beat: Heartbeat) -> None:
    try:
        with store.engine.begin() as connection:
            save_heartbeat(connection, beat)
    except SQLAlchemyError as error:
        LOGGER.warning("the heartbeat cannot be stored: %s", one_line(error))


@contextmanager
def _renewed(lease: Lease, beat: Heartbeat) -> Iterator[None]:
    """Renew a lease while a long step runs, and say that the learner lives."""
    done = threading.Event()

    def renew() -> None:
        while not done.wait(lease.seconds / 3):
            try:
                lease.acquire()
                _say(lease.store, replace(beat, seen_at=time.time()))
            except SQLAlchemyError as error:
                LOGGER.warning("the lease cannot be renewed: %s", one_line(error))

    thread = threading.Thread(target=renew, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


class Supervisor:
    """Keeps a process running: one that ends by itself is started again.

    Args:
        start: starts the process; it is told how often it was started before.
        buried: called with the id of a process that ended by itself.
        tell: called with what happened.
        pause: seconds until it is started again; twice as many each time, up to a minute.
    """

    def __init__(
        self,
        start: Callable[[int], BaseProcess],
        *,
        buried: Callable[[int], None] = lambda _: None,
        tell: Callable[[str], None] = LOGGER.warning,
        pause: float = 1.0,
    ) -> None:
        self._start, self._buried, self._tell, self._pause = start, buried, tell, pause
        self._stop = threading.Event()
        self.restarts = 0
        self.process = start(0)
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._thread.start()

    def terminate(self) -> None:
        """Stop the process, and do not start it again."""
        self._stop.set()
        self.process.terminate()

    def join(self, seconds: float | None = None) -> None:
        """Wait until it has stopped."""
        self._thread.join(seconds)
        self.process.join(seconds)

    def _watch(self) -> None:
        pause = self._pause
        while not self._stop.is_set():
            begun = time.monotonic()
            self.process.join()
            if self._stop.is_set():
                return
            if time.monotonic() - begun > LONGEST_PAUSE:
                pause = self._pause
            code = self.process.exitcode
            self._tell(f"the learner ended with code {code}; it is started again in {pause:g} s")
            if self.process.pid is not None:
                self._buried(self.process.pid)
            if self._stop.wait(pause):
                return
            self.restarts += 1
            self.process = self._start(self.restarts)
            if self._stop.is_set():
                self.process.terminate()
            pause = min(2.0 * pause, LONGEST_PAUSE)


def start_process(
    store: Store, location: str, settings: LearnerSettings, *, sealing_only: bool, name: str = ""
) -> Supervisor:
    """Start the learner as a process of its own, which is started again if it dies, and ends with this one.

    Args:
        store: the store, for the lease of a learner that died.
        location: where the store is, as it was opened, with passwords.
        settings: when and how to learn.
        sealing_only: whether to seal and to watch what is live, and not to learn.
        name: the surface that it learns for, with which its lines begin.
    """
    context = multiprocessing.get_context("spawn")

    def start(restarts: int) -> BaseProcess:
        arguments = (location, store.log, settings, sealing_only, os.getpid(), restarts, name)
        process = context.Process(target=_main, args=arguments, name="learner", daemon=True)
        process.start()
        return process

    def bury(process: int) -> None:
        try:
            release_leases(store, process)
        except SQLAlchemyError as error:
            LOGGER.warning("the lease of the learner that ended cannot be released: %s", one_line(error))

    return Supervisor(start, buried=bury)


def _main(
    location: str,
    log: Path,
    settings: LearnerSettings,
    sealing_only: bool,
    parent: int,
    restarts: int,
    name: str,
) -> None:
    configure_logging(settings)
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

    def tell(line: str) -> None:
        LOGGER.info("%s", f"{name}: {line}" if name else line)

    run_learner(store, settings, sealing_only=sealing_only, stop=stop, tell=tell, restarts=restarts)
    store.close()
