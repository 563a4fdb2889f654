"""Activations, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.kernels.activations import ACTIVATIONS, activate


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
        activate(values, code)
        tolerance = units[name] * np.finfo(dtype).eps
        np.testing.assert_allclose(values, expected[name], rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("code", range(len(ACTIVATIONS)))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_nan_is_not_swallowed_by_an_activation(code: int, dtype: type) -> None:
    values = np.full(20, np.nan, dtype)
    activate(values, code)
    assert np.isnan(values).all()
