"""Group commit: one transaction for everything that came in while the one before was written.

A commit costs a write to the disk, however much is in it. Requests hand their work to one thread, which runs
what is waiting in one transaction and answers each request after the commit.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from sqlalchemy import Connection, Engine

from rankloop.errors import RankloopError

# What a job does within the transaction; its value is the answer.
Job = Callable[[Connection], Any]
# Jobs of one transaction at most: readers of the log and other writers get their turn.
LARGEST_GROUP = 512


class StoreBusyError(RankloopError):
    """The store cannot keep up: nothing was stored, and the request may be sent again."""


class GroupCommit:
    """Runs jobs in shared transactions, in a thread of its own.

    A job whose transaction fails is run again alone, so that one bad job does not take others with it.

    Args:
        engine: the database.
        check: called before each transaction, and after its commit before anybody is answered; an error of
            it is the answer instead.
        waiting: how many jobs may wait; further ones are refused at once.

    Example:
        >>> from sqlalchemy import NullPool, create_engine, text
        >>> writer = GroupCommit(create_engine("sqlite://", poolclass=NullPool), waiting=10)
        >>> writer.submit(lambda connection: connection.scalar(text("SELECT 1 + 1"))).result()
        2
        >>> writer.close()
    """

    def __init__(
        self, engine: Engine, *, check: Callable[[], None] = lambda: None, waiting: int = 4096
    ) -> None:
        self._engine, self._check = engine, check
        self._queue: queue.Queue[tuple[Job, Future[Any]] | None] = queue.Queue(waiting)
        self.failing = False
        self._thread = threading.Thread(target=self._run, name="group-commit", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many jobs wait for their transaction."""
        return self._queue.qsize()

    def submit(self, job: Job) -> Future[Any]:
        """Hand over a job; the future has its value after the commit, or the error.

        Raises:
            StoreBusyError: too many jobs are waiting.
        """
        done: Future[Any] = Future()
        try:
            self._queue.put_nowait((job, done))
        except queue.Full:
            raise StoreBusyError("the store cannot keep up with the requests: try again later") from None
        return done

    def close(self) -> None:
        """Finish what is waiting, then stop."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while True:
            first = self._queue.get()
            if first is None:
                return
            group, last = [first], False
            while len(group) < LARGEST_GROUP:
                try:
                    following = self._queue.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    last = True
                    break
                group.append(following)
            self._commit(group)
            if last:
                return

    def _commit(self, group: Sequence[tuple[Job, Future[Any]]]) -> None:
        wanted = [(job, done) for job, done in group if done.set_running_or_notify_cancel()]
        if not self._passes([done for _, done in wanted]):
            return
        try:
            with self._engine.begin() as connection:
                values = [job(connection) for job, _ in wanted]
        except Exception as error:
            if len(wanted) > 1:
                for job, done in wanted:
                    self._commit_alone(job, done)
            else:
                self._fail(error, *(done for _, done in wanted))
            return
        self._answer([done for _, done in wanted], values)

    def _commit_alone(self, job: Job, done: Future[Any]) -> None:
        try:
            with self._engine.begin() as connection:
                value = job(connection)
        except Exception as error:
            self._fail(error, done)
        else:
            self._answer([done], [value])

    def _answer(self, futures: Sequence[Future[Any]], values: Sequence[Any]) -> None:
        if self._passes(futures):
            self.failing = False
            for done, value in zip(futures, values, strict=True):
                done.set_result(value)

    def _passes(self, futures: Sequence[Future[Any]]) -> bool:
        try:
            self._check()
        except RankloopError as error:
            self._fail(error, *futures)
            self.failing = True
            return False
        return True

    def _fail(self, error: Exception, *futures: Future[Any]) -> None:
        self.failing = not isinstance(error, RankloopError)
        for done in futures:
            done.set_exception(error)
