"""Gradients of LambdaRank: every pair of documents, weighted by what swapping their ranks would change."""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import ordered_kernel


@ordered_kernel
def lambdas_of_queries(first, last, offsets, scores, document_weights, discounts, gradient, curvature):
    """Fill the gradient and the curvature of queries ``first`` to ``last``.

    Pairs of which both documents are at ranks without a discount are skipped: O(n · ranks) per query.
    """
    depth = len(discounts)
    for query in range(first, last):
        start, n = offsets[query], offsets[query + 1] - offsets[query]
        order = np.argsort(-scores[start : start + n], kind="mergesort")
        for place in range(start, start + n):
            gradient[place] = 0.0
            curvature[place] = 0.0
        for upper in range(min(depth, n - 1)):
            i = start + order[upper]
            for lower in range(upper + 1, n):
                j = start + order[lower]
                # Positive if the pair is in the right order.
                gain = document_weights[i] - document_weights[j]
                if gain == 0.0:
                    continue
                discount = discounts[upper] - (discounts[lower] if lower < depth else 0.0)
                weight = abs(gain * discount)
                # scores[i] >= scores[j]: the exponential cannot overflow.
                fading = math.exp(scores[j] - scores[i])
                wrong = fading / (1.0 + fading) if gain > 0.0 else 1.0 / (1.0 + fading)
                push = weight * wrong if gain > 0.0 else -weight * wrong
                bend = weight * wrong * (1.0 - wrong)
                gradient[i] += push
                gradient[j] -= push
                curvature[i] += bend
                curvature[j] += bend
