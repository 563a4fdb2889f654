"""The scores that generated labels bound what any ranker reaches."""

from __future__ import annotations

import numpy as np

from rankloop.data.by_name import GENERATED_DATA
from rankloop.data.synthetic import noise_free_scores, synthetic
from rankloop.evaluation import ranking_metrics


def test_without_noise_they_rank_as_labels_do() -> None:
    for shape, seed in (("yahoo", 0), ("mslr", 7)):
        data = synthetic(shape, queries=60, features=12, noise=0.0, seed=seed)
        scores = noise_free_scores(data.test.features, shape, seed=seed)
        by_labels = ranking_metrics(data.test.labels, data.test, ["ndcg@5"])
        assert ranking_metrics(scores, data.test, ["ndcg@5"]) == by_labels


def test_with_noise_the_documents_are_the_same_and_labels_rank_better() -> None:
    noisy, exact = (synthetic(queries=60, features=12, noise=noise, seed=5) for noise in (0.8, 0.0))
    assert np.array_equal(noisy.test.features, exact.test.features)
    named = GENERATED_DATA.parse("synthetic(queries=60, features=12, seed=5)")
    scores = named.noise_free_scores(noisy.test.features)
    assert scores is not None
    assert np.array_equal(scores, noise_free_scores(exact.test.features, seed=5))
    sorted_by = [ranking_metrics(by, noisy.test, ["ndcg@5"])["ndcg@5"] for by in (scores, noisy.test.labels)]
    assert 0.5 < sorted_by[0] < sorted_by[1]
