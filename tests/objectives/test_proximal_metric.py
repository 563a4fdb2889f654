"""The proximal metric: its formula by enumeration, its gradient by finite differences, and what it bounds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.objectives import expected_metric, proximal_metric
from rankloop.policies import expected_rank_weights
from tests.enumeration import marginals

OFFSETS = np.array([0, 4, 5, 9])
THETA = np.array([1.0, 0.6, 0.3])


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, weights of both signs, and the exposure of a policy near by."""
    rng = np.random.default_rng(seed)
    scores, weights = rng.normal(size=9), rng.normal(size=9)
    return scores, weights, expected_rank_weights(scores + rng.normal(size=9), OFFSETS, THETA)


def by_formula(scores: np.ndarray, weights: np.ndarray, anchor: np.ndarray, width: float) -> np.ndarray:
    """Σ_d min(ρ r, clip(ρ, 1 − ε, 1 + ε) r) λ_0 with marginals from listing all rankings."""
    values = []
    for a, b in pairwise(OFFSETS):
        ratio = marginals(scores[a:b], 3) @ THETA / anchor[a:b]
        kept = np.minimum(ratio * weights[a:b], np.clip(ratio, 1 - width, 1 + width) * weights[a:b])
        values.append(kept @ anchor[a:b])
    return np.array(values)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("width", [0.0, 0.1, 0.5])
def test_value_is_the_formula(seed: int, width: float) -> None:
    scores, weights, anchor = problem(seed)
    found = proximal_metric(scores, OFFSETS, weights, THETA, anchor=anchor, width=width)
    np.testing.assert_allclose(found.values, by_formula(scores, weights, anchor, width), atol=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_gradient_is_that_of_the_value(seed: int) -> None:
    scores, weights, anchor = problem(seed)
    found = proximal_metric(scores, OFFSETS, weights, THETA, anchor=anchor, width=0.05)
    free = expected_metric(scores, OFFSETS, weights, THETA)
    assert np.abs(found.gradient - free.gradient).max() > 1e-3  # some documents have left the trust region
    step = 1e-4
    for d in range(len(scores)):
        moved = np.tile(scores, (2, 1))
        moved[0, d] += step
        moved[1, d] -= step
        up, down = (
            proximal_metric(s, OFFSETS, weights, THETA, anchor=anchor, width=0.05).value for s in moved
        )
        assert found.gradient[d] == pytest.approx((up - down) / (2 * step), abs=2e-6)


def test_infinite_width_is_the_expected_metric() -> None:
    scores, weights, anchor = problem(0)
    scores[2], anchor[2] = -np.inf, 0.0
    found = proximal_metric(scores, OFFSETS, weights, THETA, anchor=anchor, width=np.inf)
    free = expected_metric(scores, OFFSETS, weights, THETA)
    np.testing.assert_allclose(found.values, free.values, atol=1e-12)
    np.testing.assert_allclose(found.gradient, free.gradient, atol=1e-12)


def test_ascent_leaves_most_exposure_where_it_was() -> None:
    """Many small steps: what the plain metric takes away from a document almost whole, this one leaves.

    It is not a hard bound: a document that has left the trust region still moves with the others of its
    query.
    """
    scores, weights, _ = problem(1)
    anchor, width = expected_rank_weights(scores, OFFSETS, THETA), 0.2
    for _ in range(2_000):
        found = proximal_metric(scores, OFFSETS, weights, THETA, anchor=anchor, width=width)
        scores = scores + 0.01 * found.gradient
    plain = problem(1)[0]
    for _ in range(2_000):
        plain = plain + 0.01 * expected_metric(plain, OFFSETS, weights, THETA).gradient
    worst = [(expected_rank_weights(s, OFFSETS, THETA) / anchor)[weights < 0].min() for s in (scores, plain)]
    assert worst[0] > 0.6
    assert worst[1] < worst[0] / 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"width": -0.1}, "at least 0"),
        ({"width": np.nan}, "at least 0"),
        ({"anchor": np.ones(3)}, "9 documents"),
        ({"anchor": -np.ones(9)}, "none negative"),
        ({"rank_weights": [1.0, -0.5]}, "none negative"),
    ],
)
def test_bad_input_is_refused(change: dict[str, object], words: str) -> None:
    scores, weights, anchor = problem(0)
    arguments: dict[str, object] = {"rank_weights": THETA, "anchor": anchor, "width": 0.1, **change}
    with pytest.raises(DataError, match=words):
        proximal_metric(scores, OFFSETS, weights, **arguments)  # type: ignore[arg-type]
