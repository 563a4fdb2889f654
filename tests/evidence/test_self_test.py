"""The self-test of a log: what it finds, what it leaves alone, and what it does not depend on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.self_test_table import by_moments, table_of
from experiments.simulator import BROKEN, SOUND
from rankloop.errors import DataError
from rankloop.evidence.attraction import SHRINKAGE, fold_of, surroundings
from rankloop.evidence.self_test import Gates, SelfTest, drifts_within, self_test
from rankloop.statistics.counts import ImpressionRows, ImpressionTable
from rankloop.types import Bias

# Which test is to find a broken world.
FINDS = {
    "demand +15 %": "drift by policy",
    "demand −15 %": "drift by policy",
    "demand +30 %": "drift by policy",
    "users change": "drift by policy",
    "clicks lost at one rank": "drift between halves",
    "robots from the middle on": "drift between halves",
    "weekends": "drift by weekday",
    "cascade": "order",
    "different lengths": "length",
    "one pick per list": "set",
    "curves by device": "column device",
    "curves by unknown attribute": "hidden contexts",
}


def log_of(world: str, seed: int = 3, impressions: int = 6_000) -> ImpressionTable:
    return table_of(world, np.random.default_rng(seed), impressions)


def result_of(table: ImpressionTable) -> SelfTest:
    return self_test(table, by_moments(table))


@pytest.mark.parametrize("world", BROKEN)
def test_each_broken_log_is_found_by_its_test(world: str) -> None:
    found = result_of(log_of(world, impressions=10_000))
    assert FINDS[world] in [test.name for test in found.found]


def test_sound_logs_have_few_alarms() -> None:
    """An alarm per log has a probability of about 1 %: more than 2 of 28 happen in 3 of 1,000 cases."""
    alarms = [bool(result_of(log_of(world, seed, 3_000)).found) for world in SOUND for seed in range(4)]
    assert sum(alarms) <= 2


def test_the_direction_and_size_of_a_drift() -> None:
    test = result_of(log_of("demand −15 %", impressions=10_000)).test("drift by policy")
    assert test.interval is not None
    assert test.statistic < 0.0
    # Relative to the mean of both halves: 0.15 / 0.925.
    assert test.interval[0] < -0.162 < test.interval[1]
    assert [part.of for part in test.parts] == ["1", "2", "3", "4", "5"]


def shuffled(table: ImpressionTable, rng: np.random.Generator) -> ImpressionTable:
    """The same impressions in another order."""
    order = rng.permutation(len(table.rows))
    sizes = np.diff(table.rows.offsets)[order]
    offsets = np.append(0, np.cumsum(sizes))
    rows = np.repeat(table.rows.offsets[order] - offsets[:-1], sizes) + np.arange(offsets[-1])
    parts = (getattr(table.rows, name)[rows] for name in ("document", "position", "amount"))
    assert table.time is not None
    return replace(
        table,
        rows=ImpressionRows(offsets, table.rows.query[order], *parts),
        policy=table.policy[order],
        unit=table.unit[order],
        length=table.length[order],
        time=table.time[order],
        columns={name: codes[order] for name, codes in table.columns.items()},
    )


def test_the_order_of_the_impressions_does_not_matter(rng: np.random.Generator) -> None:
    table = log_of("curves by device", impressions=2_000)
    bias = by_moments(table)
    one, other = self_test(table, bias), self_test(shuffled(table, rng), bias)
    for first, second in zip(one.tests, other.tests, strict=True):
        assert second.state == first.state
        assert second.statistic == pytest.approx(first.statistic, abs=1e-6), first.name
        assert second.p == pytest.approx(first.p, abs=1e-6)


def test_the_numbers_of_documents_and_policies_do_not_matter(rng: np.random.Generator) -> None:
    table = log_of("cascade", impressions=2_000)
    names = rng.permutation(10**7)[: int(table.rows.document.max()) + 1]
    renamed = replace(table, rows=replace(table.rows, document=names[table.rows.document]))
    bias = by_moments(table)
    for first, second in zip(self_test(table, bias).tests, self_test(renamed, bias).tests, strict=True):
        assert second.statistic == pytest.approx(first.statistic, abs=1e-6), first.name


def test_what_surrounds_a_document() -> None:
    # Units 0 and 2 are in different folds; each has the lists d0 d1 d2 and d2 d0.
    assert fold_of(np.array([0, 2])).tolist() == [1, 0]
    table = ImpressionTable.of_lists(
        [[0, 1, 2], [2, 0, -1], [0, 1, 2], [2, 0, -1]],
        [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]],
        query=[0] * 4,
        unit=[0, 0, 2, 2],
    )
    # Click rates by position of fold 1: 1, 0, 0; of fold 0: 0, 1/2, 0.
    s = SHRINKAGE
    from_1 = [(1 + s) / (1 + 0 + s), s / (0 + s), (1 + s) / (0 + 1 + s)]
    from_0 = [s / (0 + 1 / 2 + s), (1 + s) / (1 / 2 + s), s / (0 + s)]
    around = surroundings(table)
    a, b, c = from_0
    assert around.others[:5] == pytest.approx([b + c, a + c, a + b, a, c])
    assert around.above[:5] == pytest.approx([0, a - (a + c) / 2, 0, 0, c - c], abs=1e-12)
    a, b, c = from_1
    assert around.others[5:] == pytest.approx([b + c, a + c, a + b, a, c])


def test_folds_are_halves_that_do_not_follow_the_numbers() -> None:
    fold = fold_of(np.arange(100_000))
    assert 0.49 < fold.mean() < 0.51
    assert abs(np.corrcoef(fold[:-1], fold[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(fold, np.arange(100_000) % 2)[0, 1]) < 0.02


def test_what_cannot_be_tested_says_why() -> None:
    lists = np.tile([0, 1], (500, 1))
    table = ImpressionTable.of_lists(lists, lists == 0, query=np.zeros(500))
    found = self_test(table)
    assert found.tested == ()
    reasons = {test.name: test.reason for test in found.tests}
    assert reasons["drift by policy"] == "the log has one policy"
    assert reasons["drift between halves"] == reasons["drift by weekday"] == "the log has no times"
    assert reasons["length"] == "all lists have the same length"
    assert "only 0 clicks on documents at positions where this varies" in reasons["order"]
    assert reasons["hidden contexts"] == "it is not known how users click"
    assert np.isnan(found.smallest_drift_seen)


def test_few_clicks_are_not_result_of() -> None:
    table = log_of("demand +30 %", impressions=30)
    found = self_test(table)
    assert found.found == ()
    assert "at least 50 are needed" in found.test("drift by policy").reason


def test_one_document_per_list_has_no_surroundings() -> None:
    table = ImpressionTable.of_lists(np.zeros((200, 1)), np.ones((200, 1)), query=np.zeros(200))
    assert self_test(table).test("order").reason == "the lists have one document each"


def test_an_effect_below_the_gate_is_not_found_but_marked() -> None:
    table = log_of("demand +15 %", impressions=10_000)
    test = self_test(table, gates=Gates(drift=0.3)).test("drift by policy")
    assert test.state == "nothing found"
    assert test.negligible
    assert test.adjusted < 1e-6


def test_times_that_are_unknown_are_left_out() -> None:
    table = log_of("demand +30 %")
    assert table.time is not None
    table.time[::3] = np.nan
    found = self_test(table)
    assert found.test("drift between halves").state == "found"
    assert found.test("drift between halves").clicks < found.test("drift by policy").clicks


def test_hidden_contexts_are_not_reported_beside_an_effect_of_the_order() -> None:
    found = result_of(log_of("cascade", impressions=10_000))
    hidden = replace(found.test("hidden contexts"), state="found")
    both = replace(found, tests=tuple(hidden if test.name == hidden.name else test for test in found.tests))
    assert "hidden contexts" not in [test.name for test in both.found]
    only = replace(both, tests=(hidden,))
    assert [test.name for test in only.found] == ["hidden contexts"]


def test_columns_with_many_values_share_one_effect(rng: np.random.Generator) -> None:
    table = log_of("affine", impressions=3_000)
    table = replace(table, columns={"city": rng.integers(0, 30, 3_000)})
    test = result_of(table).test("column city")
    assert test.state == "nothing found"
    # Five cities and the others, compared with the largest one, at five ranks without a common level.
    assert test.freedom <= 6 * 4


def test_queries_whose_documents_never_move_have_no_hidden_contexts(rng: np.random.Generator) -> None:
    query = rng.integers(0, 50, 2_000)
    lists = 3 * query[:, None] + np.arange(3)
    table = ImpressionTable.of_lists(lists, rng.random(lists.shape) < 0.3, query=query)
    found = self_test(table, by_moments(log_of("affine"))).test("hidden contexts")
    assert (found.state, found.reason[:14]) == ("not tested", "only 0 queries")


def test_position_curves_are_compared_query_by_query() -> None:
    """Two documents change places; in half of the queries, nobody looks at the second position."""
    rng = np.random.default_rng(0)
    query = np.repeat(np.arange(60), 200)
    turned = rng.random(len(query)) < 0.5
    lists = 2 * query[:, None] + np.where(turned[:, None], [1, 0], [0, 1])
    bias = Bias(np.array([0.5, 0.25]), np.zeros(2), np.ones(2))
    looks = np.where(query[:, None] % 2 == 0, [0.5, 0.0], [0.5, 0.5])
    for chance, state in ((looks, "found"), (np.broadcast_to([0.5, 0.25], lists.shape), "nothing found")):
        table = ImpressionTable.of_lists(lists, rng.random(lists.shape) < chance, query=query)
        assert self_test(table, bias).test("hidden contexts").state == state


def test_documents_that_many_queries_share() -> None:
    """A recommendation log: every impression is a query of its own; demand rises in the middle."""
    rng = np.random.default_rng(0)
    lists = rng.permuted(np.tile(np.arange(8), (4_000, 1)), axis=1)[:, :4]
    chance = 0.1 + 0.03 * lists + np.where(np.arange(4_000) < 2_000, 0.0, 0.1)[:, None]
    table = ImpressionTable.of_lists(
        lists, rng.random(lists.shape) < chance, query=np.arange(4_000), time=np.arange(4_000)
    )
    found = self_test(table, Bias(np.full(4, 0.5), np.zeros(4), np.ones(4)))
    assert [test.name for test in found.found] == ["drift between halves", "drift over time"]
    assert found.test("order").state == "nothing found"
    assert found.test("hidden contexts").state == "not tested"


def test_an_empty_table_is_refused() -> None:
    table = ImpressionTable.of_lists(np.zeros((0, 2)), np.zeros((0, 2)), query=np.zeros(0))
    with pytest.raises(DataError, match="no rows"):
        self_test(table)
    with pytest.raises(DataError, match="every impression needs one value"):
        ImpressionTable.of_lists([[0]], [[1]], query=[0], policy=[0, 1])


def test_policies_of_different_times_do_not_drift_within_periods() -> None:
    """Demand rises with the policy; a test of two policies whose users are not alike is another matter."""
    switch = log_of("demand +30 %")
    assert result_of(switch).test("drift by policy").state == "found"
    assert not drifts_within(switch, switch.policy)
    parallel = log_of("A/B in parallel")
    anywhere = np.zeros(len(parallel.rows), np.int64)
    assert not drifts_within(parallel, anywhere)
    more = np.random.default_rng(0).random(len(parallel.rows.document)) < 0.1
    clicked = np.maximum(parallel.rows.amount, more & (parallel.policy[parallel.rows.impression_of] == 1))
    assert drifts_within(replace(parallel, rows=replace(parallel.rows, amount=clicked)), anywhere)
