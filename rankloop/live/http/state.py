"""What the handlers of one server share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from starlette.requests import Request

from rankloop.live.http.guards import Access, AnswerError, Limiter, authorise, is_loopback, read_body
from rankloop.live.http.instruments import Instruments
from rankloop.live.http.messages import decode
from rankloop.live.ranking.live_policy import LivePolicy
from rankloop.live.service import Service
from rankloop.live.store.database import Store, read
from rankloop.live.store.group_commit import Job
from rankloop.live.store.keys import load_keys, needs_keys

# How often a server looks for new deployments and keys.
REFRESH_SECONDS = 0.25
# Models score in these threads, so that a slow one delays only the requests that it serves.
SCORING_THREADS = 8
# A policy that fails this often in a row is left out for a while.
FAILURES, REST_SECONDS = 5, 2.0


class ServerState:
    """The service, its keys, limits and metrics.

    Args:
        service: what serves.
        host: the address that the server listens on.
        keys: the store whose keys let clients in; by default that of the service.
        name: the surface that it serves, if there are several.
    """

    def __init__(self, service: Service, host: str, *, keys: Store | None = None, name: str = "") -> None:
        self.service, self.settings = service, service.settings
        self.name = name
        self.surfaces: Mapping[str, ServerState] = {}
        self._key_store = service.store if keys is None else keys
        self.instruments = Instruments()
        self.limiter = Limiter(service.settings.rate)
        self.scoring = Scoring(SCORING_THREADS, "scoring")
        self.breaker = Breaker()
        self._this_machine_only = is_loopback(host)
        self.access = Access({}, open=False)
        self.refreshed_at = 0.0
        self.pages: Any = None
        self.refresh()

    def refresh(self) -> None:
        """Notice new deployments and keys."""
        with read(self._key_store) as connection:
            keys, needed = load_keys(connection), needs_keys(connection)
        self.access = Access(keys, open=self._this_machine_only and not needed)
        if self.service.refresh() and self.service.mixture is not None:
            self.instruments.share.clear()
            for share in self.service.mixture.deployment.shares:
                self.instruments.share.labels(share.policy).set(share.share)
        self.refreshed_at = time.monotonic()

    def close(self) -> None:
        """Finish what is being written."""
        self.service.close()
        self.scoring.shutdown(wait=False, cancel_futures=True)

    def allow(self, request: Request, scope: str) -> str:
        """The name of the client, if it may do this now; see `authorise`."""
        name = authorise(request, self.access, scope, self.settings.origins)
        host = request.client.host if request.client else ""
        if not self.limiter.allows(host if self.access.open else name):
            raise AnswerError(429, f"more than {self.settings.rate:g} requests per second: wait a moment")
        return name

    async def message(self, request: Request, kind: type[Any]) -> Any:
        """The decoded body of a request."""
        return decode(await self.body(request, self.settings.max_body), kind)

    async def body(self, request: Request, largest: int) -> bytes:
        """The body of a request; see `read_body`."""
        return await read_body(request, largest, self.settings.body_seconds)

    async def write(self, job: Job) -> Any:
        """Run a job in the next transaction, and wait for its commit."""
        return await asyncio.wrap_future(self.service.writer.submit(job))


class Scoring(ThreadPoolExecutor):
    """The threads in which models score."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, name)
        self._most = threads
        self._jobs: set[Future[Any]] = set()

    @property
    def crowded(self) -> bool:
        """Whether a job that is submitted now has to wait for others."""
        return len(self._jobs) >= self._most

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of a job."""
        job = super().submit(fn, *args, **kwargs)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job


class Breaker:
    """Leaves out a policy for a while after it failed several times in a row.

    Example:
        >>> breaker, policy = Breaker(), LivePolicy("a", "uniform")
        >>> for _ in range(FAILURES):
        ...     breaker.failed(policy, now=0.0)
        >>> breaker.rests(policy, now=1.0), breaker.rests(policy, now=REST_SECONDS + 1.0)
        (True, False)
    """

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}

    def rests(self, policy: LivePolicy, now: float | None = None) -> bool:
        """Whether the policy is left out at the moment."""
        failures, since = self._failures.get(policy.name, (0, 0.0))
        now = time.monotonic() if now is None else now
        return failures >= FAILURES and now < since + REST_SECONDS

    def failed(self, policy: LivePolicy, now: float | None = None) -> None:
        """Count a failure."""
        failures, _ = self._failures.get(policy.name, (0, 0.0))
        self._failures[policy.name] = (failures + 1, time.monotonic() if now is None else now)

    def succeeded(self, policy: LivePolicy) -> None:
        """Forget earlier failures."""
        self._failures.pop(policy.name, None)
