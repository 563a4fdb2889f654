"""Several surfaces in one service: what is decided and learned on one of them is not known to the others."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rankloop.errors import RankloopError
from rankloop.live import Client, ServiceError, Store, open_store
from rankloop.live.learner.health import read_health
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store.database import read
from rankloop.live.store.keys import SCOPES, add_key
from rankloop.live.store.parts import count_sealed
from rankloop.live.store.policies import history
from rankloop.live.surfaces import Place, Surface, open_surfaces, read_places, split_options
from tests.live.conftest import linear, put, serving

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)
Connect = Callable[..., Client]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "home")
    yield opened
    opened.close()


@pytest.fixture
def url(store: Store, home: Store) -> Iterator[str]:
    put(store, policy_of(linear(1.0, -0.5, 0.25), "search"))
    put(home, policy_of(linear(1.0, names=("freshness",)), "fresh"))
    put(home, policy_of(linear(-1.0, names=("freshness",)), "stale"))
    with serving(store, surfaces={"home": Surface(home, ("freshness",))}) as where:
        yield where


def test_a_surface_has_its_own_policies_features_and_impressions(url: str, connect: Connect) -> None:
    search, home = connect(url), connect(f"{url}/home")
    first = search.rank("cat", {"x": [1, 0, 0], "y": [0, 1, 0]})
    second = home.rank("front page", {"x": {"freshness": 1}, "z": {"freshness": 2}})
    assert (first["policy"], second["policy"]) == ("search", "stale")
    with pytest.raises(ServiceError, match="freshness"):
        search.rank("cat", {"x": {"freshness": 1}})
    click = {"impression": second["impression"], "document": "z"}
    assert search.send_events([click])["problems"] == {"clicks_without_impression": 1}
    assert home.send_events([click]) == {"accepted": 1, "problems": {}}
    assert search.send("GET", "/policies")["features"] == ["a", "b", "c"]
    assert home.send("GET", "/policies")["features"] == ["freshness"]
    with pytest.raises(ServiceError, match=r"404.*there is no path '/other/rank'"):
        connect(f"{url}/other").rank("cat", ["x"])
    assert home.send("GET", "/openapi.json")["servers"] == [{"url": "/home"}]
    metrics = urllib.request.urlopen(f"{url}/home/metrics", timeout=120).read().decode()
    assert 'rankloop_impressions_total{policy="stale"} 1.0' in metrics
    assert 'policy="search"' not in metrics


def test_a_page_and_its_buttons_are_about_one_surface(url: str, store: Store, home: Store) -> None:
    first = urllib.request.urlopen(url, timeout=120).read().decode()
    assert ("search serves 100%" in first, 'action="home/"' in first) == (True, True)
    # Without the slash, too.
    with urllib.request.urlopen(f"{url}/home?act=1", timeout=120) as answer:
        where, text = answer.geturl(), answer.read().decode()
    assert (where, "<h1>rankloop live: home</h1>" in text) == (f"{url}/home/?act=1", True)
    assert 'action="page/rollback"' in text
    with urllib.request.urlopen(f"{url}/home/page/rollback", b"key=", timeout=120) as answer:
        where, text = answer.geturl(), answer.read().decode()
    assert (where, "fresh serves 100%" in text) == (f"{url}/home/", True)
    with read(store) as one, read(home) as two:
        assert [each.kind for each in history(one)] == ["deploy"]
        assert [each.kind for each in history(two)] == ["rollback", "deploy", "deploy"]


def test_keys_are_those_of_the_first_store(store: Store, home: Store, connect: Connect) -> None:
    put(store, policy_of(linear(1.0, -0.5, 0.25), "search"))
    put(home, policy_of(linear(1.0, names=("freshness",)), "fresh"))
    with store.engine.begin() as connection:
        key = add_key(connection, "shop", SCOPES)
    with home.engine.begin() as connection:
        other = add_key(connection, "other", SCOPES)
    with serving(store, surfaces={"home": Surface(home)}) as url:
        for where in (url, f"{url}/home"):
            with pytest.raises(ServiceError, match="401"):
                connect(where).rank("cat", ["x"])
            with pytest.raises(ServiceError, match="401"):
                connect(where, key=other).rank("cat", ["x"])
            assert connect(where, key=key).rank("cat", ["x"])["ranking"] == ["x"]


def test_the_first_says_what_is_wrong_with_the_others(url: str, home: Store, connect: Connect) -> None:
    assert home.file is not None
    client = connect(url, retries=0)
    assert client.send("GET", "/readyz")["ready"]
    shutil.rmtree(home.file.path.parent)
    with pytest.raises(ServiceError, match="503") as refused:
        client.send("GET", "/readyz")
    assert "home: " in str(refused.value)
    with pytest.raises(ServiceError, match=r"503.*deleted or replaced"):
        connect(f"{url}/home", retries=0).rank("front page", ["x"])
    assert client.rank("cat", ["x"])["ranking"] == ["x"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["home"], "expected NAME=STORE"),
        (["Home=a"], "expected NAME=STORE"),
        (["=a"], "expected NAME=STORE"),
        (["rank=a"], "/rank is a path of the service"),
        (["page=a"], "/page is a path of the service"),
        (["home=a", "home=b"], "two surfaces called home"),
    ],
)
def test_what_is_wrong_with_an_option_is_said(options: list[str], reason: str, location: str) -> None:
    assert location
    with pytest.raises(RankloopError, match=reason):
        read_places(options)


def test_a_store_is_one_surface(store: Store, tmp_path: Path) -> None:
    assert store.file is not None
    with pytest.raises(RankloopError, match="served already"):
        open_surfaces(store, {"home": Place(str(store.file.path.parent))})
    with pytest.raises(RankloopError, match="served already"):
        open_surfaces(
            store, {"home": Place(str(tmp_path / "a")), "other": Place(str(tmp_path / "b" / "../a"))}
        )


def test_logs_of_databases_are_beside_the_first(location: str) -> None:
    assert location
    places = read_places(["home=postgresql://host/home", "similar=folder"], Path("/data/log"))
    assert [place.log for place in places.values()] == [Path("/data/log-home"), None]
    split = split_options(["a=b,c", "home=d", "e"], places)
    assert split == {"": ["a=b,c", "e"], "home": ["d"], "similar": []}


@pytest.mark.long
def test_every_surface_has_a_learner_and_a_log(tmp_path: Path, location: str) -> None:
    """`rankloop serve` as a process: both logs are sealed, each with the impressions of its own surface."""
    assert location
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {"": tmp_path / "search", "home": tmp_path / "home"}
    command = [sys.executable, "-m", "rankloop", "serve", str(folders[""]), "--port", str(port), "--learn"]
    command += ["--surface", f"home={folders['home']}", "--window", "0", "--features", "price"]
    command += ["--features", "home=freshness", "--log-format", "json"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        clients = {name: Client(f"http://127.0.0.1:{port}/{name}", retries=12) for name in folders}
        clients[""].send("GET", "/readyz")
        for _ in range(3):
            clients[""].rank("cat", {"x": {"price": 1}})
        clients["home"].rank("front page", {"y": {"freshness": 1}})
        state: dict[str, tuple[int, bool]] = {}
        for _ in range(300):
            for name, folder in folders.items():
                store = open_store(folder)
                with read(store) as connection:
                    beat = read_health(connection).heartbeat
                    state[name] = (count_sealed(connection), beat is not None and beat.learns)
                store.close()
            if state == {"": (3, True), "home": (1, True)}:
                break
            time.sleep(0.1)
        assert state == {"": (3, True), "home": (1, True)}
    finally:
        for client in clients.values():
            client.close()
        server.terminate()
        _, lines = server.communicate(timeout=60)
    assert server.returncode == 0
    said = [json.loads(line)["message"] for line in lines.splitlines()]
    assert any(line.startswith("home: sealed part 1: 1 impressions") for line in said)
