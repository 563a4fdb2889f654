"""Clients of Metarank and UBI switch without code: messages in the form that these projects document.

Every field and every type is as documented (Metarank's `doc/api.md`, `doc/event-schema.md` and
`doc/timestamp-formats.md`; version 1.3.0 of the schema of UBI events); the values are our own.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select
from starlette.applications import Starlette

from rankloop.live import Service, ServiceSettings, Store
from rankloop.live.http.app import build_app
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store.database import read
from rankloop.live.store.impressions import find_impression
from rankloop.live.store.tables import events
from tests.live.asgi import send
from tests.live.conftest import linear, put

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

RANKING_ID = "5b0a7a86-93b5-4c5c-a3a9-6a0d3fbb1a55"
RANK = {
    "id": RANKING_ID,
    "timestamp": "1794941176000",
    "user": "visitor-7",
    "session": "session-7",
    "fields": [{"name": "query", "value": "tent"}, {"name": "source", "value": "search"}],
    "items": [
        {"id": "sku-3", "fields": [{"name": "relevancy", "value": 2.0}]},
        {"id": "sku-1", "fields": [{"name": "relevancy", "value": 1.0}]},
        {"id": "sku-2", "fields": [{"name": "relevancy", "value": 0.1}]},
    ],
}
ITEM = {
    "event": "item",
    "id": "0c8bde4e-5a93-44a5-8a52-c24c9ea9f7bb",
    "timestamp": "1794941176000",
    "item": "sku-1",
    "fields": [
        {"name": "title", "value": "A tent for two"},
        {"name": "color", "value": ["green", "grey"]},
        {"name": "sizes", "value": [1, 2]},
        {"name": "is_light", "value": True},
    ],
}
USER = {
    "event": "user",
    "id": "16e3a6a5-0b1e-4b3e-9f4b-9f6f7cf0a5d0",
    "timestamp": "1794941176000",
    "user": "visitor-7",
    "fields": [{"name": "age", "value": 41}],
}
# What was shown, which clients also send to /feedback; a score as version 0.5 documents it.
RANKING = {
    **RANK,
    "event": "ranking",
    "items": [{"id": "sku-3", "relevancy": 2.0}, {"id": "sku-1", "relevancy": 1.0}, {"id": "sku-2"}],
}
INTERACTION = {
    "event": "interaction",
    "id": "c5f2a7a2-4b0b-4a58-8a35-3c4e4b6b6a10",
    "ranking": RANKING_ID,
    "timestamp": "4102444800000",
    "user": "visitor-7",
    "session": "session-7",
    "type": "click",
    "item": "sku-1",
    "fields": [{"name": "count", "value": 1}, {"name": "shipping", "value": "post"}],
}
CLICK_THROUGH = {
    "application": "primary-search",
    "action_name": "click_through",
    "query_id": RANKING_ID,
    "session_id": "84f1",
    "client_id": "browser-7",
    "user_id": "visitor-7",
    "timestamp": "2100-01-01T00:00:00Z",
    "message_type": "CONVERSION",
    "message": "a product was opened",
    "event_attributes": {
        "object": {
            "object_id": "sku-2",
            "object_id_type": "product",
            "object_id_field": "sku",
            "internal_id": 17,
            "name": "A tent for four",
        },
        "position": {"ordinal": 2},
        "page": 1,
    },
}

Post = Callable[[str, Any], dict[str, Any]]


@pytest.fixture
def app(store: Store) -> Iterator[Starlette]:
    put(store, policy_of(linear(1.5, names=("relevancy",)), "start"))
    service = Service(store, ServiceSettings(), rng=np.random.default_rng(3))
    yield build_app(service, host="127.0.0.1")
    service.close()


@pytest.fixture
def post(app: Starlette) -> Post:
    def ask(path: str, message: Any) -> dict[str, Any]:
        status, answer = asyncio.run(send(app, "POST", path, json.dumps(message).encode()))
        return {"status": status, **json.loads(answer)} if status != 200 else json.loads(answer)

    return ask


def item(**values: object) -> dict[str, Any]:
    """An item with these fields."""
    return {"id": "a", "fields": [{"name": name, "value": value} for name, value in values.items()]}


def stored(store: Store) -> list[tuple[str, str, int, float | None]]:
    with read(store) as connection:
        rows = connection.execute(select(events).order_by(events.c.received_at, events.c.id)).all()
    return [(row.document, row.kind, row.position, row.time) for row in rows]


def positions(store: Store) -> dict[str, int]:
    with read(store) as connection:
        found = find_impression(connection, RANKING_ID)
    assert found is not None
    return {document: position for position, document in found.shown.items()}


def test_metarank_rank_has_the_documented_answer(post: Post, store: Store) -> None:
    """It had a field that Metarank does not document, and scores by which clients may sort another order."""
    answer = post("/rank/xgboost", RANK)
    assert {*answer} == {"took", "items"}
    assert isinstance(answer["took"], int)
    assert all({*one} == {"item", "score"} for one in answer["items"])
    assert sorted(one["item"] for one in answer["items"]) == ["sku-1", "sku-2", "sku-3"]
    assert [one["score"] for one in answer["items"]] == [1.0, 1 / 2, 1 / 3]
    with read(store) as connection:
        found = find_impression(connection, RANKING_ID)
    assert found is not None
    assert [*found.shown.values()] == [one["item"] for one in answer["items"]]
    assert found.problem.query == "tent"
    assert found.problem.documents == ("sku-1", "sku-2", "sku-3")
    assert np.allclose(found.problem.features[:, 0], [1.0, 0.1, 2.0])
    assert found.context == {"user": "visitor-7", "session": "session-7"}
    assert post("/rank/xgboost", RANK)["items"] == answer["items"]


def test_metarank_explains_with_feature_values(post: Post) -> None:
    """The documented parameter `explain` had no effect."""
    answer = post("/rank/xgboost?explain=true", RANK)
    values = {one["item"]: one["features"] for one in answer["items"]}
    assert values["sku-3"] == [{"name": "relevancy", "value": 2.0}]
    assert "explain" in post("/rank/xgboost?explain=maybe", RANK)["error"]


def test_metarank_fields_that_are_not_features_are_left_out(post: Post) -> None:
    """A field that the service does not know was answered with 422: clients could not switch."""
    fields = [
        {"name": "relevancy", "value": 1},
        {"name": "bm25", "value": 3.5},
        {"name": "tags", "value": ["x"]},
    ]
    answer = post("/rank/xgboost", {**RANK, "items": [{"id": "sku-1", "fields": fields, "label": 2}]})
    assert [one["item"] for one in answer["items"]] == ["sku-1"]


def test_metarank_scores_of_older_clients_are_a_feature(post: Post, store: Store) -> None:
    post("/rank/xgboost", RANKING)
    with read(store) as connection:
        found = find_impression(connection, RANKING_ID)
    assert found is not None
    values = dict(zip(found.problem.documents, found.problem.features[:, 0].tolist(), strict=True))
    assert (values["sku-3"], values["sku-1"]) == (2.0, 1.0)
    assert np.isnan(values["sku-2"])


def test_metarank_feedback_has_the_documented_answer(post: Post, store: Store) -> None:
    """What was stored is accepted; events that say nothing about a ranking are counted apart."""
    post("/rank/xgboost", RANK)
    answer = post("/feedback", INTERACTION)
    assert isinstance(answer.pop("tookMillis"), int)
    assert answer == {"status": "ok", "accepted": 1, "updated": 0, "problems": {}}
    purchase = {**INTERACTION, "id": "another", "type": "purchase", "timestamp": 4102444801000}
    elsewhere = {**INTERACTION, "id": "on-a-page-of-its-own", "ranking": None}
    answer = post("/feedback", [ITEM, USER, RANKING, purchase, elsewhere, INTERACTION])
    assert (answer["accepted"], answer["problems"]) == (1, {"repeated_events": 1, "unused_events": 4})
    place = positions(store)["sku-1"]
    assert stored(store) == [
        ("sku-1", "click", place, 4102444800.0),
        ("sku-1", "purchase", place, 4102444801.0),
    ]


@pytest.mark.parametrize("given", ["4102444800000", 4102444800000, "2100-01-01T00:00:00Z"])
def test_metarank_times_in_every_documented_form(post: Post, store: Store, given: object) -> None:
    post("/rank/xgboost", RANK)
    post("/feedback", {**INTERACTION, "timestamp": given})
    assert [one[3] for one in stored(store)] == [4102444800.0]


def test_ubi_events_as_documented(post: Post, store: Store) -> None:
    """The position that a browser saw was not compared with that of the page."""
    post("/rank/xgboost", RANK)
    place = positions(store)["sku-2"]
    position = {"ordinal": place}
    click = {**CLICK_THROUGH, "event_attributes": {**CLICK_THROUGH["event_attributes"], "position": position}}  # type: ignore[dict-item]
    assert post("/ubi/events", click) == {"accepted": 1, "problems": {}}
    assert stored(store) == [("sku-2", "click", place, 4102444800.0)]
    away = {**CLICK_THROUGH, "action_name": "add_to_cart", "event_attributes": {
        "object": {"object_id": "sku-2"}, "position": {"ordinal": place + 1}}}  # fmt: skip
    assert post("/ubi/events", [away]) == {"accepted": 1, "problems": {"disagreeing_positions": 1}}


def test_ubi_events_without_a_document_are_left_out(post: Post, store: Store) -> None:
    post("/rank/xgboost", RANK)
    at = {"x": 10.5, "y": 200}
    others = [
        {"action_name": "search", "query_id": RANKING_ID, "timestamp": "2018-11-13T20:20:39+00:00"},
        {"action_name": "page_exit", "query_id": None, "timestamp": "2018-11-13T20:20:39Z", "user_id": None},
        {**CLICK_THROUGH, "action_name": "hover", "event_attributes": {"position": {"xy": at}}},
        {**CLICK_THROUGH, "event_attributes": {"object": None, "position": None}},
        {**CLICK_THROUGH, "event_attributes": None},
    ]
    assert post("/ubi/events", others) == {"accepted": 0, "problems": {"unused_events": 5}}
    assert stored(store) == []


def test_ubi_ids_may_be_numbers(post: Post, store: Store) -> None:
    post("/rank/xgboost", {**RANK, "items": [{"id": "123", "fields": []}]})
    click = {**CLICK_THROUGH, "event_attributes": {"object": {"object_id": 123}, "position": {"ordinal": 1}}}
    assert post("/ubi/events", click) == {"accepted": 1, "problems": {}}
    assert [one[0] for one in stored(store)] == ["123"]


def test_times_without_a_zone_are_utc(post: Post, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were read in the zone of the server, so that clicks seemed to be hours early."""
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    time.tzset()
    try:
        post("/rank/xgboost", RANK)
        post("/ubi/events", {**CLICK_THROUGH, "timestamp": "2100-01-01T00:00:00"})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [one[3] for one in stored(store)] == [4102444800.0]


@pytest.mark.parametrize(
    ("path", "message", "reason"),
    [
        # 500 before: Python's float takes no such number.
        ("/rank/m", {"id": "r", "items": [item(relevancy=10**400)]}, "large"),
        # Stored before, whatever its length.
        ("/rank/m", {"id": "r", "items": [item()], "fields": item(query="x" * 2000)["fields"]}, "query"),
        ("/rank/m", {"id": "r", "user": "x" * 2000, "items": [item()]}, "256"),
        ("/feedback", {**INTERACTION, "type": "x" * 2000}, "256"),
        ("/feedback", {**INTERACTION, "timestamp": 10**30}, "timestamp"),
        ("/ubi/events", {**CLICK_THROUGH, "action_name": "x" * 2000}, "256"),
        ("/ubi/events", {**CLICK_THROUGH, "timestamp": "1812-01-01"}, "timestamp"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_a_reason(
    post: Post, path: str, message: Any, reason: str
) -> None:
    """Aliases had no limits of their own for texts, numbers and times."""
    answer = post(path, message)
    assert answer["status"] == 422
    assert reason in answer["error"]


@pytest.mark.parametrize(
    "path",
    ["/train/xgboost", "/recommend/similar", "/inference/encoder/minilm", "/inference/cross/ce", "/flush"],
)
def test_what_metarank_has_and_rankloop_has_not_is_said(app: Starlette, path: str) -> None:
    status, answer = asyncio.run(send(app, "POST", path, b"{}"))
    assert (status, "there is no path" in answer.decode()) == (404, True)
