"""Who may do what, and how much of it: keys, body size, rate, time, and errors as answers."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rankloop.errors import RankloopError
from rankloop.live.diagnostics import LOGGER
from rankloop.live.http.messages import encode
from rankloop.live.ranking.rules import RequestError
from rankloop.live.service import NotReadyError
from rankloop.live.store.database import StoreLostError
from rankloop.live.store.group_commit import StoreBusyError
from rankloop.live.store.keys import ADMIN, hash_key

JSON = "application/json"
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]", "::1")
# What proxies add: the client may be anywhere, though the proxy is on this machine.
PROXY_HEADERS = ("forwarded", "via", "x-forwarded-for", "x-real-ip")
# Buckets of clients that were not seen for a while are forgotten.
MOST_BUCKETS = 10_000

Keys = Mapping[str, tuple[str, frozenset[str]]]
Handler = Callable[[Request], Awaitable[Response]]


class Access(NamedTuple):
    """Who is let in.

    Attributes:
        keys: names and scopes of the keys, by their hashes.
        open: whether this machine is let in without a key: the server listens on it alone, and the store
            never had a key.
    """

    keys: Keys
    open: bool


class AnswerError(RankloopError):
    """An error with the status that is answered."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def is_loopback(host: str) -> bool:
    """Whether a server that binds to this host is reachable from this machine only.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer in JSON."""
    return Response(encode(content), status, headers, media_type=JSON)


class Limiter:
    """Allows each client a number of requests per second, with as many at once (a token bucket).

    Args:
        rate: requests per second; 0 for no limit.

    Example:
        >>> limiter = Limiter(1.0)
        >>> limiter.allows("a", now=0.0), limiter.allows("a", now=0.1), limiter.allows("a", now=1.2)
        (True, False, True)
    """

    def __init__(self, rate: float) -> None:
        self._rate, self._burst = rate, max(rate, 1.0)
        self._buckets: dict[str, tuple[float, float]] = {}

    def allows(self, client: str, now: float | None = None) -> bool:
        """Whether a client may send one more request now."""
        if not self._rate:
            return True
        now = time.monotonic() if now is None else now
        left, since = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        allowed = left >= 1.0
        self._buckets[client] = (left - 1.0 if allowed else left, now)
        if len(self._buckets) > MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return allowed


def authorise(request: Request, access: Access, scope: str, origins: Collection[str] = ()) -> str:
    """The name of the client, if its key has the scope.

    A store that never had a key is open to this machine, if the server listens on this machine only. It is
    closed to clients behind a proxy, and to web pages of other sites that a browser on this machine shows.

    Args:
        request: the request.
        access: who is let in.
        scope: what the client wants to do.
        origins: other sites whose pages may rank and send events without a key.

    Raises:
        AnswerError: the key is missing, wrong, or lacks the scope.
    """
    if access.open:
        if not _is_local(request):
            raise AnswerError(
                403,
                "without keys, the service answers this machine only, and nobody through a proxy: make a key "
                "(`rankloop key`)",
            )
        host = request.headers.get("host", "").rpartition(":")[0] or request.headers.get("host", "")
        origin = request.headers.get("origin", "")
        foreign = origin and origin.partition("://")[2] != request.headers.get("host")
        if host not in LOCAL_NAMES or (foreign and (scope == ADMIN or origin not in origins)):
            raise AnswerError(
                403, "without keys, the service answers this machine only, not pages of other sites"
            )
        return "local"
    if not access.keys:
        raise AnswerError(403, "the store has no key, so that nobody is let in: make one (`rankloop key`)")
    header = request.headers.get("authorization", "")
    key = header[7:].strip() if header[:7].lower() == "bearer " else request.headers.get("x-api-key", "")
    if not key:
        raise AnswerError(401, "a key is needed: send it as `Authorization: Bearer KEY`")
    name, scopes = access.keys.get(hash_key(key), ("", frozenset()))
    if not name:
        raise AnswerError(401, "the key is not known")
    if scope not in scopes:
        raise AnswerError(403, f"the key {name!r} does not have the scope {scope!r}")
    return name


def _is_local(request: Request) -> bool:
    """Whether a request comes from this machine, and from no farther."""
    peer = request.client is not None and is_loopback(request.client.host)
    return peer and not any(name in request.headers for name in PROXY_HEADERS)


async def read_body(request: Request, largest: int, seconds: float) -> bytes:
    """The body of a request.

    Raises:
        AnswerError: it is too large, or does not come within this many seconds.
    """
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > largest:
        raise AnswerError(413, f"the body has {declared} bytes; at most {largest} are read")
    parts, size = [], 0
    limit: asyncio.Timeout = request.state.limit
    left = (limit.when() or 0.0) - asyncio.get_running_loop().time()
    # The client has its own time; the answer has what is left of the other.
    limit.reschedule(None)
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                size += len(part)
                if size > largest:
                    raise AnswerError(413, f"the body is larger than {largest} bytes")
                parts.append(part)
    except TimeoutError:
        raise AnswerError(408, f"the body did not come within {seconds:g} s") from None
    limit.reschedule(asyncio.get_running_loop().time() + left)
    return b"".join(parts)


async def answered(handler: Handler, request: Request, seconds: float) -> Response:
    """What a handler answers, with every error as an answer that says what is wrong."""
    try:
        async with asyncio.timeout(seconds) as limit:
            request.state.limit = limit
            return await handler(request)
    except AnswerError as error:
        status, text = error.status, str(error)
    except RequestError as error:
        status, text = 422, str(error)
    except (StoreBusyError, StoreLostError, NotReadyError) as error:
        status, text = 503, str(error)
    except RankloopError as error:
        status, text = 400, str(error)
    except TimeoutError:
        status, text = 503, f"the request took longer than {seconds:g} s: send it again"
    except ClientDisconnect:
        status, text = 400, "the client closed the connection"
    except SQLAlchemyError as error:
        LOGGER.error("the store failed: %s", error)
        status, text = 503, "the store cannot be written or read at the moment: nothing was stored; try again"
    except Exception:
        LOGGER.exception("%s %s failed", request.method, request.url.path)
        status, text = 500, "an error of the service; its log says more"
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    if status == 408:
        # What is left of the body may never come.
        headers["Connection"] = "close"
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return json_response({"error": text}, status, headers)
