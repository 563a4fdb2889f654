"""When the traffic of policies changed, and whether rankings did."""

from __future__ import annotations

import numpy as np

from experiments.self_test_table import table_of
from rankloop.evidence.traffic import MOST_PERIODS, rankings_changed, traffic_cuts
from rankloop.statistics.counts import ImpressionTable
from rankloop.types import Int64


def cuts_of(policy: Int64, time: np.ndarray | None = None) -> list[float]:
    count = len(policy)
    lists = np.zeros((count, 1), np.int64)
    when = np.arange(count, dtype=float) if time is None else time
    table = ImpressionTable.of_lists(lists, lists, query=np.arange(count), policy=policy, time=when)
    return traffic_cuts(table).tolist()


def test_a_switch_is_found_to_the_second() -> None:
    assert cuts_of(np.repeat([0, 1], [3_137, 6_863])) == [3_137.0]


def test_policies_in_parallel_share_a_period() -> None:
    assert cuts_of(np.random.default_rng(0).integers(0, 2, 10_000)) == []


def test_policies_that_take_turns_share_a_period() -> None:
    assert cuts_of(np.arange(10_000) // 50 % 2) == []


def test_a_test_after_a_time_of_one_policy_is_a_period() -> None:
    rng = np.random.default_rng(1)
    policy = np.where(np.arange(10_000) < 6_000, 0, rng.integers(0, 2, 10_000))
    assert len(found := cuts_of(policy)) == 1
    assert abs(found[0] - 6_000) < 20


def test_many_short_policies_share_periods() -> None:
    found = cuts_of(np.repeat(np.arange(40), 500))
    assert len(found) == MOST_PERIODS - 1
    # A cut is where a policy begins.
    assert all(cut % 500 == 0 for cut in found)


def test_a_few_stray_impressions_are_no_period() -> None:
    policy = np.zeros(10_000, np.int64)
    policy[:3] = 1
    assert cuts_of(policy) == []


def test_impressions_without_a_time_do_not_matter() -> None:
    time = np.arange(10_000, dtype=float)
    time[::7] = np.nan
    (found,) = cuts_of(np.repeat([0, 1], 5_000), time)
    assert 5_000 <= found <= 5_001


def test_rankings_that_change_are_seen_and_those_that_do_not_are_not() -> None:
    def changed(world: str, seed: int) -> bool:
        return rankings_changed(table_of(world, np.random.default_rng(seed), 3_000))

    assert all(changed("affine", seed) for seed in range(4))
    # One of 12 is wrong with a probability of 3 %.
    assert sum(changed("A/B in parallel", seed) for seed in range(12)) <= 1
