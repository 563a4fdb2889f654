"""Means over the queries of a split."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.evaluation import MRR, NDCG, policy_metrics, ranking_metrics
from rankloop.types import Split

# Ranked by SCORES the first query has its relevant document second; the second query has none.
SPLIT = Split.build(np.zeros((5, 1)), labels=[0, 1, 0, 0, 0], sizes=[3, 2])
SCORES = np.array([3.0, 2.0, 1.0, 2.0, 1.0])


def test_ranking_means() -> None:
    means = ranking_metrics(SCORES, SPLIT, ["mrr", "mrr(no_relevant=one)", MRR(no_relevant="skip"), "arp"])
    assert means == {
        "mrr": (1 / 2 + 0) / 2,
        "mrr(no_relevant=one)": (1 / 2 + 1) / 2,
        "mrr(no_relevant=skip)": 1 / 2,
        "arp": 2.0,
    }


def test_policy_means() -> None:
    metrics = [NDCG(5), "arp", "mrr@1"]
    means = policy_metrics(SCORES, SPLIT, metrics)
    assert list(means) == ["ndcg@5", "arp", "mrr@1"]
    weights = np.exp([3.0, 2.0, 1.0])
    assert means["mrr@1"] == pytest.approx((weights[1] / weights.sum() + 0) / 2, rel=1e-6)
    ahead = weights / (weights + weights[1])
    assert means["arp"] == pytest.approx(1 + ahead[0] + ahead[2])
    assert means["ndcg@5"] == NDCG(5).of_policy(SCORES, SPLIT.labels, SPLIT.offsets).mean()


def test_keys_are_canonical_names_and_values_are_floats() -> None:
    means = ranking_metrics(SCORES, SPLIT, ["ndcg @ 5 (gain=linear)"])
    assert list(means) == ["ndcg@5"]
    assert type(means["ndcg@5"]) is float


def test_a_single_name_is_accepted() -> None:
    assert ranking_metrics(SCORES, SPLIT, "ndcg@5") == ranking_metrics(SCORES, SPLIT)


def test_nothing_to_average_is_an_error() -> None:
    with pytest.raises(DataError, match="'arp' has no mean: none of the 1 queries"):
        ranking_metrics(SCORES[3:], SPLIT.select([1]), ["arp"])
