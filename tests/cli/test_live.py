"""The commands of the live service."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from rankloop.live import open_store, prepare
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store.database import read
from rankloop.live.store.keys import load_keys
from tests.cli.commands import Run
from tests.live.conftest import linear, put, serving


def test_a_key_is_printed_once_and_removed(run: Run, tmp_path: Path) -> None:
    made = run("key", str(tmp_path / "store"), "shop", "--scope", "rank", "--scope", "events").out
    assert len(made.strip()) > 30
    store = open_store(tmp_path / "store")
    with read(store) as connection:
        assert list(load_keys(connection).values()) == [("shop", frozenset({"rank", "events"}))]
    wrong = run("key", str(tmp_path / "store"), "shp", "--remove")
    assert (wrong.code, "there is no key 'shp'; the keys are: shop" in wrong.err) == (2, True)
    run("key", str(tmp_path / "store"), "shop", "--remove")
    with read(store) as connection:
        assert load_keys(connection) == {}
    store.close()


def test_a_store_is_not_made_for_a_key_that_is_refused(run: Run, tmp_path: Path) -> None:
    refused = run("key", str(tmp_path / "store"), "shop", "--scope", "everything")
    assert (refused.code, "rank, events, admin; got everything" in refused.err) == (2, True)
    assert run("key", str(tmp_path / "store"), "shop", "--remove").code == 2
    assert not (tmp_path / "store").exists()


def test_users_are_not_sent_to_a_service_that_is_not_there(run: Run, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        refused = run("drive", f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert (refused.code, "there is no service at http" in refused.err) == (2, True)
    store = open_store(tmp_path / "store")
    prepare(store)
    with serving(store, names=tuple("12")) as url:
        data = "synthetic(queries=10, features=2)"
        said = run("drive", url, "--data", data, "--impressions", "6", "--concurrency", "2").out
    assert said.startswith("6 pages, ")
    store.close()


def test_rollback_over_http(run: Run, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    prepare(store)
    put(store, policy_of(linear(1.0, 0.0, 0.0), "second"))
    with serving(store) as url:
        answer = json.loads(run("rollback", url, "--why", "a test").out)
    assert (answer["why"], answer["shares"][0]["policy"]) == ("a test", "incoming-order")
    store.close()


def test_one_step_of_the_learner(run: Run, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    prepare(store)
    store.close()
    assert run("learn", str(tmp_path / "store"), "--once").out == ""
    refused = run("learn", str(tmp_path / "nothing"), "--once")
    assert (refused.code, "is not a store" in refused.err) == (2, True)
