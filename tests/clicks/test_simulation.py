"""Simulated impressions against exact probabilities.

All random tests have fixed seeds. Each check of frequencies fails by chance with a probability of at most
1e-7 (`frequencies.FALSE_ALARM`) if the seed is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankloop.clicks import (
    AffineUsers,
    Behaviour,
    CascadeUsers,
    PaperUsers,
    PositionUsers,
    Users,
    gather,
    gather_log,
)
from rankloop.clicks.simulation import gather_arrays
from rankloop.errors import RankloopError
from rankloop.policies import expected_rank_weights, rank_marginals
from rankloop.ragged import THREADS_VARIABLE, offsets_of
from rankloop.statistics import Counts
from tests.clicks.frequencies import assert_binomial
from tests.enumeration import all_rankings

NEVER = -np.inf

# Hard cases for a sampler: levels of weight, ties, documents that are never shown, no choice.
SHAPES = {
    "alike": [0.0, 0.0, 0.0, 0.0, 0.0],
    "moderate": [0.3, 1.2, -0.4, 0.9, 0.0],
    "one dominates": [0.0, 14.0, 0.4, -0.3, 1.0],
    "two dominate": [9.0, 0.0, 0.5, 9.5, -0.5],
    "every document dominates the next": [0.0, 40.0, 80.0, 120.0, 160.0],
    "steps": [0.0, 2.0, 4.0, 6.0, 8.0],
    "far apart, with ties": [2000.0, 2000.0, 0.0, 0.0, 0.0],
    "far apart": [-1000.0, 700.0, 1000.0, -1000.5, 700.5],
    "excluded": [0.0, NEVER, 0.7, 3.0, NEVER],
    "two to show": [NEVER, 1.0, NEVER, 0.0, NEVER],
    "one to show": [NEVER, NEVER, NEVER, 0.0, NEVER],
    "very far apart": [-1e6, -1e6, -1e6 - 1.0, 0.0, 1e6],
}


@dataclass(frozen=True)
class Custom:
    """Custom users only need a behaviour."""

    behaviour: Behaviour


def equal(a: Counts, b: Counts) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("impressions_by_query", "displays_by_position", "clicks_by_position")
    )


def several_queries(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries of 1 to 30 documents, from flat policies to peaked ones, some documents excluded."""
    sizes = np.concatenate([[1, 2, 3, 30], rng.integers(1, 31, 16)])
    offsets = offsets_of(sizes)
    sharpness = np.repeat(np.tile([0.0, 1.0, 3.0, 10.0, 100.0], 4), sizes)
    scores = sharpness * rng.normal(size=offsets[-1])
    scores[rng.random(len(scores)) < 0.1] = NEVER
    return scores, offsets, rng.integers(0, 5, len(scores)) / 4.0


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("shape", SHAPES)
def test_rankings_have_the_enumerated_frequencies(shape: str, ranks: int) -> None:
    scores, n = np.array(SHAPES[shape]), 20_000
    log = gather_log(
        scores, np.array([0, 5]), np.zeros(5), PositionUsers(ranks), n, np.random.default_rng(ranks)
    )
    finite = np.flatnonzero(scores > NEVER)
    expected: dict[tuple[int, ...], float] = {}
    for order, log_probability in zip(*all_rankings(scores[finite]), strict=True):
        shown = finite[order][:ranks].tolist()
        key = tuple(shown + [-1] * (ranks - len(shown)))
        expected[key] = expected.get(key, 0.0) + np.exp(log_probability)
    observed = dict.fromkeys(expected, 0)
    for row in map(tuple, log.rankings.tolist()):
        assert row in observed, f"{row} is no ranking of these documents"
        observed[row] += 1
    assert_binomial(list(observed.values()), n, list(expected.values()))


def test_displays_follow_the_exact_marginals(rng: np.random.Generator) -> None:
    scores, offsets, relevance = several_queries(rng)
    counts = gather(scores, offsets, relevance, PaperUsers(5), 400_000, rng)
    trials = np.repeat(counts.impressions_by_query, np.diff(offsets))[:, None]
    assert_binomial(counts.displays_by_position, trials, rank_marginals(scores, offsets, 5))


@given(
    st.lists(
        st.sampled_from([-1e6, -800.0, -30.0, -5.0, -1.0, 0.0, 0.5, 1.0, 700.0]), min_size=1, max_size=40
    ),
    st.integers(1, 12),
)
@settings(max_examples=60)
def test_any_scores_any_ranks(scores: list[float], ranks: int) -> None:
    offsets, n = np.array([0, len(scores)]), 2_000
    relevance = np.full(len(scores), 0.5)
    counts = gather(scores, offsets, relevance, PositionUsers(ranks), n, np.random.default_rng(len(scores)))
    assert_binomial(counts.displays_by_position, n, rank_marginals(scores, offsets, ranks))
    shown = min(ranks, len(scores))
    assert counts.displays_by_position.sum(axis=0).tolist() == [n] * shown + [0] * (ranks - shown)


@pytest.mark.parametrize(
    "users", [PaperUsers(5), PositionUsers(3, eta=0.5), AffineUsers((-0.2, 0.4), (0.9, 0.1))], ids=str
)
def test_clicks_follow_the_affine_model(users: PaperUsers, rng: np.random.Generator) -> None:
    scores, offsets, relevance = several_queries(rng)
    counts, bias = gather(scores, offsets, relevance, users, 400_000, rng), users.bias
    chances = bias.alpha * relevance[:, None] + bias.beta
    assert_binomial(counts.clicks_by_position, counts.displays_by_position, chances)
    # A document is clicked at most once per impression, so its clicks over all ranks are binomial too.
    exposure = expected_rank_weights(scores, offsets, np.stack([bias.alpha, bias.beta]))
    per_document = exposure[:, 0] * relevance + exposure[:, 1]
    assert_binomial(counts.clicks, np.repeat(counts.impressions_by_query, np.diff(offsets)), per_document)
    assert counts.clicks.sum() > 100_000


def patterns_seen(users: Users, relevance: list[float], n: int) -> dict[tuple[bool, ...], int]:
    """Count the patterns of clicks on a fixed ranking, with documents in document order."""
    scores = -1000.0 * np.arange(len(relevance))
    log = gather_log(scores, np.array([0, len(scores)]), relevance, users, n, np.random.default_rng(3))
    assert (log.rankings == np.arange(len(relevance))).all()
    rows, counts = np.unique(log.clicks, axis=0, return_counts=True)
    return dict(zip(map(tuple, rows.tolist()), counts.tolist(), strict=True))


def test_cascade_users_leave_after_a_click() -> None:
    n, (a, b) = 50_000, (0.1 + 0.8 * 0.5, 0.1)  # click probabilities while reading
    seen = patterns_seen(CascadeUsers(2, stop=0.7, noise=0.1, abandon=0.2), [0.5, 0.0], n)
    expected = {
        (True, True): a * 0.3 * b,
        (True, False): a * (1 - 0.3 * b),
        (False, True): (1 - a) * 0.8 * b,
        (False, False): (1 - a) * (1 - 0.8 * b),
    }
    assert_binomial([seen.get(key, 0) for key in expected], n, list(expected.values()))


def test_the_original_cascade_has_at_most_one_click() -> None:
    seen = patterns_seen(CascadeUsers(4, stop=1.0, noise=0.2), [0.5, 1.0, 0.0, 1.0], 5_000)
    assert max(sum(pattern) for pattern in seen) == 1
    assert len(seen) == 5


def test_stopping_may_depend_on_relevance_and_rank() -> None:
    n, r = 50_000, 0.25
    behaviour = Behaviour(
        alpha=np.array([0.4, 0.0]),
        beta=np.array([0.3, 1.0]),
        stop_clicked=np.array([0.2, 0.0]),
        stop_relevant=np.array([0.8, 0.0]),
        stop_skipped=np.array([0.6, 0.0]),
    )
    seen = patterns_seen(Custom(behaviour), [r, 1.0], n)
    first = 0.4 * r + 0.3
    stop = 0.2 + 0.8 * r
    expected = {
        (True, True): first * (1 - stop),
        (True, False): first * stop,
        (False, True): (1 - first) * 0.4,
        (False, False): (1 - first) * 0.6,
    }
    assert_binomial([seen.get(key, 0) for key in expected], n, list(expected.values()))


@pytest.mark.parametrize("users", [PaperUsers(5), CascadeUsers(5)], ids=str)
def test_clicks_with_probability_one_always_happen(users: Users) -> None:
    always = AffineUsers((1.0, 1.0), (0.0, 0.0))
    counts = gather(np.zeros(2), np.array([0, 2]), [1.0, 0.0], always, 1_000, np.random.default_rng(0))
    assert np.array_equal(counts.clicks_by_position[0], counts.displays_by_position[0])
    assert counts.clicks[1] == 0
    first = gather([0.0], np.array([0, 1]), [1.0], users, 1_000, np.random.default_rng(0)).clicks[0]
    assert (first == 1_000) == isinstance(users, PaperUsers)  # α + β = 1 at the paper's first rank


@pytest.mark.parametrize("users", [PaperUsers(5), CascadeUsers(7, abandon=0.1)], ids=str)
def test_log_and_counts_have_the_same_impressions(users: Users, rng: np.random.Generator) -> None:
    scores, offsets, relevance = several_queries(rng)
    setting = (scores, offsets, relevance, users, 20_000)
    log = gather_log(*setting, np.random.default_rng(8))
    assert equal(log.counts(offsets), gather(*setting, np.random.default_rng(8)))
    assert (log.rankings[log.clicks] >= 0).all()


def test_the_order_of_a_log_is_random() -> None:
    n = 2_000
    log = gather_log(np.zeros(2), np.array([0, 1, 2]), np.zeros(2), PaperUsers(), n, np.random.default_rng(0))
    # Neighbours belong to the same query half of the time; the number of changes is binomial.
    assert_binomial(np.sum(log.queries[::2] == log.queries[1::2]), n // 2, 0.5)


@pytest.mark.parametrize("simulate", [gather_arrays, gather_log])
def test_results_do_not_depend_on_the_number_of_threads(
    simulate: Callable[..., object], monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    scores, offsets, relevance = several_queries(rng)
    runs = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        run = simulate(scores, offsets, relevance, CascadeUsers(6), 50_000, np.random.default_rng(4))
        runs.append(run if isinstance(run, tuple) else tuple(vars(run).values()))
    for other in runs[1:]:
        for first, second in zip(runs[0], other, strict=True):
            assert np.array_equal(first, second)


def test_results_depend_on_the_seed(rng: np.random.Generator) -> None:
    setting = (*several_queries(rng), PaperUsers(5), 5_000)
    once = gather(*setting, np.random.default_rng(1))
    assert equal(once, gather(*setting, np.random.default_rng(1)))
    assert not equal(once, gather(*setting, np.random.default_rng(2)))
    # The generator advances, so the next simulation differs.
    generator = np.random.default_rng(1)
    assert not equal(gather(*setting, generator), gather(*setting, generator))


def test_equal_queries_get_different_clicks() -> None:
    offsets = np.arange(0, 201, 10)
    counts = gather(
        np.zeros(200), offsets, np.full(200, 0.5), PaperUsers(5), 20_000, np.random.default_rng(0)
    )
    tables = counts.displays_by_position.reshape(20, -1)
    assert len(np.unique(tables, axis=0)) == 20


def test_queries_follow_their_frequencies() -> None:
    frequencies, offsets = np.array([0.0, 3.0, 1.0, 0.0, 6.0, 0.0]), np.arange(7)
    setting = (np.zeros(6), offsets, np.ones(6), PositionUsers(1), 100_000, np.random.default_rng(5))
    counts = gather(*setting, frequencies=frequencies)
    assert_binomial(counts.impressions_by_query, 100_000, frequencies / 10)
    assert counts.impressions_by_query[[0, 3, 5]].tolist() == [0, 0, 0]
    assert np.array_equal(counts.displays_by_position[:, 0], counts.impressions_by_query)


def test_frequencies_are_relative() -> None:
    setting = (np.zeros(3), np.arange(4), np.ones(3), PositionUsers(1), 1_000)
    small = gather(*setting, np.random.default_rng(5), frequencies=[1, 2, 3])
    huge = gather(*setting, np.random.default_rng(5), frequencies=[5e307, 1e308, 1.5e308])
    assert equal(small, huge)


def test_queries_are_equally_frequent_by_default() -> None:
    counts = gather(
        np.zeros(50), np.arange(51), np.ones(50), PositionUsers(1), 50_000, np.random.default_rng(5)
    )
    assert_binomial(counts.impressions_by_query, 50_000, 1 / 50)
    assert counts.impressions == 50_000


def test_no_impressions() -> None:
    setting = (np.zeros(3), np.array([0, 1, 3]), np.ones(3), PaperUsers(5), 0)
    counts = gather(*setting, np.random.default_rng(0))
    assert counts.impressions_by_query.tolist() == [0, 0]
    assert counts.displays_by_position.shape == counts.clicks_by_position.shape == (3, 5)
    assert counts.displays_by_position.sum() == counts.clicks_by_position.sum() == counts.impressions == 0
    log = gather_log(*setting, np.random.default_rng(0))
    assert len(log) == 0
    assert log.rankings.shape == log.clicks.shape == (0, 5)
    assert equal(log.counts(setting[1]), counts)


def test_a_query_without_documents_to_show_has_impressions() -> None:
    setting = (np.array([NEVER, NEVER, 0.0]), np.array([0, 2, 3]), np.ones(3), PaperUsers(5), 1_000)
    counts = gather(*setting, np.random.default_rng(0))
    assert counts.impressions_by_query.min() > 0
    assert counts.displays_by_position[:2].sum() == 0
    assert counts.displays_by_position[2, 0] == counts.impressions_by_query[1]


def test_inputs_are_not_modified(rng: np.random.Generator) -> None:
    given_arrays = several_queries(rng)
    before = [array.copy() for array in given_arrays]
    gather(*given_arrays, PaperUsers(5), 1_000, rng)
    for array, copy in zip(given_arrays, before, strict=True):
        assert np.array_equal(array, copy)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scores": [0.0, np.nan, 0.0]}, "query number 1, document 0: the score is nan"),
        ({"scores": [0.0, 0.0]}, "end at the number of documents"),
        ({"relevance": [0.0, 0.0, 1.5]}, r"query number 1, document 1: the relevance is 1.5; .*in \[0, 1\]"),
        ({"relevance": [np.nan, 0.0, 0.0]}, "query number 0, document 0: the relevance is nan"),
        ({"relevance": [0.0]}, "3 documents need 3 relevances, got shape"),
        ({"impressions": -1}, "integer of at least 0, got -1"),
        ({"impressions": 1e6}, "integer of at least 0, got 1000000.0"),
        ({"frequencies": [1.0]}, "2 queries need 2 frequencies"),
        ({"frequencies": [1.0, -1.0]}, "query number 1: the frequency -1.0"),
        ({"frequencies": [1.0, np.nan]}, "query number 1: the frequency nan"),
        ({"frequencies": [0.0, 0.0]}, "all frequencies are 0"),
    ],
)
@pytest.mark.parametrize("simulate", [gather, gather_log])
def test_invalid_input_is_rejected(
    simulate: Callable[..., object], changed: dict[str, object], message: str, rng: np.random.Generator
) -> None:
    good = {
        "scores": np.zeros(3),
        "offsets": np.array([0, 1, 3]),
        "relevance": np.zeros(3),
        "users": PaperUsers(5),
        "impressions": 10,
    }
    with pytest.raises(RankloopError, match=message):
        simulate(**{**good, **changed}, rng=rng)
