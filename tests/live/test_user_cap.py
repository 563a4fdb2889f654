"""What one user can teach or prove is capped, and requests cannot make a policy look broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select

from rankloop.live import Client, RankRequest, Service, ServiceSettings, Store, seal
from rankloop.live.learner.pages import read_part
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.ranking.user_cap import MEMORY, UserCap
from rankloop.live.store.database import read
from rankloop.live.store.events import UserEvent, record_events
from rankloop.live.store.parts import sealed_parts
from rankloop.live.store.tables import impressions
from tests.live.conftest import linear, put, serving

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)


def test_pages_of_one_user_beyond_the_cap_teach_and_prove_nothing(store: Store) -> None:
    """A robot asks for 30 % of the pages and clicks the last document; others click the first."""
    put(store, policy_of(linear(0.1, 0.0, 0.0), "start"))
    service = Service(store, ServiceSettings(top=3), rng=np.random.default_rng(0), names=("a", "b", "c"))
    events: list[UserEvent] = []
    for number in range(400):
        user = "robot" if number % 10 < 3 else f"user {number}"
        asked = RankRequest("q", ("x", "y", "z"), ([1, 0, 0], [0, 1, 0], [0, 0, 1]), context={"user": user})
        shown = service.rank(asked)
        events.append(UserEvent(shown.id, "z" if user == "robot" else "x"))
    with store.engine.begin() as connection:
        assert record_events(connection, events, 0.0).counts["accepted"] == 400
    seal(store, np.inf)
    with read(store) as connection:
        (part,) = sealed_parts(connection)
        views = read_part(connection, part["number"]).views
        stored = connection.execute(select(impressions.c.context)).all()
    # Twenty pages of anybody count; the robot's other hundred do not.
    assert len(views) == 400 - 100
    assert len(stored) == 400, "all are stored, and can be audited"
    rows = pq.read_table(store.log / "impressions.parquet").to_pydict()
    clicks = Counter(d for d, clicked in zip(rows["doc_id"], rows["clicked"], strict=True) if clicked)
    assert clicks == {"x": 280, "z": 20}
    service.close()


def test_pages_are_forgotten_and_users_without_a_name_count(location: str) -> None:  # noqa: ARG001
    cap = UserCap(0.01, 2)
    assert [cap.counts("a", now=0.0) for _ in range(3)] == [True, True, False]
    assert cap.counts("a", now=10.0 * MEMORY)
    assert all(cap.counts("", now=0.0) for _ in range(100))


def test_absurd_features_are_not_the_fault_of_a_policy(store: Store, connect: Callable[..., Client]) -> None:
    """Anybody who may rank can send them, and would have a policy rested, and rolled back."""
    put(store, policy_of(linear(3e30, 0.0, 0.0), "new"))
    with serving(store) as url:
        client = connect(url)
        for _ in range(8):
            answer = client.rank("q", {"x": [1e30, 0, 0], "y": [0, 0, 0]})
            assert answer["policy"] == "fallback"
            assert "cannot score these features" in answer["note"]
        # It is not left out for a while: the next request is its own.
        assert client.rank("q", {"x": [0, 0, 0], "y": [0, 0, 0]})["policy"] == "new"


def test_a_broken_policy_is_at_fault(store: Store) -> None:
    put(store, policy_of(linear(1.0, 0.0, 0.0), "new"))
    service = Service(store, rng=np.random.default_rng(0), names=("a", "b", "c"))
    draft = service.draft(RankRequest("q", ("x",), ([1.0, 0.0, 0.0],)))
    policy = service.choose().policy

    class Broken:
        n_features, kind, fingerprint = 3, "linear", ""

        def scores(self, features: Any) -> Any:
            return np.full(len(features), np.nan)

    assert not service.at_fault(policy, draft.problem)
    assert service.at_fault(replace(policy, model=Broken()), draft.problem)
    service.close()
