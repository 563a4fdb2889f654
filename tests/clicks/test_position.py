"""Users without trust bias."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.clicks import PositionUsers


@pytest.mark.parametrize(
    ("eta", "expected"), [(0.0, [1, 1, 1]), (1.0, [1, 1 / 2, 1 / 3]), (2.0, [1, 1 / 4, 1 / 9])]
)
def test_users_click_the_relevant_documents_they_examine(eta: float, expected: list[float]) -> None:
    bias = PositionUsers(3, eta=eta).bias
    np.testing.assert_allclose(bias.alpha, expected, rtol=1e-13)
    assert bias.examination.tolist() == bias.alpha.tolist()
    assert bias.beta.tolist() == [0, 0, 0]
