"""The objectives that networks are trained on, by number: one query, and all queries of a range."""

from __future__ import annotations

import numpy as np

from rankloop.kernels.expectations import gradient_workspace, metric_of_query
from rankloop.kernels.jit import kernel
from rankloop.kernels.metric_gradient import SEVERAL_RANKS, metric_gradient
from rankloop.kernels.pairs import linear_of_query, logistic_of_query, softmax_of_query
from rankloop.kernels.query_sizes import longest_query

OBJECTIVES = ("expected-metric", "linear", "pairwise-logistic", "softmax")
EXPECTED_METRIC, LINEAR, PAIRWISE_LOGISTIC, SOFTMAX = range(len(OBJECTIVES))


@kernel
def objective_of_query(objective, scores, document_weights, rank_weights, work, gradient, unused):
    """The value of the objective of this number, and its gradient by the scores, which must be finite."""
    if objective == LINEAR:
        return linear_of_query(scores, document_weights, gradient)
    if objective == PAIRWISE_LOGISTIC:
        return logistic_of_query(scores, document_weights, gradient)
    if objective == SOFTMAX:
        return softmax_of_query(scores, document_weights, gradient)
    return metric_of_query(scores, document_weights, rank_weights, work, gradient, unused, unused)


@kernel
def gradient_of_query(
    objective, scores, document_weights, rank_weights, work, scratch, slopes, gradient, unused
):
    """The gradient alone; scratch and slopes are from `metric_gradient.gradient_scratch`."""
    if objective == EXPECTED_METRIC and len(rank_weights) <= SEVERAL_RANKS:
        metric_gradient(scores, document_weights, rank_weights, work.race, scratch, slopes, gradient)
    else:
        objective_of_query(objective, scores, document_weights, rank_weights, work, gradient, unused)


@kernel
def objective_of_queries(
    first, last, offsets, objective, scores, document_weights, rank_weights, values, gradient
):
    """``objective_of_query`` of the queries ``first … last``."""
    longest = longest_query(offsets[first : last + 1])
    work = gradient_workspace(longest, len(rank_weights))
    unused = np.empty(longest)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        values[q] = objective_of_query(
            objective, scores[a:b], document_weights[a:b], rank_weights, work, gradient[a:b], unused[: b - a]
        )
