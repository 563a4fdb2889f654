"""Clients who send half of a request, nothing, or never read: they have limited time, and keep nobody out."""

from __future__ import annotations

import json
import socket
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from rankloop.errors import RankloopError
from rankloop.live import Client, ServiceSettings, Store, prepare
from rankloop.live.http.connections import LARGEST_HEADERS
from rankloop.live.server import raise_file_limit
from tests.live.conftest import serving

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)
MOST = 40
HALF = b"POST /rank HTTP/1.1\r\nHost: localhost\r\nX-A: "
BODY = json.dumps({"query": "cat", "candidates": [{"id": one} for one in "xyz"]}).encode()
Connect = Callable[..., socket.socket]


def request(path: bytes = b"/rank", length: int = len(BODY)) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path, length)


@pytest.fixture
def url(store: Store) -> Iterator[str]:
    prepare(store)
    settings = ServiceSettings(max_connections=MOST, header_seconds=1.0, body_seconds=1.0, model_seconds=9.0)
    with serving(store, settings) as where:
        yield where


@pytest.fixture
def connect(url: str) -> Iterator[Connect]:
    parts = urllib.parse.urlsplit(url)
    with ExitStack() as opened:

        def open_one(sent: bytes = b"") -> socket.socket:
            one = opened.enter_context(socket.create_connection((parts.hostname or "", parts.port or 0), 20))
            one.sendall(sent)
            return one

        yield open_one


def status_of(one: socket.socket) -> int:
    """The status of the next answer; 0 if the connection was closed instead."""
    try:
        line = one.recv(65536).split(b"\r\n")[0]
    except ConnectionError:
        return 0
    return int(line.split()[1]) if line else 0


def is_closed(one: socket.socket) -> bool:
    """Whether the server closes the connection, within the limit of the socket."""
    try:
        while one.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def test_half_open_connections_keep_nobody_out(url: str, connect: Connect) -> None:
    client = Client(url, retries=0)
    for _ in range(3):
        half = [connect(HALF) for _ in range(2 * MOST)]
        assert len(client.rank("cat", ["x", "y"])["ranking"]) == 2
        client.close()
        del half


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\r\n",
        HALF,
        request()[:-2],
        request(length=50),
        request(b"/healthz", 50),
        request(b"/nothing", 50),
    ],
    ids=["nothing", "an empty line", "half a header", "no end", "no body", "another method", "no path"],
)
def test_a_client_that_stops_is_closed(connect: Connect, sent: bytes) -> None:
    begun = time.monotonic()
    one = connect(sent)
    assert is_closed(one)
    assert time.monotonic() - begun > 0.5


@pytest.mark.parametrize("sent", [b"\r\n", HALF, request(length=10**6)], ids=["lines", "headers", "body"])
def test_a_client_that_trickles_is_closed(connect: Connect, sent: bytes) -> None:
    one = connect(sent)
    one.settimeout(0.05)
    for _ in range(200):
        try:
            one.sendall(b"\r\n" if sent == b"\r\n" else b"a")
            if not one.recv(65536):
                return
        except TimeoutError:
            continue
        except ConnectionError:
            return
    raise AssertionError("it is still open after ten seconds")


def test_a_body_that_does_not_come_is_answered(connect: Connect) -> None:
    assert status_of(connect(request() + BODY[:5])) == 408


def test_headers_have_a_largest_size(connect: Connect) -> None:
    one = connect(HALF)
    status = None
    try:
        for _ in range(100):
            one.sendall(b"a" * 10_000)
            time.sleep(0.002)
    except ConnectionError:
        status = 0
    assert status == 0 or status_of(one) in (0, 431)
    assert LARGEST_HEADERS < 100 * 10_000


def test_requests_of_one_connection_have_their_own_time(connect: Connect) -> None:
    """Also those that follow before the answer, and after a pause between requests."""
    one = connect()
    for _ in range(4):
        time.sleep(0.6)
        one.sendall(request() + BODY)
        assert status_of(one) == 200
    # A refusal that goes out before the body is there does not end the connection while it comes in time.
    one.sendall(request(b"/nothing"))
    assert status_of(one) == 404
    time.sleep(0.3)
    one.sendall(BODY)
    time.sleep(0.6)
    one.sendall(request() + BODY)
    assert status_of(one) == 200
    one.sendall((request() + BODY) * 3)
    answers = b""
    while answers.count(b"HTTP/1.1 200") < 3:
        answer = one.recv(65536)
        assert answer, answers
        answers += answer


def test_a_limit_of_files_that_is_too_low_is_an_error(location: str) -> None:
    assert location
    with pytest.raises(RankloopError, match="--max-connections"):
        raise_file_limit(10**9)
