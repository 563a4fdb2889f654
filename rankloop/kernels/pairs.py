"""Training objectives of one query that are sums over pairs of documents, or over the documents themselves.

Each fills the gradient by the scores and returns the value. The cost is O(n²) exponentials, or O(n), for n
documents: far below that of the exact expectation of other metrics.
"""

from __future__ import annotations

import math

from rankloop.kernels.jit import kernel


@kernel
def linear_of_query(scores, document_weights, gradient):
    """``Σ_i r_i Σ_{j≠i} P(i before j) / (n − 1)``, with ``P(i before j) = σ(s_i − s_j)`` exactly.

    It is the expectation of a metric that falls linearly from 1 at the top rank to 0 at the last one.
    """
    n = len(scores)
    gradient[:] = 0.0
    if n < 2:
        return 0.0
    value = 0.0
    share = 1.0 / (n - 1)
    for i in range(1, n):
        s, r, own = scores[i], document_weights[i], 0.0
        for j in range(i):
            gap = s - scores[j]
            fading = math.exp(-abs(gap))
            likely = 1.0 / (1.0 + fading)
            first = likely if gap > 0.0 else fading * likely
            value += document_weights[j] + (r - document_weights[j]) * first
            push = share * (r - document_weights[j]) * fading * likely * likely
            own += push
            gradient[j] -= push
        gradient[i] += own
    return share * value


@kernel
def logistic_of_query(scores, document_weights, gradient):
    """``Σ_{i,j: r_i > r_j} (r_i − r_j) log σ(s_i − s_j) / (n − 1)``: concave in the scores."""
    n = len(scores)
    gradient[:] = 0.0
    if n < 2:
        return 0.0
    value = 0.0
    share = 1.0 / (n - 1)
    for i in range(1, n):
        s, r, own = scores[i], document_weights[i], 0.0
        for j in range(i):
            difference = r - document_weights[j]
            # Positive if the pair is in the right order.
            gap = s - scores[j] if difference > 0.0 else scores[j] - s
            fading = math.exp(-abs(gap))
            wrong = fading / (1.0 + fading) if gap > 0.0 else 1.0 / (1.0 + fading)
            value += abs(difference) * (min(gap, 0.0) - math.log1p(fading))
            push = share * difference * wrong
            own += push
            gradient[j] -= push
        gradient[i] += own
    return share * value


@kernel
def softmax_of_query(scores, document_weights, gradient):
    """``Σ_i r_i log softmax(s)_i``: concave in the scores if the weights of the query add up to 0 or more."""
    n = len(scores)
    highest = scores[0]
    for i in range(1, n):
        highest = max(highest, scores[i])
    total, value, weight = 0.0, 0.0, 0.0
    for i in range(n):
        gradient[i] = math.exp(scores[i] - highest)
        total += gradient[i]
        weight += document_weights[i]
        value += document_weights[i] * (scores[i] - highest)
    for i in range(n):
        gradient[i] = document_weights[i] - weight * gradient[i] / total
    return value - weight * math.log(total)
