"""The kernels behind the networks, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.kernels.dense import ACTIVATIONS, _activate, add_product, backward, forward


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
# Each count of rows and columns below, at and above the edges of the tiles.
@pytest.mark.parametrize("rows", [1, 3, 4, 9])
@pytest.mark.parametrize("columns", [1, 2, 4, 7, 8, 16, 23, 32, 53])
def test_add_product_adds_the_matrix_product(
    rng: np.random.Generator, rows: int, columns: int, dtype: type
) -> None:
    a = rng.normal(size=(rows, 5)).astype(np.float32)
    b, c = rng.normal(size=(5, columns)).astype(dtype), rng.normal(size=(rows, columns)).astype(dtype)
    expected = c + a.astype(dtype) @ b
    add_product(a, b, c)
    np.testing.assert_allclose(c, expected, rtol=0, atol=20 * np.finfo(dtype).eps)


def test_add_product_takes_a_transposed_view(rng: np.random.Generator) -> None:
    a, b, c = rng.normal(size=(6, 9)), rng.normal(size=(6, 10)), np.zeros((9, 10))
    add_product(a.T, b, c)
    np.testing.assert_allclose(c, a.T @ b, atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_activations(dtype: type) -> None:
    """Errors are counted in units of the last place of 1: one for σ, two for tanh as 2 σ(2x) − 1."""
    x = np.concatenate([np.linspace(-100, 100, 4001), [0.0, -1e-20, 1e-3, np.inf, -np.inf]])
    x = x.astype(dtype).astype(np.float64)
    with np.errstate(over="ignore"):
        expected = {"sigmoid": 1 / (1 + np.exp(-x)), "tanh": np.tanh(x), "relu": np.maximum(x, 0)}
    units = {"sigmoid": 1, "tanh": 2, "relu": 0}
    for code, name in enumerate(ACTIVATIONS):
        values = x.astype(dtype)
        _activate(values, code)
        tolerance = units[name] * np.finfo(dtype).eps
        np.testing.assert_allclose(values, expected[name], rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("code", range(len(ACTIVATIONS)))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_nan_is_not_swallowed_by_an_activation(code: int, dtype: type) -> None:
    values = np.full(20, np.nan, dtype)
    _activate(values, code)
    assert np.isnan(values).all()


def test_rows_of_a_query_and_their_place_in_the_scratch(rng: np.random.Generator) -> None:
    """Two sigmoid units on two features, rows 1:3 of four, by the equations."""
    features = rng.normal(size=(4, 2)).astype(np.float32)
    w1, b1, w2, b2 = rng.normal(size=(2, 2)), rng.normal(size=2), rng.normal(size=(2, 1)), rng.normal(size=1)
    parameters = np.concatenate([w1.ravel(), b1, w2.ravel(), b2])
    widths = np.array([2, 2, 1])
    g = np.array([0.3, -2.0])
    activations, deltas, gradient = np.full(9, np.nan), np.full(9, np.nan), np.ones(9)

    scores = forward(features, 1, 3, widths, parameters, 0, activations)
    backward(features, 1, 3, widths, parameters, 0, activations, g, deltas, gradient)

    x = features[1:3].astype(np.float64)
    hidden = 1 / (1 + np.exp(-(x @ w1 + b1)))
    delta = g[:, None] * w2.T * hidden * (1 - hidden)
    np.testing.assert_allclose(scores, (hidden @ w2 + b2)[:, 0], rtol=1e-13)
    np.testing.assert_allclose(activations[:4].reshape(2, 2), hidden, rtol=1e-13)
    np.testing.assert_array_equal(activations[4:6], scores)
    assert np.isnan(activations[6:]).all()
    by_hand = np.concatenate([(x.T @ delta).ravel(), delta.sum(0), hidden.T @ g, [g.sum()]])
    # The gradient is added to what was there.
    np.testing.assert_allclose(gradient, 1 + by_hand, rtol=1e-13)
