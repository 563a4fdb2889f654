"""Layers of a network, against their equations."""

from __future__ import annotations

import numpy as np

from rankloop.kernels.network_layers import backward, forward


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
