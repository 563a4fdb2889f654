"""The service over HTTP: what it answers, to whom, and what it refuses."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from rankloop.errors import RankloopError
from rankloop.live import Client, RankRequest, Service, ServiceError, ServiceSettings, Store, prepare
from rankloop.live.http.openapi import OPERATIONS, describe
from rankloop.live.http.requests import serve
from rankloop.live.http.state import FAILURES, SCORING_THREADS, ServerState
from rankloop.live.learner.judgement import recent_failures
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.sealing import seal
from rankloop.live.server import check_host, check_port, read_feature_options
from rankloop.live.store.database import read
from rankloop.live.store.impressions import find_impression
from rankloop.live.store.keys import add_key
from rankloop.live.store.policies import current_deployment
from tests.live.conftest import linear, put, serving

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

CANDIDATES = {"x": {"a": 1, "b": 0, "c": 0.5}, "y": [0, 1, 0], "z": {"a": 2, "b": 2, "c": 2}}
Connect = Callable[..., Client]


@pytest.fixture
def url(store: Store) -> Iterator[str]:
    put(store, policy_of(linear(1.0, -0.5, 0.25), "start"))
    with serving(
        store, ServiceSettings(top=2, max_candidates=5, max_body=5000, max_events=3, model_seconds=9.0)
    ) as where:
        yield where


def test_rank_and_click(url: str, store: Store, connect: Connect) -> None:
    client = connect(url)
    answer = client.rank("cat", CANDIDATES)
    assert answer["policy"] == "start"
    assert len(answer["ranking"]) == 2
    with read(store) as connection:
        stored = find_impression(connection, answer["impression"])
    assert stored is not None
    assert list(stored.shown.values()) == answer["ranking"]
    event = {"impression": answer["impression"], "document": answer["ranking"][0]}
    assert client.send_events([event, {**event, "document": "w"}]) == {
        "accepted": 1,
        "problems": {"clicks_not_shown": 1},
    }
    text = read_text(url + "/metrics")
    assert 'rankloop_impressions_total{policy="start"} 1.0' in text
    assert 'rankloop_clicks_total{rank="1"} 1.0' in text


def read_text(url: str) -> str:
    with urllib.request.urlopen(url, timeout=120) as answer:
        text: str = answer.read().decode()
    return text


REFUSED = {
    "not JSON": (b"{", "malformed|truncated"),
    "no candidates": (b'{"query": "a", "candidates": []}', "candidates"),
    "no query": (b'{"candidates": [{"id": "x"}]}', "query"),
    "a number for an id": (b'{"query": "a", "candidates": [{"id": 7}]}', r"\$.candidates\[0\].id"),
    "an unknown field": (b'{"query": "a", "candidates": [{"id": "x"}], "topp": 3}', "topp"),
    "an unknown feature": (b'{"query": "a", "candidates": [{"id": "x", "features": {"d": 1}}]}', "'d'"),
    "NaN": (b'{"query": "a", "candidates": [{"id": "x", "features": {"a": NaN}}]}', "malformed"),
    "too large a number": (b'{"query": "a", "candidates": [{"id": "x", "features": [1e39, 0, 0]}]}', "large"),
    "too few features": (b'{"query": "a", "candidates": [{"id": "x", "features": [1]}]}', "1 features"),
    "a filter that leaves nothing": (
        b'{"query": "a", "candidates": [{"id": "x", "features": [0, 0, 0]}], '
        b'"filters": [{"feature": "a", "at_least": 1e308}]}',
        "leave nothing",
    ),
    "twice": (b'{"query": "a", "candidates": [{"id": "x"}, {"id": "x"}]}', "twice"),
    "too many": (
        json.dumps({"query": "a", "candidates": [{"id": str(i)} for i in range(6)]}).encode(),
        "6 cand",
    ),
    "a pin too deep": (
        b'{"query": "a", "candidates": [{"id": "x"}], "pins": [{"id": "x", "position": 2}]}',
        "positions are 1 to 1",
    ),
    "a filter on nothing": (
        b'{"query": "a", "candidates": [{"id": "x"}], "filters": [{"feature": "q"}]}',
        "no feature 'q'",
    ),
    "nothing left": (b'{"query": "a", "candidates": [{"id": "x"}], "exclude": ["x"]}', "nothing to show"),
    "an id of ours": (b'{"query": "a", "id": ".1", "candidates": [{"id": "x"}]}', "cannot be chosen"),
    "too many filters": (
        json.dumps({"query": "a", "candidates": [{"id": "x"}], "filters": [{"feature": "a"}] * 101}).encode(),
        r"\$.filters",
    ),
    "too many exclusions": (
        json.dumps({"query": "a", "candidates": [{"id": "x"}], "exclude": ["y"] * 10_001}).encode(),
        r"\$.exclude|bytes",
    ),
    "NUL": (b'{"query": "a\\u0000", "candidates": [{"id": "x"}]}', "u0000"),
    "too large a body": (b'{"query": "' + b"a" * 6000 + b'"}', "bytes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_refused_with_a_reason(url: str, store: Store, connect: Connect, name: str) -> None:
    body, reason = REFUSED[name]
    with pytest.raises(ServiceError, match=reason) as caught:
        connect(url).send("POST", "/rank", body)
    assert caught.value.status in (413, 422)
    with store.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM impressions").scalar() == 0


def test_events_that_cannot_be_are_refused(url: str, connect: Connect) -> None:
    for event, reason in (
        ({"time": -1.0}, "time"),
        ({"value": "a"}, "value"),
        # The page squares what actions were worth, and failed from then on.
        ({"value": 1e308}, "value"),
        ({"value": -1e300}, "value"),
        ({"colour": 1}, "colour"),
    ):
        with pytest.raises(ServiceError, match=reason):
            connect(url).send_events([{"impression": "i", "document": "d", **event}])
    with pytest.raises(ServiceError, match="at most 3"):
        connect(url).send_events([{"impression": "i", "document": "d"}] * 4)


def test_a_missing_feature_serves_the_incoming_order_and_says_so(url: str, connect: Connect) -> None:
    answer = connect(url).rank("cat", {"x": {"a": 1.0}, "y": None})
    assert (answer["policy"], answer["ranking"]) == ("fallback", ["x", "y"])
    assert "'b' is missing" in answer["note"]


class Broken:
    """A model that fails, or takes its time."""

    kind, n_features, fingerprint = "linear", 3, "broken"
    feature_names = ("a", "b", "c")

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds

    def scores(self, features: np.ndarray) -> np.ndarray:
        import time

        if self.seconds is None:
            raise ValueError("broken")
        time.sleep(self.seconds)
        return np.zeros(len(features))


@pytest.mark.parametrize(("seconds", "limit", "note"), [(None, 9.0, "failed"), (0.5, 0.1, "too long")])
def test_a_model_that_fails_or_is_slow_serves_the_incoming_order(
    store: Store,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float | None,
    limit: float,
    note: str,
) -> None:
    put(store, policy_of(linear(1.0, 0.0, 0.0), "start"))
    with serving(store, ServiceSettings(model_seconds=limit)) as url:
        monkeypatch.setattr("rankloop.models.linear.Linear.scores", Broken(seconds).scores)
        monkeypatch.setattr("rankloop.live.ranking.live_policy.QUICK_MODELS", ())
        client = connect(url)
        for _ in range(5):
            answer = client.rank("cat", {"x": [0, 0, 0], "y": [1, 0, 0]})
            assert (answer["policy"], answer["ranking"]) == ("fallback", ["x", "y"])
            assert note in answer["note"]
        assert "left out" in client.rank("cat", {"x": [0, 0, 0]})["note"]


def test_waiting_for_other_requests_is_not_the_fault_of_a_policy(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A burst of requests would have a policy left out, and rolled back."""
    put(store, policy_of(linear(1.0, 0.0, 0.0), "start"))
    free = threading.Event()
    server = ServerState(Service(store, ServiceSettings(model_seconds=0.05)), "127.0.0.1")
    monkeypatch.setattr("rankloop.live.ranking.live_policy.QUICK_MODELS", ())
    waiting = [server.scoring.submit(free.wait) for _ in range(SCORING_THREADS)]
    request = RankRequest("cat", ("x", "y"), ([0.0, 0.0, 0.0], [1.0, 0.0, 0.0]))
    for _ in range(FAILURES):
        served, note = asyncio.run(serve(server, request))
        assert "too many requests waited" in note
        assert served.rules["failed"] == ("start", "busy")
    free.set()
    assert all(each.result() for each in waiting)
    assert not server.breaker.rests(served.policy)
    with read(store) as connection:
        assert recent_failures(connection, served.deployment) == ({}, {})
    server.close()


def test_pages_while_a_policy_is_left_out_do_not_count_against_it(store: Store) -> None:
    put(store, policy_of(linear(1.0, 0.0, 0.0), "start"))
    service = Service(store)
    draft = service.draft(RankRequest("cat", ("x",), ([0.0, 0.0, 0.0],)))
    for reason in ("timeout", "resting", "resting", "busy", "error"):
        choice = service.choose()
        service.keep(service.serve(draft, service.fall_back(choice, reason))).result()
    service.keep(service.serve(draft, service.choose())).result()
    with read(store) as connection:
        assert recent_failures(connection, choice.deployment) == ({"start": 2}, {"start": 3})
    service.close()


def test_deploy_and_roll_back(url: str, connect: Connect) -> None:
    client = connect(url)
    model = linear(0.0, 1.0, 0.0).to_bytes()
    assert client.send("POST", "/policies?name=second", model)["name"] == "second"
    assert client.send("POST", "/policies?name=second", model)["name"] == "second"
    shares = [{"policy": "second", "share": 0.75}, {"policy": "start", "share": 0.25, "role": "explore"}]
    assert client.send("POST", "/deployments", {"shares": shares, "why": "a try"})["number"] == 2
    assert client.rank("cat", CANDIDATES)["deployment"] == 2
    assert client.send("POST", "/rollback", {"why": "it was bad"})["shares"][0]["policy"] == "start"
    assert client.rank("cat", CANDIDATES)["deployment"] == 3
    found = client.send("GET", "/deployments")["deployments"]
    assert [(one["number"], one["kind"], one["why"]) for one in found] == [
        (3, "rollback", "it was bad"),
        (2, "deploy", "a try"),
        (1, "deploy", "a test"),
    ]
    names = [policy["name"] for policy in client.send("GET", "/policies")["policies"]]
    assert names == ["start", "fallback", "second"]
    for body, reason in (
        ({"shares": [{"policy": "third", "share": 1}], "why": "a"}, "no policy 'third'"),
        ({"shares": [{"policy": "second", "share": 0.5}], "why": "a"}, "sum to 0.5"),
        ({"shares": [{"policy": "fallback", "share": 1}], "why": "a"}, "fallback"),
    ):
        with pytest.raises(ServiceError, match=reason):
            client.send("POST", "/deployments", body)
    with pytest.raises(ServiceError, match="cannot be used"):
        client.send("POST", "/policies?name=bad", b"tree\nnonsense")
    with pytest.raises(ServiceError, match="at most 1e"):
        client.send("POST", "/policies?name=steep&kind=incoming&scale=1e300")


def test_keys_have_scopes(url: str, store: Store, connect: Connect) -> None:
    with store.engine.begin() as connection:
        keys = {scope: add_key(connection, f"my {scope}", [scope]) for scope in ("rank", "events", "admin")}
        stored = connection.exec_driver_sql("SELECT * FROM keys").all()
    assert not any(key in str(stored) for key in keys.values())
    _wait_for(lambda: _status(connect(url)) == 401)
    assert connect(url, key=keys["rank"]).rank("cat", CANDIDATES)["policy"] == "start"
    for key, status in (("wrong", 401), (keys["rank"], 403), (keys["events"], 403)):
        with pytest.raises(ServiceError) as caught:
            connect(url, key=key).send("GET", "/policies")
        assert caught.value.status == status
    assert connect(url, key=keys["admin"]).send("GET", "/policies")["features"] == ["a", "b", "c"]
    check_host(store, "0.0.0.0")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        read_text(url)


def _status(client: Client) -> int:
    try:
        client.rank("cat", CANDIDATES)
    except ServiceError as error:
        return error.status
    return 200


def _wait_for(condition: Callable[[], bool]) -> None:
    import time

    for _ in range(100):
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within ten seconds")


def test_without_keys_only_this_machine_is_served(url: str, store: Store) -> None:
    with pytest.raises(RankloopError, match="without keys"):
        check_host(store, "0.0.0.0")
    for header, value in (("Host", "evil.example:80"), ("Origin", "http://evil.example")):
        request = urllib.request.Request(url + "/rollback", b"", {header: value}, method="POST")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=120)
        assert caught.value.code == 403
        caught.value.close()


def test_a_rate_is_limited(store: Store, connect: Connect) -> None:
    prepare(store)
    with serving(store, ServiceSettings(rate=0.01)) as url:
        client = connect(url, retries=0)
        statuses = [_status(client) for _ in range(3)]
    assert (statuses[0] in (200, 422), statuses[1:]) == (True, [429, 429])


def test_browsers_of_configured_origins_may_send_events(store: Store) -> None:
    prepare(store)
    with serving(store, ServiceSettings(origins=("https://shop.example",))) as url:
        headers = {"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}
        request = urllib.request.Request(url + "/ubi/events", headers=headers, method="OPTIONS")
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert answer.headers["Access-Control-Allow-Origin"] == "https://shop.example"


def status_of(request: urllib.request.Request) -> int:
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_pages_of_other_sites_cannot_send_events_without_a_key(store: Store) -> None:
    """Any page that a browser on this machine showed could rank and click, and so teach the learner."""
    prepare(store)
    body = json.dumps({"query": "cat", "candidates": [{"id": "x"}]}).encode()
    with serving(store, ServiceSettings(origins=("https://shop.example",))) as url:
        for origin, path, sent, status in (
            ("https://evil.example", "/rank", body, 403),
            ("https://evil.example", "/events", b'{"events": []}', 403),
            ("null", "/ubi/events", b"[]", 403),
            ("https://shop.example", "/rank", body, 200),
            ("https://shop.example", "/rollback", b"", 403),
        ):
            # Browsers send text without asking first.
            headers = {"Origin": origin, "Content-Type": "text/plain"}
            request = urllib.request.Request(url + path, sent, headers, method="POST")
            assert status_of(request) == status, (origin, path)


def test_health_and_description(url: str, store: Store, connect: Connect) -> None:
    client = connect(url)
    assert client.send("GET", "/healthz") == {"status": "ok"}
    assert client.send("GET", "/readyz") == {"ready": True, "problems": [], "warnings": []}
    assert client.send("GET", "/openapi.json") == json.loads(json.dumps(describe()))
    with read(store) as connection:
        assert current_deployment(connection) is not None


def test_answers_are_those_of_the_description(url: str) -> None:
    """Seven of 14 operations had no description of their answers, and the status 201 was not mentioned."""
    bodies = {
        ("post", "/rank"): {"query": "cat", "candidates": [{"id": "x"}]},
        ("post", "/events"): {"events": []},
        ("post", "/rank/{model}"): {"id": "r", "items": [{"id": "x"}]},
        ("post", "/feedback"): [],
        ("post", "/ubi/events"): [],
        ("post", "/deployments"): {"why": "a test", "shares": [{"policy": "start", "share": 1}]},
        ("post", "/rollback"): {},
        ("post", "/learner"): {"action": "pause", "why": "a test"},
    }
    for one in OPERATIONS:
        query = "?name=shuffle&kind=uniform" if (one.method, one.path) == ("post", "/policies") else ""
        body = json.dumps(bodies.get((one.method, one.path))).encode() if one.message else None
        request = urllib.request.Request(url + one.path + query, body, method=one.method.upper())
        with urllib.request.urlopen(request, timeout=120) as answer:
            assert answer.status == one.status, one.path
            if one.answer is None:
                continue
            content = json.loads(answer.read())
            msgspec.convert(content, one.answer)
            optional = {"note"}
            assert {*content} - optional == {*one.answer.__struct_fields__} - optional, one.path


@pytest.mark.parametrize(
    ("method", "path", "status", "allowed"),
    [
        ("PUT", "/policies", 405, {"GET", "HEAD", "POST"}),
        ("DELETE", "/rank", 405, {"POST"}),
        ("GET", "/nothing", 404, set()),
    ],
)
def test_unknown_paths_and_methods_say_what_there_is(
    url: str, method: str, path: str, status: int, allowed: set[str]
) -> None:
    """They were answered with plain text, and `Allow` named the first method of a path only."""
    request = urllib.request.Request(url + path, method=method)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=120)
    with caught.value as answer:
        assert answer.code == status
        assert {*filter(None, answer.headers.get("Allow", "").split(", "))} == allowed
        assert path in json.loads(answer.read())["error"]


@pytest.mark.parametrize("text", ["tabel.parquet", "features.csv", "data/table"])
def test_a_table_of_features_that_is_not_there_is_refused(location: str, text: str) -> None:
    """A file name with a typing error became the name of a feature, and the store kept it for good."""
    assert location
    with pytest.raises(RankloopError, match="there is no such file"):
        read_feature_options([text])
    assert read_feature_options(["price, age"]) == (("price", "age"), None)


def test_a_port_that_is_taken_is_refused_before_anything_starts(url: str) -> None:
    """The command said that it serves there, started a second process, and ended with a line of uvicorn."""
    port = int(url.rpartition(":")[2])
    with pytest.raises(RankloopError, match=f"port {port} of 127.0.0.1 cannot be used: .*--port"):
        check_port("127.0.0.1", port)
    check_port("127.0.0.1", 0)


def test_a_url_may_be_given_without_its_scheme(url: str, connect: Connect) -> None:
    """`rankloop rollback localhost:8017` asked port 80, and said that nothing answers."""
    assert connect(url.removeprefix("http://")).send("GET", "/healthz") == {"status": "ok"}


SCRIPT = "<script>alert(1)</script>"


def test_the_page_shows_text_as_text(store: Store, connect: Connect) -> None:
    put(store, policy_of(linear(1.0, 0.0, 0.0), SCRIPT))
    with serving(store) as url:
        client = connect(url)
        shares = [{"policy": SCRIPT, "share": 1.0}]
        client.send("POST", "/deployments", {"shares": shares, "why": SCRIPT})
        client.rank(SCRIPT, {SCRIPT: [1, 0, 0]})
        with urllib.request.urlopen(url, timeout=120) as answer:
            text, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    assert "script" not in text.replace("&lt;script&gt;", "").replace("&lt;/script&gt;", "")
    assert "&lt;script&gt;" in text
    assert "default-src 'none'" in policy


def test_a_ranker_that_runs_elsewhere_is_a_policy_by_its_scores(
    store: Store, url: str, connect: Connect
) -> None:
    """From the request to the log: its scores are drawn from, stored, and those of the policy in the log."""
    client = connect(url)
    with pytest.raises(ServiceError, match="in which feature"):
        client.send("POST", "/policies?name=ours&kind=scores")
    client.send("POST", "/policies?name=ours&kind=scores&feature=bm25&scale=10")
    shares = [{"policy": "ours", "share": 1.0}]
    client.send("POST", "/deployments", {"shares": shares, "why": "what we have"})
    shown = client.rank("cat", {"x": {"bm25": 3.0}, "y": {"bm25": 9.0}, "z": {"bm25": 6.0}})
    assert (shown["policy"], shown["ranking"]) == ("ours", ["y", "z"])
    missing = client.rank("cat", {"x": {"bm25": 3.0}, "y": {"a": 9.0}})
    assert (missing["policy"], "'bm25' is missing" in missing["note"]) == ("fallback", True)
    seal(store, np.inf)
    table = pq.read_table(store.log / "candidates.parquet").to_pylist()
    scores = {row["doc_id"]: row["score"] for row in table if row["policy_id"] == "ours"}
    assert scores == {"x": 30.0, "y": 90.0, "z": 60.0}


def test_a_page_with_fields_does_not_reload(url: str, store: Store) -> None:
    """A key or a reason that is being typed would be lost every ten seconds."""
    put(store, policy_of(linear(1.0, 0.0, 0.0), "second"))
    with urllib.request.urlopen(url, timeout=120) as answer:
        text, reloads = answer.read().decode(), answer.headers["Refresh"]
    assert reloads == "10"
    assert 'method="post"' not in text
    assert '<form method="get" action="./">' in text
    with urllib.request.urlopen(url + "/?act=1", timeout=120) as answer:
        text, reloads = answer.read().decode(), answer.headers["Refresh"]
    assert reloads is None
    assert 'method="post" action="page/rollback"' in text
    # What the button restores is said beside it.
    assert '<option value="1">the deployment before, 1: start 100%</option>' in text


def test_the_button_rolls_back(url: str, store: Store) -> None:
    put(store, policy_of(linear(1.0, 0.0, 0.0), "second"))
    request = urllib.request.Request(url + "/page/rollback", b"key=", method="POST")
    with urllib.request.urlopen(request, timeout=120) as answer:
        assert "start serves 100%" in answer.read().decode()
    with read(store) as connection:
        current = current_deployment(connection)
    assert current is not None
    assert (current.kind, current.shares[0].policy, current.who) == ("rollback", "start", "local (the page)")
