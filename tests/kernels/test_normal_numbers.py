"""Laws of the random numbers. Seeds are fixed; with others, each test fails once in 10,000 runs or less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rankloop.kernels.normal_numbers import (
    LAYERS,
    TAIL,
    _layers,
    decide,
    draw_chi_square,
    draw_normal,
    fill_normal,
    next_in_tail,
)
from rankloop.kernels.random_streams import seed_stream

ALARM = 1e-4


@pytest.fixture
def stream():
    return seed_stream(np.int64(1), 0)


def test_layers_fill_the_bell():
    """256 layers of one area, and nothing left above the last: the mode has height 1."""
    x, bell = _layers()
    assert len(x) == LAYERS + 1
    assert x[1] == TAIL
    areas = x[1:-1] * np.diff(bell)[1:]
    np.testing.assert_allclose(areas, areas[0], rtol=1e-9)
    base = TAIL * bell[1] + np.sqrt(2 * np.pi) * stats.norm.sf(TAIL)
    assert base == pytest.approx(areas[0], rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_numbers(dtype, stream):
    out = np.empty(1_000_000, dtype)
    square = fill_normal(stream, out)
    assert square == pytest.approx((out.astype(np.float64) ** 2).sum(), rel=1e-6)
    # 1,000 bins of equal chance see every layer; the outermost begin at 3.09: the tail has its own test.
    counts, _ = np.histogram(out, stats.norm.ppf(np.linspace(0, 1, 1001)))
    assert stats.chisquare(counts).pvalue > ALARM
    beyond = int((np.abs(out) > TAIL).sum())
    assert stats.binomtest(beyond, len(out), 2 * stats.norm.sf(TAIL)).pvalue > ALARM
    # Neighbours have nothing to do with each other, nor do their squares.
    lagged = np.corrcoef(out[1:], out[:-1])[0, 1], np.corrcoef(out[1:] ** 2, out[:-1] ** 2)[0, 1]
    assert np.abs(lagged).max() < 4 / np.sqrt(len(out))


def states(count):
    """Points of different streams, as kernels hand them on."""
    return [tuple(seed_stream(np.int64(7), k)) for k in range(count)]


def test_the_tail():
    draws = [next_in_tail(state)[1] for state in states(20_000)]
    assert stats.kstest(draws, stats.truncnorm(TAIL, np.inf).cdf).pvalue > ALARM


@pytest.mark.parametrize("layer", [1, 40, 255])
def test_places_that_may_lie_above_the_bell(layer):
    """One such place is kept as often as a point of its layer above it lies below the bell."""
    x, bell = _layers()
    edge = x[layer + 1] + 0.5 * (x[layer] - x[layer + 1])
    place = np.int64(-edge / x[layer] * 2**52)
    kept = [decide(state, np.uint64(layer), place)[1] == pytest.approx(-edge) for state in states(2_000)]
    chance = (np.exp(-0.5 * edge**2) - bell[layer]) / (bell[layer + 1] - bell[layer])
    assert 0.1 < chance < 0.9
    assert stats.binomtest(sum(kept), len(kept), chance).pvalue > ALARM


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 21_664])
def test_chi_square_numbers(freedom, stream):
    draws = [draw_chi_square(stream, freedom) for _ in range(20_000)]
    assert stats.kstest(draws, stats.chi2(freedom).cdf).pvalue > ALARM


def test_mean_and_variance_of_chi_square_numbers(stream):
    """Of two squares, where the method's corrections count most: 2 and 4, within 5 standard errors."""
    draws = np.array([draw_chi_square(stream, 2) for _ in range(400_000)])
    assert abs(draws.mean() - 2) < 5 * np.sqrt(4 / len(draws))
    # The fourth central moment of this law is 144.
    assert abs(draws.var() - 4) < 5 * np.sqrt((144 - 16) / len(draws))


def test_zero_degrees_of_freedom_give_zero_and_leave_the_stream(stream):
    before = stream.copy()
    assert draw_chi_square(stream, 0) == 0.0
    np.testing.assert_array_equal(stream, before)


def test_one_by_one_they_are_the_same_numbers(stream):
    other, together = stream.copy(), np.empty(1000)
    fill_normal(stream, together)
    np.testing.assert_array_equal([draw_normal(other) for _ in range(1000)], together)
    np.testing.assert_array_equal(other, stream)
