"""A sealed log is a log: complete, the same however it was interrupted, and worth the same weights."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sqlalchemy import Connection, event

from rankloop import estimator, open_log, synthetic
from rankloop.clicks import bias_of, users
from rankloop.clicks.simulation import Impressions
from rankloop.live import RankRequest, Service, ServiceSettings, Store, sealing
from rankloop.live.learner.learning import learn
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.live.store.events import UserEvent, record_events
from rankloop.live.store.parts import TAKEN_AT_ONCE, add_to_part, begin_part, find_unsealed
from rankloop.live.store.tables import impressions
from rankloop.policies import expected_rank_weights
from rankloop.statistics import Exposure, Statistics
from tests.live.conftest import linear, put

REQUEST = RankRequest("cat", ("x", "y", "z"), ([1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.5, 0.5]))


def click(store: Store, *events: UserEvent) -> dict[str, int]:
    with store.engine.begin() as connection:
        return dict(record_events(connection, events, time.time()).counts)


def new_page(rng: np.random.Generator, query: int) -> RankRequest:
    """A request whose features never came before."""
    return RankRequest(f"q{query}", ("x", "y", "z"), tuple(rng.normal(size=(3, 3)).tolist()))


def rows(store: Store, table: str) -> list[dict[str, object]]:
    return pq.read_table(store.log / f"{table}.parquet").to_pylist()


def test_impressions_and_clicks_become_rows(store: Store, service: Service) -> None:
    served = service.rank(REQUEST)
    first = served.shown[1]
    assert click(store, UserEvent(served.id, first), UserEvent(served.id, first, "purchase", value=5.0)) == {
        "accepted": 2
    }
    assert [part.impressions for part in sealing.seal(store, time.time() + 1)] == [1]
    found = rows(store, "impressions")
    assert [(row["position"], row["doc_id"], row["clicked"], row["amount"]) for row in found] == [
        (position, document, document == first, 5.0 if document == first else 0.0)
        for position, document in served.shown.items()
    ]
    assert {(row["impression_id"], row["query_id"], row["policy_id"]) for row in found} == {
        (served.id, "cat", "start")
    }
    assert served.scores is not None
    scores = dict(zip(served.problem.documents, served.scores, strict=True))
    assert {row["doc_id"]: row["score"] for row in rows(store, "candidates")} == scores
    assert {row["doc_id"]: [row[name] for name in "abc"] for row in rows(store, "features")} == dict(
        zip(REQUEST.documents, REQUEST.features, strict=True)
    )
    manifest = json.loads((store.log / sealing.MANIFEST).read_text())
    assert [(part["number"], part["impressions"], part["clicks"]) for part in manifest["parts"]] == [
        (1, 1, 1)
    ]


def test_every_kind_of_event_is_counted(store: Store, service: Service) -> None:
    served = service.rank(REQUEST)
    first, second = served.shown[1], served.shown[2]
    once = UserEvent(served.id, first, id="e1", time=served.time - 60.0, position=2)
    assert click(store, once) == {"accepted": 1, "early_clicks": 1, "disagreeing_positions": 1}
    assert click(store, once, UserEvent(served.id, first, id="e2")) == {
        "accepted": 1,
        "repeated_events": 1,
        "repeated_clicks": 1,
    }
    assert click(store, UserEvent("nobody", first), UserEvent(served.id, "nothing")) == {
        "clicks_without_impression": 1,
        "clicks_not_shown": 1,
    }
    sealing.seal(store, time.time() + 1)
    assert click(store, UserEvent(served.id, second)) == {"late_events": 1}
    assert [row["clicked"] for row in rows(store, "impressions")] == [True, False, False]


def test_an_event_without_an_id_is_counted_once(store: Store, service: Service) -> None:
    served = service.rank(REQUEST)
    same = UserEvent(served.id, served.shown[1], time=served.time + 1.0)
    assert click(store, same, same) == {"accepted": 1, "repeated_events": 1}


def test_other_candidates_of_a_query_get_a_query_id_of_their_own(store: Store, service: Service) -> None:
    service.rank(RankRequest("cat#2", ("x",), ([1.0, 1.0, 1.0],)))
    sealing.seal(store, time.time() + 1)
    for documents in (("x", "y"), ("x", "z"), ("y", "z"), ("x", "y")):
        service.rank(RankRequest("cat", documents, ([1.0, 1.0, 1.0],) * 2))
    sealing.seal(store, time.time() + 1)
    shown = {row["impression_id"]: row["query_id"] for row in rows(store, "impressions")}
    assert sorted(shown.values()) == ["cat", "cat", "cat#2", "cat#3", "cat#4"]
    candidates = [(row["query_id"], row["doc_id"]) for row in rows(store, "candidates")]
    assert len(candidates) == len({*candidates})


def test_pinned_documents_leave_a_gap(store: Store, service: Service) -> None:
    asked = RankRequest(REQUEST.query, REQUEST.documents, REQUEST.features, pins={1: "y"})
    served = service.rank(asked)
    sealing.seal(store, time.time() + 1)
    assert {row["position"]: row["doc_id"] for row in rows(store, "impressions")} == {
        position: document for position, document in served.shown.items() if position > 1
    }
    assert "y" not in {row["doc_id"] for row in rows(store, "candidates")}


def test_a_part_that_was_interrupted_is_written_again(
    store: Store, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        service.rank(REQUEST)
    with monkeypatch.context() as patched:
        patched.setattr(sealing, "finish_part", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            sealing.seal(store, time.time() + 1, most=2)
    before = (store.log / "impressions.parquet" / sealing.part_name(1)).read_bytes()
    service.rank(REQUEST)
    assert [part.impressions for part in sealing.seal(store, time.time() + 1, most=2)] == [2, 2, 2]
    assert (store.log / "impressions.parquet" / sealing.part_name(1)).read_bytes() == before
    assert len({row["impression_id"] for row in rows(store, "impressions")}) == 6
    assert sealing.seal(store, time.time() + 1) == []


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_weights_are_those_of_the_simulator(store: Store) -> None:
    pages, rng = 1500, np.random.default_rng(2)
    split = synthetic(queries=40, features=3).train
    people, ranks = users("paper@3"), 3
    bias = bias_of(people)
    put(
        store,
        policy_of(linear(0.5, -0.25, 0.25), "model"),
        LivePolicy("shuffle", "uniform"),
        shares=(0.7, 0.3),
    )
    service = Service(store, ServiceSettings(top=ranks), rng=np.random.default_rng(3))
    kept: dict[str, list[tuple[int, list[int], list[bool]]]] = {"model": [], "shuffle": []}
    events: list[UserEvent] = []
    for _ in range(pages):
        query = int(rng.integers(split.n_queries))
        own = range(split.offsets[query], split.offsets[query + 1])
        request = RankRequest(
            f"q{query:03d}",
            tuple(f"d{number - own[0]:03d}" for number in own),
            tuple(split.features[own].tolist()),
        )
        served = service.serve(service.draft(request), service.choose())
        stored = service.keep(served)
        shown = [int(document[1:]) for document in served.shown.values()]
        relevance = split.labels[own[0] + np.array(shown)] / 4
        clicked = rng.random(len(shown)) < bias.alpha[: len(shown)] * relevance + bias.beta[: len(shown)]
        events += [
            UserEvent(served.id, f"d{one:03d}") for one, yes in zip(shown, clicked, strict=True) if yes
        ]
        pad = ranks - len(shown)
        kept[served.policy.name].append((query, [*shown, *[-1] * pad], [*clicked, *[False] * pad]))
    stored.result()
    service.close()
    assert click(store, *events) == {"accepted": len(events)}
    sealing.seal(store, time.time() + 1, most=400)

    simulated = None
    model = linear(0.5, -0.25, 0.25)
    for policy, log in kept.items():
        scores = model.scores(split.features) if policy == "model" else np.zeros(split.n_documents)
        vectors = np.stack([bias.alpha, bias.beta, bias.examination])
        exposure = Exposure(*expected_rank_weights(scores, split.offsets, vectors).T)
        queries, rankings, clicks = (np.array(column) for column in zip(*log, strict=True))
        counts = Impressions(queries, rankings.astype(np.int32), clicks).counts(split.offsets)
        own_part = Statistics.of_policy(
            policy,
            split.offsets,
            exposure,
            impressions_by_query=counts.impressions_by_query,
            displays_by_position=counts.displays_by_position,
            clicks_by_position=counts.clicks_by_position,
        )
        simulated = own_part if simulated is None else simulated + own_part
    assert simulated is not None
    sealed = open_log(store.log).statistics(bias)
    assert sealed.statistics.impressions == pages
    assert sealed.estimated == {}
    method = estimator("intervention-aware(average=query)")
    assert np.allclose(method.weights(sealed.statistics, bias), method.weights(simulated, bias), rtol=1e-9)


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_a_sealed_log_can_be_fitted_and_evaluated(store: Store, service: Service) -> None:
    rng = np.random.default_rng(1)
    served = []
    for number in range(300):
        features = rng.normal(size=(5, 3)).round(1)
        asked = RankRequest(f"q{number % 30}", tuple("uvwxy"), tuple(features.tolist()))
        served.append(service.keep(service.serve(service.draft(asked), service.choose())))
    # Most clicks are at the first position: a log with all of them there is refused.
    clicked = rng.choice((1, 2), size=len(served), p=(0.7, 0.3)).tolist()
    events = (
        UserEvent(one.result().id, one.result().shown[at]) for one, at in zip(served, clicked, strict=True)
    )
    click(store, *events)
    sealing.seal(store, time.time() + 1)
    log = open_log(store.log)
    fit = log.fit("linear", bias="paper@3")
    assert fit.feature_names == ("a", "b", "c")
    assert log.evaluate(fit, against="start").queries > 0
    assert log.check().impressions == 300


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_features_that_are_added_later_are_missing_before(store: Store, service: Service) -> None:
    for number in range(20):
        service.rank(RankRequest(f"q{number}", tuple("uvw"), ([1.0, 0.0, number], [2.0] * 3, [0.0] * 3)))
    sealing.seal(store, time.time() + 1)
    put(store, LivePolicy("shuffle", "uniform"))  # which needs no features
    later = Service(store, ServiceSettings(top=3), names=("age",))
    for number in range(20, 40):
        features = {"a": 1.0, "b": 0.5, "c": 0.0, "age": float(number)}
        served = later.rank(RankRequest(f"q{number}", tuple("uvw"), (features, {}, {"age": 1.0})))
        click(store, UserEvent(served.id, served.shown[1]))
    later.close()
    sealing.seal(store, time.time() + 1)
    log = open_log(store.log)
    assert log.feature_names == ("a", "b", "c", "age")
    fit = log.fit("linear", bias="paper@3", learning="paper", missing="mean")
    assert fit.feature_names == log.feature_names
    assert fit.fill_values is not None
    # Twenty documents have the values 20 to 39, and as many have 1.
    assert fit.fill_values[3] == pytest.approx((29.5 + 1.0) / 2)
    learned = learn(store.log, LearnerSettings(model="linear", learning="paper", bias="paper@3"))
    assert learned.policy.fill_values == fit.fill_values


def test_no_transaction_seals_many_pages(store: Store, service: Service) -> None:
    """Every page is new: what one transaction writes and asks does not grow with the number of pages."""
    rng, pages = np.random.default_rng(4), 5 * TAKEN_AT_ONCE
    pending = [
        service.keep(service.serve(service.draft(new_page(rng, number % 7)), service.choose()))
        for number in range(pages)
    ]
    pending[-1].result()
    changed, statements = [0], [0]

    def begin(_connection: Connection) -> None:
        changed.append(0)
        statements.append(0)

    def execute(_connection: Connection, cursor: Any, statement: str, *_: Any) -> None:
        statements[-1] += 1
        if statement.startswith("UPDATE impressions"):
            changed[-1] += cursor.rowcount

    event.listen(store.engine, "begin", begin)
    event.listen(store.engine, "after_cursor_execute", execute)
    assert [part.impressions for part in sealing.seal(store, time.time() + 1)] == [pages]
    assert (max(changed), sum(changed)) == (TAKEN_AT_ONCE, pages)
    assert max(statements) < 20
    queries = {row["query_id"] for row in rows(store, "impressions")}
    assert len(queries) == pages
    assert {query.partition("#")[0] for query in queries} == {f"q{number}" for number in range(7)}
    assert {f"q{number}" for number in range(7)} < queries


def test_requests_are_served_while_a_part_is_gathered(
    store: Store, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    for number in range(3 * TAKEN_AT_ONCE):
        stored = service.keep(service.serve(service.draft(new_page(rng, number)), service.choose()))
    stored.result()
    counted = []

    @contextmanager
    def give_way(opened: Store) -> Iterator[Connection]:
        with opened.engine.begin() as connection:
            yield connection
        later = service.rank(new_page(rng, 1))
        counted.append(click(store, UserEvent(later.id, later.shown[1])))

    monkeypatch.setattr(sealing, "give_way", give_way)
    assert len(sealing.seal(store, time.time())) == 1
    assert counted == [{"accepted": 1}] * 3


def test_a_part_that_was_interrupted_while_it_was_gathered_is_closed(store: Store, service: Service) -> None:
    for _ in range(4):
        service.rank(REQUEST)
    with store.engine.begin() as connection:
        unsealed = find_unsealed(connection, impressions.c.number > 0, 10)
        assert begin_part(connection, unsealed[:2], time.time()) == 1
    assert [part.impressions for part in sealing.seal(store, time.time() + 1)] == [2, 2]
    # Whoever was interrupted adds nothing to a part that another process has closed.
    with store.engine.begin() as connection:
        assert not add_to_part(connection, 1, unsealed[2:])
        assert begin_part(connection, unsealed, time.time()) is None
    assert sealing.seal(store, time.time() + 1) == []
