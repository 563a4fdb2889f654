"""Directions drawn through the eyes of documents have the law of directions drawn whole.

Seeds are fixed; with others, each test fails once in 10,000 runs or less.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rankloop.kernels.coltr import draw_direction
from rankloop.kernels.directions import complete, copy_documents, factorise, is_direct, lengthen
from rankloop.kernels.random_streams import seed_stream

ALARM = 1e-4


@pytest.fixture
def stream():
    return seed_stream(np.int64(2), 0)


def with_bias(rows):
    return np.column_stack([rows.astype(np.float64), np.ones(len(rows))])


def factor_of(rows):
    n = len(rows)
    factor, pivots = np.empty((n, n)), np.empty(n, np.int64)
    rank = factorise(rows, factor, pivots, np.empty(n))
    return factor, pivots, rank


def documents(rng, n, features):
    return rng.random((n, features), dtype=np.float32)


@pytest.mark.parametrize(("n", "features"), [(1, 4), (3, 8), (24, 100)])
def test_the_factor_is_one_of_the_inner_products(n, features, rng):
    rows = documents(rng, n, features)
    factor, pivots, rank = factor_of(rows)
    assert rank == n
    assert sorted(pivots) == list(range(n))
    seen = with_bias(rows)
    np.testing.assert_allclose(factor @ factor.T, seen @ seen.T, rtol=1e-12)
    # In the order of the pivots it is triangular: the substitutions of `complete` rely on it.
    np.testing.assert_array_equal(np.triu(factor[pivots], 1), 0.0)


def test_documents_that_depend_on_others_add_nothing(rng):
    """Twins, an average of two, and one that differs by less than float32 can tell: 3 of 6 remain."""
    rows = np.round(8 * documents(rng, 3, 9)) / 8
    rows = np.vstack([rows, rows[1], (rows[0] + rows[2]) / 2, rows[2] * np.float32(1 + 1e-7)])
    factor, _, rank = factor_of(rows.astype(np.float32))
    assert rank == 3
    seen = with_bias(rows)
    # What is dropped is 1e-12 of the longest square.
    np.testing.assert_allclose(
        factor[:, :rank] @ factor[:, :rank].T, seen @ seen.T, atol=1e-11 * (seen**2).sum()
    )


def test_a_query_of_empty_documents_is_seen_through_the_bias():
    rows = np.zeros((4, 6), np.float32)
    factor, _, rank = factor_of(rows)
    assert rank == 1
    np.testing.assert_array_equal(factor[:, 0], 1.0)


def test_whole_documents_are_their_own_factor(rng):
    rows = documents(rng, 5, 3)
    view = np.empty((5, 4))
    assert copy_documents(rows, view) == 4
    np.testing.assert_array_equal(view, with_bias(rows))


def test_what_is_cheaper():
    """The paper's network sees 24 documents of 700 features; a linear model of 5 features has few numbers."""
    assert not is_direct(24, np.array([700, 32, 32, 1]), 50)
    assert not is_direct(24, np.array([700, 1]), 50)
    assert is_direct(24, np.array([5, 1]), 50)
    assert is_direct(24, np.array([23, 32, 1]), 50)  # with the bias, as many inputs as documents
    assert is_direct(1000, np.array([700, 32, 32, 1]), 50)
    # Once it is, it stays so for longer queries: room is made for the longest.
    for widths in ([700, 32, 1], [46, 1], [136, 8, 1]):
        chosen = [is_direct(n, np.array(widths), 50) for n in range(1, 1500)]
        assert chosen == sorted(chosen)


def test_lengths_of_directions_add_up(stream):
    """A direction has the length asked for: seen, outside and tail together."""
    seen, tail = np.empty(7), np.empty(3)
    for reach in (1.0, 0.25):
        outside = draw_direction(stream, seen, tail, 20, reach)
        assert seen @ seen + tail @ tail + outside**2 == pytest.approx(reach**2, rel=1e-12)


def test_shares_of_the_length_are_those_of_a_uniform_direction(stream):
    """|part|² of a uniform direction is a beta number: 7 dimensions seen, 3 in the tail, 20 not."""
    seen, tail, draws = np.empty(7), np.empty(3), []
    for _ in range(20_000):
        outside = draw_direction(stream, seen, tail, 20, 1.0)
        draws.append((seen @ seen, tail @ tail, outside**2, seen[0]))
    for values, size in zip(np.transpose(draws), (7, 3, 20), strict=False):
        assert stats.kstest(values, stats.beta(size / 2, (30 - size) / 2).cdf).pvalue > ALARM
    # One coordinate, from −1 to 1.
    coordinate = (np.transpose(draws)[3] + 1.0) / 2.0
    assert stats.kstest(coordinate, stats.beta(29 / 2, 29 / 2).cdf).pvalue > ALARM


@pytest.mark.parametrize("freedom", [1, 2, 3, 40])
def test_sums_of_random_vectors_are_as_long_as_they_should_be(freedom, stream, rng):
    """Against three vectors of lengths 1, 2 and 0.5 that are drawn and added."""
    lengths = (1.0, 2.0, 0.5)
    ours = []
    for _ in range(5_000):
        spread = 0.0
        for more in lengths:
            spread = lengthen(spread, more, freedom, stream)
        ours.append(spread)
    vectors = rng.normal(size=(3, 5_000, freedom))
    vectors *= (np.array(lengths)[:, None] / np.linalg.norm(vectors, axis=2))[:, :, None]
    drawn = np.linalg.norm(vectors.sum(axis=0), axis=1)
    assert stats.ks_2samp(np.round(ours, 9), np.round(drawn, 9)).pvalue > ALARM


@pytest.mark.parametrize("units", [1, 4])
def test_a_completed_direction_is_seen_as_it_was_judged(units, stream, rng):
    """X U = F G for every document, twins included, and its rest has the length asked for."""
    rows = documents(rng, 5, 12)
    rows[4] = rows[1]
    factor, pivots, rank = factor_of(rows)
    assert rank == 4
    seen = rng.normal(size=(rank, units))
    whole, images = np.empty((13, units)), np.empty((2, 5, units))
    complete(rows, factor, pivots, seen, 0.7, stream, whole, images)
    np.testing.assert_allclose(with_bias(rows) @ whole, factor[:, :rank] @ seen, atol=1e-10)
    basis, _ = np.linalg.qr(with_bias(rows)[:4].T)
    rest = whole - basis @ (basis.T @ whole)
    assert np.linalg.norm(rest) == pytest.approx(0.7, rel=1e-10)


def test_completed_directions_are_normal_again(stream, rng):
    """With G standard normal and the rest as long as normal numbers are, U is standard normal: all of it."""
    rows, units, samples = documents(rng, 3, 5), 2, 20_000
    factor, pivots, rank = factor_of(rows)
    whole, images = np.empty((6, units)), np.empty((2, 3, units))
    draws = np.empty((samples, 12))
    for k in range(samples):
        seen, rest = rng.normal(size=(rank, units)), np.sqrt(rng.chisquare((6 - rank) * units))
        complete(rows, factor, pivots, seen, rest, stream, whole, images)
        draws[k] = whole.ravel()
    for column in draws.T:
        assert stats.kstest(column, "norm").pvalue > ALARM
    # 78 covariances of 1 or 0, each within 5 standard errors (variance 2 or 1).
    assert np.abs(draws.T @ draws / samples - np.eye(12)).max() < 5 * np.sqrt(2 / samples)
    # A direction across all coordinates, chosen before looking.
    across = draws @ np.ones(12) / np.sqrt(12)
    assert stats.kstest(across, "norm").pvalue > ALARM
