"""Hand calculations for the metrics that add up over documents."""

from __future__ import annotations

import numpy as np
import pytest
from numpy import log2

from rankloop.errors import DataError, RankloopError
from rankloop.evaluation import DCG, NDCG, NRCTR, RCTR, Precision
from rankloop.rank_weights import relevant_clicks

# One query, shown in the order of its documents.
SCORES, OFFSETS = [3.0, 2.0, 1.0], [0, 3]
LABELS = [1.0, 0.0, 3.0]


def test_dcg() -> None:
    assert DCG().of_ranking(SCORES, LABELS, OFFSETS) == pytest.approx(1 / log2(2) + 3 / log2(4))
    assert DCG(cutoff=2).of_ranking(SCORES, LABELS, OFFSETS) == pytest.approx(1 / log2(2))


def test_dcg_exponential() -> None:
    value = DCG(gain="exponential").of_ranking(SCORES, LABELS, OFFSETS)
    assert value == pytest.approx((2**1 - 1) / log2(2) + (2**3 - 1) / log2(4))


def test_ndcg() -> None:
    ideal = 3 / log2(2) + 1 / log2(3)
    assert NDCG().of_ranking(SCORES, LABELS, OFFSETS) == pytest.approx((1 + 3 / 2) / ideal)
    assert NDCG(cutoff=1).of_ranking(SCORES, LABELS, OFFSETS) == pytest.approx(1 / 3)


def test_ndcg_of_a_policy_of_two() -> None:
    # The relevant document comes first with probability 3 / (3 + 1).
    value = NDCG().of_policy(np.log([1.0, 3.0]), [0.0, 1.0], [0, 2])
    assert value == pytest.approx(3 / 4 * 1 + 1 / 4 / log2(3), rel=1e-6)


def test_precision_counts_missing_ranks() -> None:
    assert Precision(cutoff=5).of_ranking(SCORES, LABELS, OFFSETS) == pytest.approx(2 / 5)
    assert Precision(cutoff=5).of_policy(SCORES, LABELS, OFFSETS) == pytest.approx(2 / 5, rel=1e-6)
    assert Precision(cutoff=1, relevant_from=2).of_ranking(SCORES, LABELS, OFFSETS) == [0.0]


def test_rctr_is_the_expected_number_of_clicks_on_relevant_documents() -> None:
    first, _, third = relevant_clicks(3)
    value = RCTR(cutoff=5).of_ranking(SCORES, LABELS, OFFSETS)
    assert value == pytest.approx(1 / 4 * first + 3 / 4 * third)
    value = RCTR(cutoff=5, max_label=3).of_ranking(SCORES, LABELS, OFFSETS)
    assert value == pytest.approx(1 / 3 * first + 3 / 3 * third)
    assert RCTR(cutoff=2).of_ranking(SCORES, LABELS, OFFSETS) == pytest.approx(1 / 4 * first)


def test_rctr_rejects_labels_above_the_highest_grade() -> None:
    with pytest.raises(DataError, match=r"a label of 5 .* 'rctr@5', 4: .*rctr@5\(max_label=…\)"):
        RCTR(cutoff=5).of_ranking([1.0], [5.0], [0, 1])


def test_nrctr() -> None:
    first, second, third = relevant_clicks(3)
    value = NRCTR(cutoff=5).of_ranking(SCORES, LABELS, OFFSETS)
    assert value == pytest.approx((1 * first + 3 * third) / (3 * first + 1 * second))


def test_the_ideal_ranking_may_show_excluded_documents() -> None:
    # The policy chose not to show the only relevant document, so its value is 0.
    scores = [0.0, -np.inf]
    assert NDCG().of_ranking(scores, [0.0, 1.0], [0, 2]) == [0.0]
    assert NDCG().of_policy(scores, [0.0, 1.0], [0, 2]) == [0.0]


@pytest.mark.parametrize("kind", [DCG, RCTR])
def test_metrics_without_a_maximum_of_one_reject_one(kind: type) -> None:
    with pytest.raises(RankloopError, match="unknown value 'one'; there are: skip, zero"):
        kind(cutoff=5, no_relevant="one")
