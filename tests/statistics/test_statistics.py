"""Statistics: sums that add, selections, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.errors import DataError
from rankloop.policies import sample_rankings
from rankloop.statistics import Exposure, PolicyStatistics, Statistics, of_impressions
from rankloop.types import Bias
from tests.enumeration import marginals
from tests.statistics.equality import assert_same

BIAS = Bias(alpha=[0.35, 0.53, 0.55], beta=[0.65, 0.26, 0.15], examination=[1.0, 0.8, 0.7])
SIZES = np.array([3, 1, 5, 2])
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
N_DOCUMENTS = int(OFFSETS[-1])
IMPRESSIONS = 60


def impressions(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    queries = rng.integers(len(SIZES), size=IMPRESSIONS)
    drawn = sample_rankings(rng.normal(size=N_DOCUMENTS), OFFSETS, BIAS.positions, rng, samples=IMPRESSIONS)
    rankings = drawn[np.arange(IMPRESSIONS), queries]
    return {
        "queries": queries,
        "rankings": rankings,
        "clicks": (rng.random(rankings.shape) < 0.5) & (rankings >= 0),
    }


def exposure(seed: int) -> Exposure:
    scores = np.random.default_rng(seed).normal(size=N_DOCUMENTS)
    return Exposure.of_scores(scores, OFFSETS, BIAS)


def gathered(policy: str = "a", seed: int = 0) -> Statistics:
    return of_impressions(policy, OFFSETS, exposure(seed), **impressions(seed))


def counts(**changes: object) -> dict[str, object]:
    """Good arguments for one query of two documents and one of one document, with these changed."""
    good = {
        "offsets": [0, 2, 3],
        "exposure": Exposure(*np.full((3, 3), 0.5)),
        "impressions_by_query": [4, 1],
        "displays_by_position": [[3, 1], [1, 3], [1, 0]],
        "clicks_by_position": [[2, 0], [1, 1], [0, 0]],
    }
    return good | changes


def test_exposure_is_the_sum_over_all_rankings() -> None:
    scores = np.array([0.3, -1.0, 2.0, 0.0])
    seen = Exposure.of_scores(scores, np.array([0, 4]), BIAS)
    table = marginals(scores, BIAS.positions)
    for name in ("alpha", "beta", "examination"):
        np.testing.assert_allclose(getattr(seen, name), table @ getattr(BIAS, name), rtol=1e-7)


def test_totals_by_hand() -> None:
    a = Statistics.of_policy("a", **counts())
    b = Statistics.of_policy(
        "b", **counts(impressions_by_query=[5, 0], displays_by_position=[[4, 1], [1, 4], [0, 0]])
    )
    both = a + b
    np.testing.assert_array_equal(both.impressions_by_query, [4 + 5, 1 + 0])
    np.testing.assert_array_equal(both.clicks, [2 + 2, 2 + 2, 0])
    np.testing.assert_array_equal(both.displays_by_position, [[3 + 4, 1 + 1], [1 + 1, 3 + 4], [1, 0]])
    assert list(both.policies) == ["a", "b"]
    assert both.impressions == both.log_impressions == 5 + 5
    np.testing.assert_array_equal(both.per_document(both.impressions_by_query), [9, 9, 1])


def test_a_policy_that_logs_again_adds_to_its_own_counts() -> None:
    once = Statistics.of_policy("a", **counts())
    twice = once + once
    assert list(twice.policies) == ["a"]
    np.testing.assert_array_equal(twice.policies["a"].impressions_by_query, [8, 2])
    np.testing.assert_array_equal(twice.policies["a"].clicks, [4, 4, 0])
    assert twice.policies["a"].exposure is once.policies["a"].exposure


@settings(max_examples=30)
@given(cuts=st.lists(st.integers(0, IMPRESSIONS), max_size=4), reverse=st.booleans())
def test_any_split_of_a_log_merges_to_the_whole(cuts: list[int], reverse: bool) -> None:
    log, seen = impressions(0), exposure(0)
    edges = [0, *sorted(cuts), IMPRESSIONS]
    parts = [
        of_impressions("a", OFFSETS, seen, **{name: values[start:stop] for name, values in log.items()})
        for start, stop in pairwise(edges)
    ]
    merged = Statistics.empty(OFFSETS, BIAS.positions)
    for part in reversed(parts) if reverse else parts:
        merged = merged + part
    assert_same(merged, gathered())


def test_merging_is_associative_and_nothing_is_changed_by_it() -> None:
    a, b, c = gathered("a", 0), gathered("b", 1), gathered("a", 0)
    before = gathered("a", 0)
    assert_same((a + b) + c, a + (b + c))
    assert_same(a, before)


def test_nothing_added_changes_nothing() -> None:
    nothing = Statistics.empty(OFFSETS, BIAS.positions)
    assert_same(gathered() + nothing, gathered())
    assert_same(nothing + gathered(), gathered())
    assert nothing.impressions == nothing.log_impressions == 0


def test_exposures_that_differ_by_rounding_are_of_one_policy() -> None:
    a = gathered()
    seen = a.policies["a"].exposure
    rounded = Exposure(seen.alpha * (1 + 1e-9), seen.beta * (1 - 1e-9), seen.examination)
    b = of_impressions("a", OFFSETS, rounded, **impressions(0))
    assert (a + b).policies["a"].exposure is seen


def test_two_policies_under_one_id_are_refused() -> None:
    with pytest.raises(DataError, match="policy 'a' has two different exposures"):
        gathered("a", 0) + gathered("a", 1)


def test_statistics_of_other_queries_are_refused() -> None:
    a = gathered()
    with pytest.raises(DataError, match="only statistics of the same queries and ranks add"):
        a + a.select([0, 1])
    other = replace(a, offsets=np.array([0, 1, 4, 9, 11]), policies={}, **empty_by_position(a))
    with pytest.raises(DataError, match="with different offsets"):
        other + a
    with pytest.raises(DataError, match="3 ranks on the left, 4, 11 and 2 on the right"):
        a + Statistics.empty(OFFSETS, 2)
    with pytest.raises(TypeError):
        a + 1  # type: ignore[operator]


def empty_by_position(statistics: Statistics) -> dict[str, np.ndarray]:
    zeros = np.zeros_like(statistics.displays_by_position)
    return {"displays_by_position": zeros, "clicks_by_position": zeros}


@pytest.mark.parametrize("queries", [[0, 1], [1, 2, 3], [3, 0], [2], [0, 1, 2, 3], [3, 2, 1, 0]])
def test_a_selection_is_the_statistics_of_its_queries_alone(queries: list[int]) -> None:
    log, seen = impressions(0), exposure(0)
    chosen = gathered().select(queries)
    rows = np.isin(log["queries"], queries)
    number = {q: n for n, q in enumerate(queries)}
    documents = np.concatenate([np.arange(OFFSETS[q], OFFSETS[q + 1]) for q in queries])
    alone = of_impressions(
        "a",
        np.concatenate([[0], np.cumsum(SIZES[queries])]),
        seen[documents],
        queries=[number[q] for q in log["queries"][rows]],
        rankings=log["rankings"][rows],
        clicks=log["clicks"][rows],
    )
    assert chosen.log_impressions == IMPRESSIONS
    assert_same(chosen, replace(alone, log_impressions=IMPRESSIONS))


def test_queries_in_a_row_are_selected_without_a_copy() -> None:
    whole = gathered()
    chosen = whole.select([1, 2])
    assert np.shares_memory(chosen.policies["a"].exposure.alpha, whole.policies["a"].exposure.alpha)
    assert np.shares_memory(chosen.displays_by_position, whole.displays_by_position)


def test_selections_add_like_the_whole() -> None:
    a, b = gathered("a", 0), gathered("b", 1)
    assert_same(a.select([3, 1]) + b.select([3, 1]), (a + b).select([3, 1]))
    assert_same((a + b).select([1, 2, 3]).select([2]), (a + b).select([3]))


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([4], "there is no query number 4: there are 4 queries"),
        ([-1], "there is no query number -1"),
        ([1, 2, 1], "query number 1 is selected more than once"),
        ([], "at least one"),
        ([True, False, True, True], "np.flatnonzero of a mask"),
        ([[0]], "numbers of queries"),
    ],
)
def test_selections_that_make_no_sense_are_refused(queries: list[int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        gathered().select(queries)


def test_arrays_cannot_be_changed_and_are_not_copied() -> None:
    shown = np.array([[3, 1], [1, 3], [1, 0]])
    statistics = Statistics.of_policy("a", **counts(displays_by_position=shown))
    assert np.shares_memory(statistics.displays_by_position, shown)
    for array in (statistics.displays_by_position, statistics.policies["a"].clicks, statistics.offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    with pytest.raises(TypeError):
        statistics.policies["b"] = statistics.policies["a"]  # type: ignore[index]
    shown[0, 0] = 3  # what the caller made stays the caller's to change


def test_they_can_be_sent_to_another_process() -> None:
    assert_same(pickle.loads(pickle.dumps(gathered())), gathered())


def test_the_room_they_take() -> None:
    statistics = gathered()
    per_policy = 8 * len(SIZES) + (3 * 8 + 4) * N_DOCUMENTS
    assert statistics.nbytes == 8 * len(OFFSETS) + per_policy + 2 * 8 * N_DOCUMENTS * BIAS.positions
    assert (statistics + gathered("b", 1)).nbytes == statistics.nbytes + per_policy


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offsets": [0, 3]}, "1 queries and 3 documents are in the offsets, 2 and 3 in its counts"),
        ({"offsets": [0, 2, 2, 3]}, "query number 1 has no documents"),
        ({"offsets": [0, 2, 4]}, "offsets must be one-dimensional"),
        ({"offsets": [0.0, 2.0, 3.0]}, "offsets must be int64, got float64"),
        ({"exposure": Exposure(*np.ones((3, 2)))}, "clicks on 3 documents need the exposure of each, got 2"),
        (
            {"impressions_by_query": [4, -1]},
            "impressions_by_query must be a flat array of counts, none negative",
        ),
        ({"impressions_by_query": [4.0, 1.0]}, "impressions_by_query must be int64, got float64"),
        (
            {"impressions_by_query": [3, 1]},
            r"query number 0 came 3 times, but a rank was filled more often: \[4, 4\]",
        ),
        ({"displays_by_position": [[3, 1], [1, 3], [1, 1]]}, None),
        (
            {"displays_by_position": [[3, 1], [1, 0], [1, 0]]},
            "query number 0, document 1: more clicks at a rank",
        ),
        ({"displays_by_position": [3, 1, 1]}, "matrices of documents × ranks"),
        ({"clicks_by_position": [[2, 0], [1, 1], [2, -2]]}, "query number 1, document 0: a negative number"),
        ({"clicks_by_position": [[2], [1], [0]]}, "matrices of documents × ranks"),
        (
            {"exposure": Exposure(*np.array([[0.5, 0, 0.5]] * 3))},
            "document 1 was clicked 2 times, but the policy never shows it",
        ),
    ],
)
def test_counts_that_cannot_be_are_refused(changes: dict[str, object], message: str | None) -> None:
    if message is None:  # one rank more or less may be filled: a query may have few documents to show
        assert Statistics.of_policy("a", **counts(**changes)).impressions == 5
        return
    with pytest.raises(DataError, match=message):
        Statistics.of_policy("a", **counts(**changes))


def test_clicks_of_policies_and_of_ranks_must_agree() -> None:
    good = Statistics.of_policy("a", **counts())
    gathered = good.policies["a"]
    fewer = PolicyStatistics(gathered.impressions_by_query, gathered.clicks - [1, 0, 0], gathered.exposure)
    with pytest.raises(DataError, match="query number 0, document 0: clicks by rank that do not add"):
        replace(good, policies={"a": fewer})


def test_a_log_is_not_shorter_than_its_impressions() -> None:
    with pytest.raises(DataError, match="the log has 4 impressions, but its policies have 5"):
        replace(Statistics.of_policy("a", **counts()), log_impressions=4)


@pytest.mark.parametrize(
    ("alpha", "beta", "examination", "message"),
    [
        ([np.nan], [0.0], [0.0], "document 0: the expected alpha is nan"),
        ([0.0], [-0.1], [0.0], "document 0: the expected beta is -0.1"),
        ([0.0], [0.0], [np.inf], "document 0: the expected examination is inf"),
        ([0.0], [0.0, 0.0], [0.0], r"got beta of shape \(2,\)"),
        ([[0.0]], [[0.0]], [[0.0]], "flat arrays over the same documents"),
        (["x"], [0.0], [0.0], "the expected alpha must be float64"),
    ],
)
def test_exposures_that_cannot_be_are_refused(
    alpha: list[float], beta: list[float], examination: list[float], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Exposure(alpha, beta, examination)  # type: ignore[arg-type]


def test_more_clicks_than_can_be_counted_are_refused() -> None:
    seen = Exposure(*np.ones((3, 1)))
    most = PolicyStatistics(np.array([2**31]), np.array([2**31 - 1]), seen)
    assert most.clicks.tolist() == [2**31 - 1]
    message = "clicks are counted up to 2147483647 per document and policy, got 2147483648"
    with pytest.raises(DataError, match=message):
        PolicyStatistics(np.array([2**31]), np.array([2**31]), seen)
    with pytest.raises(DataError, match=message):
        most + PolicyStatistics(np.array([1]), np.array([1]), seen)


def test_relevance_may_put_users_off() -> None:
    assert Exposure([-0.1], [0.3], [1.0]).alpha == [-0.1]  # type: ignore[arg-type]
