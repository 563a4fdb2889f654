"""When the learner learns: what is new counts, whatever was deleted; names never stand in its way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.live import RankRequest, Service, Store
from rankloop.live.learner import learning
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.learning import Learned
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.stages import full_shares
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store.database import read
from rankloop.live.store.policies import list_policies, load_stored_policy
from rankloop.types import Bias
from tests.live.conftest import linear, put

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)
SETTINGS = LearnerSettings(window=0.0, least=20)
BIAS = Bias(np.array([0.8, 0.5, 0.3]), np.zeros(3), np.ones(3))


def visit(service: Service, pages: int) -> None:
    for number in range(pages):
        service.rank(RankRequest(f"q{number}", ("x", "y", "z"), ([1.0, 0.0, 0.5],) * 3))


def test_learning_goes_on_while_retention_forgets(
    store: Store, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []

    def refuse(folder: Path, settings: LearnerSettings) -> Learned:  # noqa: ARG001
        held.append(len([*(folder / "impressions.parquet").iterdir()]))
        raise DataError("there are too few clicks")

    monkeypatch.setattr(learning, "learn", refuse)
    # Nothing that was sealed is kept for longer than a step: the log never doubles.
    learner = LiveLearner(store, SETTINGS.model_copy(update={"retain_bytes": 1}))
    for pages in (20, 10, 10, 20, 19):
        visit(service, pages)
        learner.step()
    # From 20, then from 20 more; after that the log held 10, so 10 more are as many again.
    assert held == [1, 1, 1]


def test_a_name_that_a_person_took_does_not_block_learning(
    store: Store, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(
        store,
        *(policy_of(linear(0.0, 0.0, 1.0), name) for name in ("learned-1", "learned-1.2-explore")),
        shares=(0.5, 0.5),
    )
    found = policy_of(linear(2.0, 0.0, 0.0), "learned")
    monkeypatch.setattr(learning, "learn", lambda *_: Learned(found, BIAS, 0.3, {}))
    visit(service, 20)
    learner = LiveLearner(store, SETTINGS)
    done = learner.step()
    assert any("learned-1.2 was learned from 20 impressions" in line for line in done)
    trial = learner.trial
    assert trial is not None
    assert trial.candidate == "learned-1.2"
    with store.engine.begin() as connection:
        shares = full_shares(connection, trial, SETTINGS)
        names = [policy["name"] for policy in list_policies(connection)]
    assert [share.policy for share in shares[:2]] == ["learned-1.2", "learned-1.2-explore.2"]
    assert {share.policy for share in shares} <= {*names}
    with read(store) as connection:
        explorer = load_stored_policy(connection, "learned-1.2-explore.2")
    assert explorer.model is not None
    assert explorer.model.fingerprint == found.model.fingerprint
