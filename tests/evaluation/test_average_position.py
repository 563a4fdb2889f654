"""Hand calculations for the average relevance position and expected ranks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rankloop import ragged
from rankloop.evaluation import ARP
from rankloop.evaluation.average_position import expected_ranks


def test_ranking() -> None:
    values = ARP().of_ranking([1.0, 3.0, 2.0], [3.0, 1.0, 0.0], [0, 3])
    assert values == pytest.approx((3 * 3 + 1 * 1) / (3 + 1))


def test_exponential_gain() -> None:
    values = ARP(gain="exponential").of_ranking([1.0, 3.0, 2.0], [3.0, 1.0, 0.0], [0, 3])
    assert values == pytest.approx((7 * 3 + 1 * 1) / (7 + 1))


def test_policy() -> None:
    # Weights 1, 2 and 6: each other document is ahead with its share of the two weights.
    ranks = expected_ranks(np.log([1.0, 2.0, 6.0]), np.array([0, 3]))
    expected = [1 + 2 / 3 + 6 / 7, 1 + 1 / 3 + 6 / 8, 1 + 1 / 7 + 2 / 8]
    np.testing.assert_allclose(ranks, expected, rtol=1e-12)
    value = ARP().of_policy(np.log([1.0, 2.0, 6.0]), [1.0, 2.0, 0.0], [0, 3])
    assert value == pytest.approx((1 * expected[0] + 2 * expected[1]) / 3)


def test_excluded_documents_come_last_in_document_order() -> None:
    scores = np.array([-np.inf, 0.0, -np.inf, 0.0])
    np.testing.assert_array_equal(expected_ranks(scores, np.array([0, 4])), [3.0, 1.5, 4.0, 1.5])
    assert ARP().of_ranking(scores, [1.0, 0.0, 0.0, 0.0], [0, 4]) == [3.0]


def test_expected_ranks_of_many_queries(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    # Enough rows for several chunks: the result must not depend on how work is divided between threads.
    monkeypatch.setenv(ragged.THREADS_VARIABLE, "3")
    offsets = ragged.offsets_of(rng.integers(1, 40, 500))
    assert offsets[-1] > 2 * ragged.ROWS_PER_CHUNK
    scores = rng.normal(scale=20.0, size=offsets[-1])
    ranks = expected_ranks(scores, offsets)
    for a, b in itertools.pairwise(offsets):
        ahead = 1 / (1 + np.exp(scores[a:b, None] - scores[None, a:b]))
        np.testing.assert_allclose(ranks[a:b], 1 + ahead.sum(axis=1) - 1 / 2, rtol=1e-12)


def test_lower_is_better() -> None:
    assert not ARP().higher_is_better
