"""The product of small matrices, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.kernels.matrix_product import add_product


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
# Each count of rows and columns below, at and above the edges of the tiles.
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 9, 15])
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
