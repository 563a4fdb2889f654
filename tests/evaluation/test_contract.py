"""The contract of every metric: names, shapes, exact expectations, limits, invalid input."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from rankloop.errors import DataError, RankloopError
from rankloop.evaluation import ARP, METRICS, Metric, metric

# Every metric, with and without its cut-off and options. A metric added to METRICS must be added here.
NAMES = [
    "arp",
    "arp(gain=exponential)",
    "dcg",
    "dcg@3",
    "dcg@5(gain=exponential)",
    "dcg@5(no_relevant=skip)",
    "mrr",
    "mrr@2",
    "mrr@5(no_relevant=one, relevant_from=2)",
    "ndcg",
    "ndcg@3",
    "ndcg@5(gain=exponential, no_relevant=skip)",
    "nrctr@2",
    "nrctr@5(no_relevant=one)",
    "precision@2",
    "precision@5(relevant_from=3)",
    "rctr@2",
    "rctr@5(max_label=5)",
]
# The stated precision of expectations; the limit of large scores has the same precision.
RELATIVE = 1e-6

every_metric = pytest.mark.parametrize("m", [metric(name) for name in NAMES], ids=str)


def enumerated(
    m: Metric, scores: NDArray[np.float64], labels: NDArray[np.float64], offsets: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The expected metric of a one-query policy, as a sum over every ranking of the shown documents."""
    shown = np.flatnonzero(np.isfinite(scores))
    total = np.zeros(1)
    for ranking in permutations(shown):
        weights = np.exp(scores[list(ranking)])
        left = weights[::-1].cumsum()[::-1]
        as_scores = np.full(len(scores), -np.inf)
        as_scores[list(ranking)] = -np.arange(len(ranking))
        total += np.prod(weights / left) * m.of_ranking(as_scores, labels, offsets)
    return total


def random_split(
    rng: np.random.Generator, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return rng.normal(scale=1.5, size=offsets[-1]), rng.integers(0, 5, offsets[-1]).astype(float), offsets


def test_every_metric_is_covered() -> None:
    assert {name.partition("@")[0].partition("(")[0] for name in NAMES} == set(METRICS)


@every_metric
def test_a_metric_round_trips_through_its_name(m: Metric) -> None:
    assert str(m) in NAMES
    assert metric(str(m)) == m
    assert hash(metric(str(m))) == hash(m)


@every_metric
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_policy_value_is_the_sum_over_all_rankings(
    m: Metric, size: int, rng: np.random.Generator
) -> None:
    for _ in range(3):
        scores, labels, offsets = random_split(rng, np.array([size]))
        labels[rng.integers(size)] = 4.0
        np.testing.assert_allclose(
            m.of_policy(scores, labels, offsets), enumerated(m, scores, labels, offsets), rtol=RELATIVE
        )


@every_metric
@pytest.mark.parametrize("excluded", [[0], [2], [1, 3], [0, 1, 2, 3]])
def test_excluded_documents_are_never_shown(m: Metric, excluded: list[int], rng: np.random.Generator) -> None:
    scores, _, offsets = random_split(rng, np.array([5]))
    scores[excluded] = -np.inf
    for labels in np.array([[4, 0, 1, 0, 2], [0, 4, 0, 3, 0], [3, 1, 2, 4, 0]], dtype=float):
        np.testing.assert_allclose(
            m.of_policy(scores, labels, offsets),
            enumerated(m, scores, labels, offsets),
            rtol=RELATIVE,
            atol=1e-12,
        )


@every_metric
def test_queries_are_independent(m: Metric, rng: np.random.Generator) -> None:
    sizes = np.array([3, 1, 12, 2, 7])
    scores, labels, offsets = random_split(rng, sizes)
    labels[3] = 0.0  # the query of one document has no relevant one
    for values_of in (m.of_ranking, m.of_policy):
        together = values_of(scores, labels, offsets)
        alone = [values_of(scores[a:b], labels[a:b], [0, b - a])[0] for a, b in pairwise(offsets)]
        assert together.shape == (5,)
        assert together.dtype == np.float64
        # Not to the last bit: quadrature nodes may lie elsewhere for another set of queries.
        np.testing.assert_allclose(together, alone, rtol=RELATIVE)


@every_metric
def test_the_policy_becomes_a_ranking_for_large_scores(m: Metric, rng: np.random.Generator) -> None:
    sizes = np.array([1, 4, 9, 20])
    scores, labels, offsets = random_split(rng, sizes)
    # Scores differ by at least 1 within a query, so that the policy with 1,000 times these scores is
    # deterministic.
    scores = np.concatenate([rng.permutation(size).astype(float) for size in sizes])
    labels[0] = 4.0
    np.testing.assert_allclose(
        m.of_policy(1000 * scores, labels, offsets), m.of_ranking(scores, labels, offsets), rtol=RELATIVE
    )


@every_metric
def test_a_constant_added_to_a_query_changes_nothing(m: Metric, rng: np.random.Generator) -> None:
    scores, labels, offsets = random_split(rng, np.array([4, 6]))
    shifted = scores + np.repeat([300.0, -300.0], [4, 6])
    np.testing.assert_allclose(
        m.of_policy(shifted, labels, offsets), m.of_policy(scores, labels, offsets), rtol=RELATIVE
    )


@every_metric
def test_the_ideal_ranking_is_the_best(m: Metric) -> None:
    # Six documents, one more than the largest cut-off: every ranking is a separate query.
    labels = np.array([0.0, 3.0, 1.0, 4.0, 0.0, 3.0])
    rankings = np.array(list(permutations(range(6))))
    offsets = np.arange(0, rankings.size + 1, 6)
    values = m.of_ranking(rankings.ravel(), np.tile(labels, len(rankings)), offsets)
    best = values.max() if m.higher_is_better else values.min()
    assert m.of_ranking(labels, labels, [0, 6]) == pytest.approx(best, rel=1e-12)
    assert values.min() < values.max()


@every_metric
def test_equal_scores_keep_document_order(m: Metric) -> None:
    labels, offsets = np.array([0.0, 3.0, 0.0, 4.0]), np.array([0, 4])
    np.testing.assert_array_equal(
        m.of_ranking(np.zeros(4), labels, offsets), m.of_ranking([4, 3, 2, 1], labels, offsets)
    )


@every_metric
def test_a_query_without_a_relevant_document_has_the_chosen_value(m: Metric) -> None:
    chosen = {"zero": 0.0, "one": 1.0, "skip": np.nan}[m.no_relevant]
    for values_of in (m.of_ranking, m.of_policy):
        values = values_of([1.0, 2.0, 1.0, 2.0], [0.0, 0.0, 4.0, 0.0], [0, 2, 4])
        np.testing.assert_array_equal(values[0], chosen)
        assert values[1] > 0.0
        assert np.isfinite(values[1])


@every_metric
def test_inputs_are_not_modified(m: Metric, rng: np.random.Generator) -> None:
    scores, labels, offsets = random_split(rng, np.array([4, 6]))
    before = scores.copy(), labels.copy(), offsets.copy()
    m.of_ranking(scores, labels, offsets)
    m.of_policy(scores, labels, offsets)
    for array, copy in zip((scores, labels, offsets), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@every_metric
@pytest.mark.parametrize(
    ("scores", "labels", "offsets", "message"),
    [
        ([1.0, np.nan, 1.0], [1, 0, 2], [0, 1, 3], "query number 1, document 0: a score that is NaN"),
        ([1.0, 1.0, np.inf], [1, 0, 2], [0, 1, 3], "query number 1, document 1: a score that is NaN or"),
        ([1.0, 1.0, 1.0], [1, 0, -1], [0, 1, 3], "query number 1, document 1: a label that is not"),
        ([1.0, 1.0, 1.0], [1, np.nan, 1], [0, 1, 3], "query number 1, document 0: a label that is not"),
        ([1.0, -np.inf, -np.inf], [1, 0, 2], [0, 1, 3], "query number 1: every document has the score -inf"),
        ([1.0, 1.0], [1, 0, 2], [0, 1, 3], r"got shapes \(2,\) and \(3,\)"),
        ([1.0, 1.0, 1.0], [1, 0, 2], [0, 1, 2], "offsets must be"),
        ([1.0, 1.0, 1.0], [1, 0, 2], [0, 3, 3], "query number 1 has no documents"),
    ],
)
def test_invalid_input_is_rejected_with_its_location(
    m: Metric, scores: list[float], labels: list[float], offsets: list[int], message: str
) -> None:
    for values_of in (m.of_ranking, m.of_policy):
        with pytest.raises(DataError, match=message):
            values_of(scores, labels, offsets)


BAD_OPTIONS = [
    ("cutoff", 0),
    ("cutoff", 2.5),
    ("gain", "quadratic"),
    ("no_relevant", "nan"),
    ("relevant_from", 0.0),
    ("max_label", -1.0),
    ("max_label", float("nan")),
]


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        (kind, option, value)
        for kind in METRICS.values()
        for option, value in BAD_OPTIONS
        if option in {field.name for field in fields(kind)}  # type: ignore[arg-type]
    ],
)
def test_invalid_options_are_rejected(kind: type[Metric], option: str, value: object) -> None:
    good = {} if kind is ARP else {"cutoff": 5}
    with pytest.raises(RankloopError, match=f"'{option}' of the metric '{kind.name}'"):
        kind(**(good | {option: value}))
