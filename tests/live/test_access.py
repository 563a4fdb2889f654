"""Who is let in, and that nothing is let in by mistake: keys, this machine, proxies, ids, files."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from sqlalchemy import select
from starlette.applications import Starlette

from rankloop.live import Client, Service, ServiceError, Store, open_store, prepare
from rankloop.live.http.app import build_app
from rankloop.live.learner.stages import WHO, trusted_policy
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store.database import DATABASE_FILE, read
from rankloop.live.store.keys import add_first_key, add_key, load_keys, remove_key
from rankloop.live.store.policies import history
from rankloop.live.store.tables import events
from tests.live.asgi import HEADERS, send
from tests.live.conftest import linear, put, serving

sqlite_only = pytest.mark.parametrize("location", ["sqlite"], indirect=True)
BODY = json.dumps({"query": "cat", "candidates": [{"id": one} for one in "xyz"]}).encode()


@pytest.fixture
def running(store: Store) -> Service:
    prepare(store)
    return Service(store)


def ask(
    app: Starlette,
    *headers: tuple[bytes, bytes],
    peer: str = "127.0.0.1",
    method: str = "POST",
    path: str = "/rank",
    body: bytes = BODY,
) -> tuple[int, str]:
    """The status and the reason of one request."""
    status, answer = asyncio.run(send(app, method, path, body, (*HEADERS, *headers), peer))
    return status, json.loads(answer).get("error", "")


@sqlite_only
def test_without_keys_bind_address_and_peer_must_both_be_of_this_machine(running: Service) -> None:
    inside, outside = build_app(running, host="127.0.0.1"), build_app(running, host="0.0.0.0")
    assert ask(inside)[0] == 200
    assert ask(inside, peer="::1")[0] == 200
    assert ask(inside, peer="192.0.2.7")[0] == 403
    assert ask(outside)[0] == 403
    assert ask(outside, peer="192.0.2.7")[0] == 403
    running.close()


@sqlite_only
@pytest.mark.parametrize("name", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
def test_without_keys_nobody_comes_through_a_proxy(running: Service, name: str) -> None:
    status, reason = ask(build_app(running, host="127.0.0.1"), (name.lower().encode(), b"127.0.0.1"))
    assert (status, "make a key" in reason) == (403, True)
    running.close()


@sqlite_only
def test_removing_the_last_key_locks_the_store(running: Service, store: Store) -> None:
    with store.engine.begin() as connection:
        key = add_key(connection, "shop", ["rank", "admin"])
    app = build_app(running, host="127.0.0.1")
    bearer = (b"authorization", b"Bearer " + key.encode())
    assert ask(app)[0] == 401
    assert ask(app, bearer)[0] == 200
    with store.engine.begin() as connection:
        remove_key(connection, "shop")
    app.state.server.refresh()
    for headers in ((), (bearer,)):
        for method, path in (("POST", "/rank"), ("POST", "/events"), ("GET", "/policies"), ("GET", "/")):
            status, answer = asyncio.run(send(app, method, path, BODY, (*HEADERS, *headers)))
            assert (status, b"no key" in answer) == (403, True)
    # A server that starts now is closed, too, and opens for a new key.
    app = build_app(running, host="127.0.0.1")
    assert ask(app)[0] == 403
    with store.engine.begin() as connection:
        other = add_key(connection, "shop", ["rank"])
    app.state.server.refresh()
    assert ask(app, (b"authorization", b"Bearer " + other.encode()))[0] == 200
    running.close()


def test_the_first_key_is_made_once(store: Store) -> None:
    made: list[str | None] = []

    def start() -> None:
        with store.engine.begin() as connection:
            made.append(add_first_key(connection, "first", ["admin"]))

    run_at_once(start, 3)
    assert sum(key is not None for key in made) == 1
    with store.engine.begin() as connection:
        assert len(load_keys(connection)) == 1
        remove_key(connection, "first")
        assert add_first_key(connection, "first", ["admin"]) is None


def test_servers_that_start_at_once_make_one_first_deployment(store: Store) -> None:
    run_at_once(lambda: prepare(store), 3)
    with read(store) as connection:
        assert [(one.number, one.why) for one in history(connection)] == [(1, "the first policy")]


def run_at_once(work: object, times: int) -> None:
    """Run the same in several threads, and raise what they raised."""
    errors: list[BaseException] = []
    ready = threading.Barrier(times)

    def run() -> None:
        ready.wait()
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(times)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@sqlite_only
def test_a_key_with_the_name_of_the_learner_is_a_person(store: Store) -> None:
    put(
        store,
        policy_of(linear(1.0, 0.0, 0.0), "start"),
        policy_of(linear(0.0, 1.0, 0.0), "new"),
        shares=(0.9, 0.1),
    )
    with store.engine.begin() as connection:
        key = add_key(connection, WHO, ["admin"])
    with serving(store) as url:
        client = Client(url, key=key)
        client.send("POST", "/deployments", {"why": "a person", "shares": [{"policy": "new", "share": 1.0}]})
        client.close()
    with read(store) as connection:
        assert history(connection)[0].who != WHO
        assert trusted_policy(connection) == "new"


@sqlite_only
def test_an_id_is_not_answered_with_another_request(store: Store) -> None:
    prepare(store)
    request = {"id": "a", "query": "cat", "candidates": [{"id": one} for one in "xyz"], "top": 2}
    with serving(store) as url:
        client = Client(url)
        first = client.send("POST", "/rank", request)
        assert client.send("POST", "/rank", request) == first
        for change in (
            {"query": "dog"},
            {"candidates": [{"id": one} for one in "vwx"]},
            {"top": 3},
            {"exclude": ["x"]},
            {"pins": [{"id": "y", "position": 1}]},
        ):
            with pytest.raises(ServiceError, match="that of another request") as caught:
                client.send("POST", "/rank", {**request, **change})
            assert caught.value.status == 409
        # A deployment between the two changes what is scored, and not what was shown.
        put(store, policy_of(linear(1.0, 0.0, 0.0), "new"))
        time.sleep(0.5)
        assert client.send("POST", "/rank", request) == first
        client.close()


def test_ids_of_events_count_per_impression(store: Store) -> None:
    """The documentation's `click-1`, used on two pages, is two clicks."""
    prepare(store)
    with serving(store) as url:
        client = Client(url)
        shown = [client.rank("cat", ["x", "y"]) for _ in range(2)]
        clicks = [
            {"impression": one["impression"], "document": one["ranking"][0], "id": "click-1"} for one in shown
        ]
        assert client.send_events(clicks) == {"accepted": 2, "problems": {}}
        assert client.send_events(clicks) == {"accepted": 0, "problems": {"repeated_events": 2}}
        client.close()
    with read(store) as connection:
        assert len({*connection.scalars(select(events.c.impression))}) == 2


def test_a_database_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        store = open_store(tmp_path / "store")
        prepare(store)
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode)
            for path in (tmp_path / "store").iterdir()
            if path.name.startswith(DATABASE_FILE)
        }
    finally:
        os.umask(before)
    assert DATABASE_FILE in modes
    assert {*modes.values()} == {0o600}
    store.close()


def test_a_server_that_is_stopped_ends_well(tmp_path: Path) -> None:
    """With 0, as schedulers and `docker stop` expect; the code 130 was that of an interrupted command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "rankloop", "serve", str(tmp_path / "store"), "--port", str(port)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                    break
            except OSError:
                assert server.poll() is None
                time.sleep(0.1)
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=600)
    finally:
        server.kill()
    assert (server.returncode, "Traceback" in said) == (0, False), said
