"""Clocks that jump, of the server and of the learner: no click is lost, and every event counts once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow.parquet as pq
import pytest

from rankloop import open_log
from rankloop.clicks import bias_of, users
from rankloop.live import RankRequest, Service, ServiceSettings, Store, open_store
from rankloop.live.learner import schedule as learner_clock
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.retention import DAY
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.ranking.live_policy import policy_of
from rankloop.live.store import leases
from rankloop.live.store.events import UserEvent, record_events
from rankloop.live.store.leases import Lease
from rankloop.statistics import Statistics
from tests.live.conftest import linear, put

pytestmark = pytest.mark.parametrize("location", ["sqlite"], indirect=True)

WINDOW = 100.0
PAGES = 30
SEALING = LearnerSettings(window=WINDOW)


@dataclass
class Clock:
    """A machine's clock: what its owner says the time is, and what has passed."""

    wall: float = 1.8e9
    passed: float = 0.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.passed

    def wait(self, seconds: float) -> None:
        self.wall += seconds
        self.passed += seconds


@pytest.fixture
def server_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("rankloop.live.service.time", clock)
    return clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The learner's."""
    clock = Clock()
    monkeypatch.setattr(learner_clock, "time", clock)
    monkeypatch.setattr(leases, "time", clock)
    return clock


def ask(service: Service, number: int = 0) -> str:
    features = ([1.0, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.5, 0.5])
    return service.rank(RankRequest(f"q{number}", ("x", "y", "z"), features)).id


def click(store: Store, impression: str, document: str = "x") -> dict[str, int]:
    with store.engine.begin() as connection:
        return dict(record_events(connection, [UserEvent(impression, document)], time.time()).counts)


def sealed(store: Store) -> set[str]:
    folder = store.log / "impressions.parquet"
    return {*pq.read_table(folder)["impression_id"].to_pylist()} if folder.exists() else set()


JUMPS: dict[str, Callable[[Clock, Clock], None]] = {
    "the learner's forward": lambda _, own: setattr(own, "wall", own.wall + 10 * DAY),
    "the learner's across the window": lambda _, own: setattr(own, "wall", own.wall + WINDOW),
    "the learner's backward": lambda _, own: setattr(own, "wall", own.wall - 10 * DAY),
    "the server's forward": lambda server, _: setattr(server, "wall", server.wall + 3650 * DAY),
    "the server's backward": lambda server, _: setattr(server, "wall", server.wall - 3650 * DAY),
}


@pytest.mark.parametrize("jump", JUMPS)
def test_a_window_lasts_as_long_as_it_should(
    store: Store, service: Service, server_clock: Clock, clock: Clock, jump: str
) -> None:
    learner = LiveLearner(store, SEALING, sealing_only=True)
    learner.step()
    before = ask(service)
    learner.step()
    JUMPS[jump](server_clock, clock)
    after = ask(service)
    learner.step()
    for one in (server_clock, clock):
        one.wait(0.9 * WINDOW)
    learner.step()
    # Nobody's window has passed.
    assert sealed(store) == set()
    assert click(store, before) == click(store, after) == {"accepted": 1}
    for one in (server_clock, clock):
        one.wait(0.2 * WINDOW)
    learner.step()
    assert sealed(store) == {before, after}
    assert click(store, after, "y") == {"late_events": 1}


def test_what_was_there_before_the_learner_is_sealed_by_its_own_time(
    store: Store, service: Service, server_clock: Clock, clock: Clock
) -> None:
    old = ask(service)
    server_clock.wall += 3650 * DAY
    from_the_future = ask(service)
    clock.wait(1.5 * WINDOW)
    learner = LiveLearner(store, SEALING, sealing_only=True)
    learner.step()
    assert sealed(store) == {old}
    clock.wait(WINDOW)
    learner.step()
    assert sealed(store) == {old, from_the_future}


def run(store: Store, clocks: tuple[Clock, Clock], jumps: list[str]) -> Statistics:
    """Pages and their clicks, with a jump now and then; the statistics of the sealed log."""
    for one in clocks:
        one.wall, one.passed = 1.8e9, 0.0
    put(store, policy_of(linear(1.0, -0.5, 0.2), "start"))
    service = Service(store, ServiceSettings(top=3), rng=np.random.default_rng(5))
    rng, learner = np.random.default_rng(6), LiveLearner(store, SEALING, sealing_only=True)
    for number in range(PAGES):
        impression = ask(service, number % 7)
        if number % 4 == 0 and jumps:
            JUMPS[jumps[number // 4 % len(jumps)]](*clocks)
        learner.step()
        for document in "xyz":
            if rng.random() < 0.4:
                assert click(store, impression, document) == {"accepted": 1}
        for one in clocks:
            one.wait(WINDOW / 5)
    for one in clocks:
        one.wait(2 * WINDOW)
    learner.step()
    service.close()
    assert len(sealed(store)) == PAGES
    return open_log(store.log).statistics(bias_of(users("paper@3"))).statistics


def test_statistics_are_those_of_a_run_whose_clocks_are_right(
    store: Store, server_clock: Clock, clock: Clock, tmp_path_factory: pytest.TempPathFactory
) -> None:
    jumped = run(store, (server_clock, clock), [*JUMPS])
    other = open_store(tmp_path_factory.mktemp("right"))
    right = run(other, (server_clock, clock), [])
    other.close()
    for name, policy in right.policies.items():
        assert np.array_equal(policy.clicks, jumped.policies[name].clicks)
        assert np.array_equal(policy.impressions_by_query, jumped.policies[name].impressions_by_query)
        assert np.array_equal(policy.exposure.alpha, jumped.policies[name].exposure.alpha)


@pytest.mark.usefixtures("server_clock")
def test_a_jump_deletes_nothing(store: Store, service: Service, clock: Clock) -> None:
    settings = LearnerSettings(window=0.0, retain_days=1.0)
    learner = LiveLearner(store, settings, sealing_only=True)
    impression = ask(service)
    learner.step()
    clock.wall += 30 * DAY
    learner.step()
    assert sealed(store) == {impression}
    manifest = json.loads((store.log / "manifest.json").read_text())
    assert len(manifest["parts"]) == 1


def test_a_lease_is_never_lost_for_long(store: Store, clock: Clock) -> None:
    """A holder whose clock was ahead does not keep others waiting; work that two do is done once anyway."""
    first, second = Lease(store, "learner"), Lease(store, "learner")
    clock.wall += 10 * DAY
    assert first.acquire()
    clock.wall -= 10 * DAY
    assert second.acquire()
    clock.wall += 10 * DAY
    assert first.acquire()
    assert not second.acquire()
