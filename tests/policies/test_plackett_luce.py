"""Plackett–Luce against enumeration, limits, invalid input and its own samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.errors import RankloopError
from rankloop.policies import (
    expected_rank_weights,
    log_probability,
    rank_marginals,
    sample_rankings,
    top_ranking,
)
from tests.enumeration import all_rankings, marginals

SPREADS = [0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 2000.0]
# Values down to this size must have a relative error below 1e-6.
SMALLEST = 1e-12


def spread_scores(spread: float, n: int, seed: int) -> np.ndarray:
    scores = np.random.default_rng(seed).normal(size=n) ** 3
    return spread * (scores - scores.min()) / np.ptp(scores)


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 6, 9])
def test_marginals_equal_enumeration(spread: float, ranks: int) -> None:
    for seed in range(10):
        scores = spread_scores(spread, 6, seed)
        listed = marginals(scores, ranks)
        exact = rank_marginals(scores, np.array([0, 6]), ranks)
        large = listed > SMALLEST
        np.testing.assert_allclose(exact[large], listed[large], rtol=1e-6)
        np.testing.assert_allclose(exact[~large], listed[~large], rtol=0, atol=2 * SMALLEST)


@given(
    st.lists(st.floats(-40, 40), min_size=1, max_size=6),
    st.lists(st.floats(0.01, 1), min_size=1, max_size=7),
)
@settings(max_examples=60)
def test_expected_weights_equal_enumeration(scores: list[float], weights: list[float]) -> None:
    values = np.array(scores)
    listed = marginals(values, len(weights)) @ np.array(weights)
    exact = expected_rank_weights(values, np.array([0, len(values)]), weights)
    large = listed > SMALLEST
    np.testing.assert_allclose(exact[large], listed[large], rtol=1e-6)
    assert (exact[~large] < 2 * SMALLEST).all()


@given(st.integers(1, 60), st.integers(1, 20), st.floats(0, 8), st.integers(0, 1000))
@settings(max_examples=60)
def test_every_rank_is_taken_by_exactly_one_document(n: int, ranks: int, scale: float, seed: int) -> None:
    scores = scale * np.random.default_rng(seed).normal(size=n)
    table = rank_marginals(scores, np.array([0, n]), ranks)
    filled = np.arange(ranks) < n
    np.testing.assert_allclose(table.sum(axis=0), filled.astype(float), rtol=1e-7, atol=1e-15)


def test_the_first_rank_is_the_softmax(rng: np.random.Generator) -> None:
    scores = rng.normal(size=400) * 3
    exact = expected_rank_weights(scores, np.array([0, 400]), [1.0])
    np.testing.assert_allclose(exact, np.exp(scores) / np.exp(scores).sum(), rtol=1e-8)


def test_ranks_one_and_two_of_many_documents_have_a_closed_form(rng: np.random.Generator) -> None:
    weights = np.exp(rng.normal(size=200) * 2)
    first = weights / weights.sum()
    # P(second) = Σ_{j ≠ d} P(j first) · w_d / (W − w_j)
    second = weights * ((first / (weights.sum() - weights)).sum() - first / (weights.sum() - weights))
    table = rank_marginals(np.log(weights), np.array([0, 200]), 2)
    np.testing.assert_allclose(table, np.stack([first, second], axis=1), rtol=1e-8)


def test_many_ranks_keep_their_precision() -> None:
    # One document of weight W among n of weight 1: after k others it is drawn with probability W / (W + n −
    # k).
    n, strong, ranks = 30, 100.0, 8
    scores = np.zeros(n + 1)
    scores[0] = math.log(strong)
    expected = []
    waiting = 1.0
    for k in range(ranks):
        expected.append(waiting * strong / (strong + n - k))
        waiting *= (n - k) / (strong + n - k)
    table = rank_marginals(scores, np.array([0, n + 1]), ranks)
    np.testing.assert_allclose(table[0], expected, rtol=1e-6)


def test_several_vectors_at_once_equal_one_at_a_time(rng: np.random.Generator) -> None:
    scores, offsets = rng.normal(size=50), np.array([0, 1, 4, 50])
    vectors = rng.normal(size=(3, 5))
    together = expected_rank_weights(scores, offsets, vectors)
    for v in range(3):
        alone = expected_rank_weights(scores, offsets, vectors[v])
        # Sums over another number of columns may be vectorised in another order.
        np.testing.assert_allclose(together[:, v], alone, rtol=1e-12)


def test_adding_a_constant_to_all_scores_changes_nothing(rng: np.random.Generator) -> None:
    scores, offsets = rng.normal(size=20), np.array([0, 20])
    expected = rank_marginals(scores, offsets, 5)
    np.testing.assert_allclose(rank_marginals(scores + 1e4, offsets, 5), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("n", "ranks"),
    [
        (7, 7),
        (400, 8),
        (400, 16),
        (400, 33),
        (400, 100),
        (130, 130),
        pytest.param(300, 300, marks=pytest.mark.long),
    ],
)
def test_ties_are_treated_equally_at_every_rank(n: int, ranks: int) -> None:
    table = rank_marginals(np.full(n, 3.0), np.array([0, n]), ranks)
    np.testing.assert_allclose(table, 1 / n, rtol=1e-6)


def test_one_document_is_always_first() -> None:
    np.testing.assert_allclose(rank_marginals([-5.0], np.array([0, 1]), 3), [[1, 0, 0]], atol=1e-9)


def test_a_document_of_minus_infinity_is_never_shown(rng: np.random.Generator) -> None:
    scores = np.array([0.5, -np.inf, 1.5, -np.inf, -np.inf, -np.inf])
    offsets = np.array([0, 4, 5, 6])
    table = rank_marginals(scores, offsets, 3)
    np.testing.assert_allclose(table[[0, 2]], rank_marginals([0.5, 1.5], np.array([0, 2]), 3), rtol=1e-9)
    assert (table[[1, 3, 4, 5]] == 0).all()
    drawn = sample_rankings(scores, offsets, 3, rng, samples=50)
    assert set(np.unique(drawn[:, 0])) == {-1, 0, 2}
    assert (drawn[:, 1:] == -1).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e18, -1e18])
@pytest.mark.parametrize(
    "call",
    [
        lambda s, o: expected_rank_weights(s, o, [1.0]),
        lambda s, o: rank_marginals(s, o, 2),
        lambda s, o: log_probability(s, o, [[0], [0]]),
        lambda s, o: sample_rankings(s, o, 2, np.random.default_rng(0)),
        lambda s, o: top_ranking(s, o, 2),
    ],
)
def test_an_invalid_score_is_rejected_with_its_query(call, bad: float) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RankloopError, match=r"query number 1, document 2: the score is (nan|inf|-?1e\+18)"):
        call(np.array([0.0, 1.0, 2.0, bad]), np.array([0, 1, 4]))


@pytest.mark.parametrize(
    ("rankings", "message"),
    [
        ([[0, 0], [0, 1]], "query number 0: the ranking contains a document twice"),
        ([[0, 1], [2, 1]], "query number 1: the ranking contains a document that the query does not have"),
        ([[-1, 1], [0, 1]], "query number 0: the ranking has -1 before a document"),
        ([[0, 1]], "rankings must be"),
    ],
)
def test_an_invalid_ranking_is_rejected(rankings: list[list[int]], message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        log_probability(np.zeros(4), np.array([0, 2, 4]), rankings)


def test_invalid_rank_weights_and_offsets_are_rejected() -> None:
    with pytest.raises(RankloopError, match="rank weights must be finite"):
        expected_rank_weights([0.0], np.array([0, 1]), [np.nan])
    with pytest.raises(RankloopError, match="offsets must"):
        expected_rank_weights([0.0], np.array([0, 2]), [1.0])
    with pytest.raises(RankloopError, match="query number 1 has no documents"):
        expected_rank_weights([0.0], np.array([0, 1, 1]), [1.0])


@pytest.mark.parametrize("scale", [1.0, 50.0, 700.0])
def test_log_probability_equals_enumeration(scale: float, rng: np.random.Generator) -> None:
    scores = scale * rng.normal(size=5)
    rankings, listed = all_rankings(scores)
    exact = log_probability(scores, np.array([0, 5]), rankings[:, None, :])
    np.testing.assert_allclose(exact[:, 0], listed, rtol=1e-12, atol=1e-12)


def test_log_probability_of_a_top_k_is_the_sum_over_its_completions(rng: np.random.Generator) -> None:
    scores = rng.normal(size=5)
    rankings, listed = all_rankings(scores)
    starts = (rankings[:, 0] == 3) & (rankings[:, 1] == 1)
    top = log_probability(scores, np.array([0, 5]), [[3, 1]])
    np.testing.assert_allclose(top, np.log(np.exp(listed[starts]).sum()), rtol=1e-12)


def test_samples_follow_the_marginals(rng: np.random.Generator) -> None:
    scores, offsets, n = rng.normal(size=12), np.array([0, 8, 12]), 40_000
    drawn = sample_rankings(scores, offsets, 3, rng, samples=n)
    table = rank_marginals(scores, offsets, 3)
    for q, (a, b) in enumerate([(0, 8), (8, 12)]):
        for k in range(3):
            seen = np.bincount(drawn[:, q, k], minlength=b - a) / n
            chance = table[a:b, k]
            # 36 shares of 40,000 draws, five standard errors: fails by chance in about 1 of 50,000 seeds.
            assert (np.abs(seen - chance) < 5 * np.sqrt(chance * (1 - chance) / n)).all()


def test_samples_within_a_query_are_independent(rng: np.random.Generator) -> None:
    drawn = sample_rankings(np.zeros(8), np.array([0, 4, 8]), 1, rng, samples=20_000)[:, :, 0]
    pairs = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16)
    expected = len(drawn) / 16
    # χ² with 15 degrees of freedom exceeds 60 in about 1 of 4 million seeds.
    assert ((pairs - expected) ** 2 / expected).sum() < 60
    follow = np.bincount(drawn[:-1, 0] * 4 + drawn[1:, 0], minlength=16)
    assert ((follow - follow.mean()) ** 2 / follow.mean()).sum() < 60


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 60, size=400)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores = rng.normal(size=offsets[-1])
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("RANKLOOP_THREADS", threads)
        drawn = sample_rankings(scores, offsets, 5, np.random.default_rng(3), samples=2)
        results.append(
            (
                drawn,
                expected_rank_weights(scores, offsets, np.eye(5)),
                log_probability(scores, offsets, drawn),
            )
        )
    for other in results[1:]:
        for first, second in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(first, second)
