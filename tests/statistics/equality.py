"""When two statistics are the same."""

from __future__ import annotations

import numpy as np

from rankloop.statistics import Statistics


def assert_same(a: Statistics, b: Statistics) -> None:
    """To the last bit, the order of the policies included."""
    assert list(a.policies) == list(b.policies)
    assert a.log_impressions == b.log_impressions
    for name in ("offsets", "displays_by_position", "clicks_by_position"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for mine, yours in zip(a.policies.values(), b.policies.values(), strict=True):
        for name in ("impressions_by_query", "clicks"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(yours, name))
        for name in ("alpha", "beta", "examination"):
            np.testing.assert_array_equal(getattr(mine.exposure, name), getattr(yours.exposure, name))
