"""The contract of every estimator."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.checks.contract import (
    OFFSETS,
    SIZES,
    VALUE_CLAUSES,
    Clause,
    check_all,
    random_log,
    require,
    require_refused,
    require_same,
    rotate_within_queries,
)
from rankloop.clicks import PaperUsers
from rankloop.errors import DataError
from rankloop.estimators import Estimator
from rankloop.statistics import Exposure, PolicyStatistics, Statistics

BIAS = PaperUsers(3).bias
N_DOCUMENTS = int(OFFSETS[-1])
# Sums of at most a few thousand terms of order 1.
CLOSE = 1e-12


@Clause
def weighs_every_document(estimator: Estimator) -> None:
    """Weights are finite float64 numbers, one per document, and clicks make some of them differ from 0."""
    weights = estimator.weights(_statistics(), BIAS)
    require(isinstance(weights, np.ndarray), f"the weights are a {type(weights).__name__}")
    require(weights.shape == (N_DOCUMENTS,), f"{N_DOCUMENTS} documents have weights of shape {weights.shape}")
    require(weights.dtype == np.float64, f"the weights are {weights.dtype}")
    require(np.isfinite(weights).all(), f"the weights are {weights}")
    require((weights != 0.0).any(), "all weights are 0")


@Clause
def is_pure(estimator: Estimator) -> None:
    """Weights depend on the arguments alone, are a new array, and leave the arguments as they were."""
    given, untouched = _statistics(), _statistics()
    first = estimator.weights(given, BIAS)
    kept = first.copy()
    first += 1.0
    require_same(estimator.weights(given, BIAS), kept, "the second call on the same log")
    for name in ("offsets", "displays_by_position", "clicks_by_position", "log_impressions"):
        require_same(getattr(given, name), getattr(untouched, name), f"the call changes its input {name}")


@Clause
def repeats_itself(estimator: Estimator) -> None:
    """Without clipping, a log that is repeated has the same weights: they are means over impressions."""
    once, unclipped = _statistics(), estimator.unclipped
    twice = unclipped.weights(once + once, BIAS)
    require_same(twice, unclipped.weights(once, BIAS), "the log twice and once", rtol=CLOSE, atol=CLOSE)


@Clause
def adds_in_any_order(estimator: Estimator) -> None:
    """Of two logs, it does not matter which is added to which."""
    a, b = _statistics(1), _rename(_statistics(2))
    forth, back = estimator.weights(a + b, BIAS), estimator.weights(b + a, BIAS)
    require_same(forth, back, "weights of a + b and of b + a", rtol=CLOSE, atol=CLOSE)


@Clause
def ignores_idle_policies(estimator: Estimator) -> None:
    """A policy that has not logged yet changes nothing."""
    zeros = np.zeros((N_DOCUMENTS, BIAS.positions), np.int64)
    scores = np.random.default_rng(3).normal(size=N_DOCUMENTS)
    idle = Statistics.of_policy(
        "idle",
        OFFSETS,
        Exposure.of_scores(scores, OFFSETS, BIAS),
        impressions_by_query=np.zeros(len(SIZES), np.int64),
        displays_by_position=zeros,
        clicks_by_position=zeros,
    )
    with_idle = estimator.weights(_statistics() + idle, BIAS)
    require_same(with_idle, estimator.weights(_statistics(), BIAS), "weights with and without an idle policy")


@Clause
def learns_nothing_from_nothing(estimator: Estimator) -> None:
    """A document that is never shown has the weight 0."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=N_DOCUMENTS)
    hidden = [1, 6]
    scores[hidden] = -np.inf
    weights = estimator.weights(random_log(rng, BIAS, "a", scores), BIAS)
    require_same(weights[hidden], np.zeros(2), "weights of documents that are never shown")


@Clause
def stays_finite(estimator: Estimator) -> None:
    """Weights are finite however small the exposure of a document is."""
    rng = np.random.default_rng(0)
    weights = estimator.weights(random_log(rng, BIAS, "a", 300 * rng.normal(size=N_DOCUMENTS)), BIAS)
    require(np.isfinite(weights).all(), f"the weights are {weights}")


@Clause
def follows_the_documents(estimator: Estimator) -> None:
    """If the documents of a query change places, their weights change places with them."""
    given = _statistics()
    order = rotate_within_queries(OFFSETS)
    moved = Statistics(
        given.offsets,
        {
            policy: PolicyStatistics(each.impressions_by_query, each.clicks[order], each.exposure[order])
            for policy, each in given.policies.items()
        },
        given.displays_by_position[order],
        given.clicks_by_position[order],
        given.log_impressions,
    )
    expected = estimator.weights(given, BIAS)[order]
    require_same(
        estimator.weights(moved, BIAS), expected, "weights of moved documents", rtol=CLOSE, atol=CLOSE
    )


@Clause
def unclips_once(estimator: Estimator) -> None:
    """`unclipped` is an estimator of the same class, and is its own `unclipped`."""
    unclipped = estimator.unclipped
    require(type(unclipped) is type(estimator), f"it is a {type(unclipped).__name__}")
    require(unclipped.unclipped == unclipped, f"{unclipped} becomes {unclipped.unclipped}")


@Clause
def refuses_what_cannot_be_estimated(estimator: Estimator) -> None:
    """A log of no impressions, and a bias of another number of ranks, are refused with DataError."""
    other = PaperUsers(2).bias
    require_refused(DataError, "two ranks for three", estimator.weights, _statistics(), other)
    empty = Statistics.empty(OFFSETS, BIAS.positions)
    require_refused(DataError, "a log of no impressions", estimator.weights, empty, BIAS)


ESTIMATOR_CLAUSES: tuple[Clause[Any], ...] = (
    *VALUE_CLAUSES,
    weighs_every_document,
    is_pure,
    repeats_itself,
    adds_in_any_order,
    ignores_idle_policies,
    learns_nothing_from_nothing,
    stays_finite,
    follows_the_documents,
    unclips_once,
    refuses_what_cannot_be_estimated,
)


def check_estimator(estimator: Estimator) -> None:
    """Check that an estimator keeps the contract of `rankloop.estimators.Estimator`.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.estimators import IPS
        >>> check_estimator(IPS(clip=0.1))
    """
    check_all(estimator, ESTIMATOR_CLAUSES)


def _statistics(seed: int = 0) -> Statistics:
    rng = np.random.default_rng(seed)
    first = random_log(rng, BIAS, "a", rng.normal(size=N_DOCUMENTS))
    return first + random_log(rng, BIAS, "b", 2 * rng.normal(size=N_DOCUMENTS), impressions=900)


def _rename(statistics: Statistics) -> Statistics:
    """The same log under policies of other names, as another system would have written it."""
    policies = {f"other {policy}": each for policy, each in statistics.policies.items()}
    return Statistics(
        statistics.offsets,
        policies,
        statistics.displays_by_position,
        statistics.clicks_by_position,
        statistics.log_impressions,
    )
