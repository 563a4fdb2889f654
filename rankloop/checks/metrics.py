"""The contract of every metric."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np

from rankloop.checks.contract import (
    VALUE_CLAUSES,
    Clause,
    check_all,
    random_queries,
    require,
    require_refused,
    require_same,
    require_unchanged,
    rotate_within_queries,
)
from rankloop.errors import DataError
from rankloop.evaluation import Metric
from rankloop.types import Float64, Int64

# The accuracy that expectations under a policy promise.
EXACT = 1e-6
# Labels of documents: the highest is relevant for every metric.
MAX_LABEL = 4.0
NO_RELEVANT = {"zero": 0.0, "one": 1.0, "skip": np.nan}


@Clause
def gives_one_number_per_query(metric: Metric) -> None:
    """Both values are float64, one per query, and a query does not depend on the others."""
    scores, labels, offsets = random_queries(np.random.default_rng(0), [3, 1, 12, 2, 7], _highest(metric))
    labels[3] = 0.0  # the query of one document has no relevant one
    for values_of in (metric.of_ranking, metric.of_policy):
        together = values_of(scores, labels, offsets)
        require(together.shape == (5,), f"five queries have values of shape {together.shape}")
        require(together.dtype == np.float64, f"the values are {together.dtype}")
        alone = [values_of(scores[a:b], labels[a:b], [0, b - a])[0] for a, b in pairwise(offsets)]
        # Not to the last bit: quadrature nodes may lie elsewhere for another set of queries.
        require_same(together, alone, "queries together and alone", rtol=EXACT)


@Clause
def is_an_exact_expectation(metric: Metric) -> None:
    """The value of a policy is the sum over all rankings of their probability times their value."""
    rng = np.random.default_rng(0)
    for size in (1, 2, 3, 4, 5):
        for _ in range(3):
            scores, labels, offsets = random_queries(rng, [size], _highest(metric))
            labels[rng.integers(size)] = _highest(metric)
            expected = _enumerate(metric, scores, labels, offsets)
            actual = metric.of_policy(scores, labels, offsets)
            require_same(actual, expected, f"scores {scores}, labels {labels}", rtol=EXACT)


@Clause
def never_shows_excluded_documents(metric: Metric) -> None:
    """A document with the score -inf is never shown."""
    rng, highest = np.random.default_rng(0), _highest(metric)
    for excluded in ([0], [2], [1, 3], [0, 1, 2, 3]):
        scores, _, offsets = random_queries(rng, [5])
        scores[excluded] = -np.inf
        for grades in ([4, 0, 1, 0, 2], [0, 4, 0, 3, 0], [3, 1, 2, 4, 0]):
            labels = np.array(grades) * (highest / MAX_LABEL)
            expected = _enumerate(metric, scores, labels, offsets)
            actual = metric.of_policy(scores, labels, offsets)
            require_same(actual, expected, f"scores {scores}, labels {labels}", rtol=EXACT, atol=1e-12)


@Clause
def has_the_ranking_as_its_limit(metric: Metric) -> None:
    """The value of a policy with sharp scores is the value of the ranking by score."""
    rng, sizes = np.random.default_rng(0), [1, 4, 9, 20]
    _, labels, offsets = random_queries(rng, sizes, _highest(metric))
    # Scores differ by at least 1 within a query, so that 1,000 times them leaves nothing to chance.
    scores = np.concatenate([rng.permutation(size).astype(float) for size in sizes])
    labels[0] = _highest(metric)
    sharp = metric.of_policy(1000 * scores, labels, offsets)
    require_same(
        sharp, metric.of_ranking(scores, labels, offsets), "a sharp policy and its ranking", rtol=EXACT
    )


@Clause
def ignores_constants(metric: Metric) -> None:
    """A constant added to all scores of a query changes nothing."""
    scores, labels, offsets = random_queries(np.random.default_rng(0), [4, 6], _highest(metric))
    shifted = scores + np.repeat([300.0, -300.0], [4, 6])
    for values_of in (metric.of_ranking, metric.of_policy):
        actual, expected = values_of(shifted, labels, offsets), values_of(scores, labels, offsets)
        require_same(actual, expected, "values with shifted scores", rtol=EXACT)


@Clause
def ignores_the_order_of_documents(metric: Metric) -> None:
    """Documents with different scores may be listed in any order."""
    scores, labels, offsets = random_queries(np.random.default_rng(0), [4, 6, 1, 9], _highest(metric))
    order = rotate_within_queries(offsets)
    for values_of in (metric.of_ranking, metric.of_policy):
        actual = values_of(scores[order], labels[order], offsets)
        require_same(actual, values_of(scores, labels, offsets), "documents in another order", rtol=EXACT)


@Clause
def breaks_ties_by_position(metric: Metric) -> None:
    """Documents with equal scores are ranked in the order in which they are listed."""
    labels, offsets = np.array([0.0, 3.0, 0.0, 4.0]) * (_highest(metric) / MAX_LABEL), np.array([0, 4])
    tied = metric.of_ranking(np.zeros(4), labels, offsets)
    require_same(tied, metric.of_ranking([4, 3, 2, 1], labels, offsets), "equal and descending scores")


@Clause
def is_best_at_the_ideal_ranking(metric: Metric) -> None:
    """Of all rankings of a query, the one by descending label has the best value, and not all are equal."""
    # Six documents, so that a cut-off of 5 leaves one out: every ranking is a separate query.
    labels = np.array([0.0, 3.0, 1.0, 4.0, 0.0, 3.0]) * (_highest(metric) / MAX_LABEL)
    rankings = np.array(list(permutations(range(6))))
    offsets = np.arange(0, rankings.size + 1, 6)
    values = metric.of_ranking(rankings.ravel(), np.tile(labels, len(rankings)), offsets)
    best = values.max() if metric.higher_is_better else values.min()
    require_same(
        metric.of_ranking(labels, labels, [0, 6]), [best], "the ideal and the best value", rtol=1e-12
    )
    require(values.min() < values.max(), "all rankings have the same value")


@Clause
def decides_about_queries_without_relevance(metric: Metric) -> None:
    """A query without a relevant document has the value that ``no_relevant`` says."""
    chosen, highest = NO_RELEVANT[metric.no_relevant], _highest(metric)
    for values_of in (metric.of_ranking, metric.of_policy):
        values = values_of([1.0, 2.0, 1.0, 2.0], [0.0, 0.0, highest, 0.0], [0, 2, 4])
        require_same(values[0], chosen, f"a query without a relevant document, {metric.no_relevant}")
        require(values[1] > 0.0 and np.isfinite(values[1]), f"a query with a relevant one has {values[1]}")


@Clause
def leaves_its_inputs_alone(metric: Metric) -> None:
    """Scores, labels and offsets are not changed."""
    scores, labels, offsets = random_queries(np.random.default_rng(0), [4, 6], _highest(metric))
    given = {"scores": scores, "labels": labels, "offsets": offsets}
    before = {name: array.copy() for name, array in given.items()}
    for values_of in (metric.of_ranking, metric.of_policy):
        values_of(**given)
        require_unchanged(given, before)


@Clause
def refuses_bad_input(metric: Metric) -> None:
    """NaN, infinite scores, negative labels, and queries without documents are refused with DataError."""
    bad: list[tuple[str, list[float], list[float], list[int]]] = [
        ("a score that is NaN", [1.0, np.nan, 1.0], [1, 0, 2], [0, 1, 3]),
        ("a score that is +inf", [1.0, 1.0, np.inf], [1, 0, 2], [0, 1, 3]),
        ("a negative label", [1.0, 1.0, 1.0], [1, 0, -1], [0, 1, 3]),
        ("a label that is NaN", [1.0, 1.0, 1.0], [1, np.nan, 1], [0, 1, 3]),
        ("a query without a document to show", [1.0, -np.inf, -np.inf], [1, 0, 2], [0, 1, 3]),
        ("two scores for three labels", [1.0, 1.0], [1, 0, 2], [0, 1, 3]),
        ("offsets that end early", [1.0, 1.0, 1.0], [1, 0, 2], [0, 1, 2]),
        ("a query without documents", [1.0, 1.0, 1.0], [1, 0, 2], [0, 3, 3]),
    ]
    for what, scores, labels, offsets in bad:
        require_refused(DataError, what, metric.of_ranking, scores, labels, offsets)
        require_refused(DataError, what, metric.of_policy, scores, labels, offsets)


METRIC_CLAUSES: tuple[Clause[Any], ...] = (
    *VALUE_CLAUSES,
    gives_one_number_per_query,
    is_an_exact_expectation,
    never_shows_excluded_documents,
    has_the_ranking_as_its_limit,
    ignores_constants,
    ignores_the_order_of_documents,
    breaks_ties_by_position,
    is_best_at_the_ideal_ranking,
    decides_about_queries_without_relevance,
    leaves_its_inputs_alone,
    refuses_bad_input,
)


def check_metric(metric: Metric) -> None:
    """Check that a metric keeps the contract of `rankloop.evaluation.Metric`.

    Labels run from 0 to 4, or to the metric's own ``max_label``.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.evaluation import NDCG
        >>> check_metric(NDCG(cutoff=3))
    """
    check_all(metric, METRIC_CLAUSES)


def _highest(metric: Metric) -> float:
    return float(min(MAX_LABEL, getattr(metric, "max_label", MAX_LABEL)))


def _enumerate(metric: Metric, scores: Float64, labels: Float64, offsets: Int64) -> Float64:
    """The expected metric of a policy for one query, as a sum over every ranking of the shown documents."""
    total = np.zeros(1)
    for ranking in permutations(np.flatnonzero(np.isfinite(scores))):
        weights = np.exp(scores[list(ranking)])
        left = weights[::-1].cumsum()[::-1]
        as_scores = np.full(len(scores), -np.inf)
        as_scores[list(ranking)] = -np.arange(len(ranking))
        total += np.prod(weights / left) * metric.of_ranking(as_scores, labels, offsets)
    return total
