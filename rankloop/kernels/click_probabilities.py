"""The likelihood of counts of clicks by rank, if relevance is the logistic function of a score."""

from __future__ import annotations

import math

from rankloop.kernels.jit import ordered_kernel

# Probabilities are kept this far from 0 and 1: a click where none is possible must not make the rest of the
# log irrelevant.
LEAST = 1e-6


@ordered_kernel
def click_derivatives(first, last, cells, scores, ranks, displays, clicks, alpha, beta, out):
    """Fill value, gradient and curvature (the rows of ``out``) of documents ``first`` to ``last``.

    The cells ``cells[d]`` to ``cells[d + 1]`` of document d are the ranks at which it was shown.
    """
    for document in range(first, last):
        relevance = 1.0 / (1.0 + math.exp(-scores[document]))
        slope = relevance * (1.0 - relevance)
        value = gradient = curvature = 0.0
        for cell in range(cells[document], cells[document + 1]):
            rank, shown, clicked = ranks[cell], displays[cell], clicks[cell]
            chance = min(max(alpha[rank] * relevance + beta[rank], LEAST), 1.0 - LEAST)
            value += clicked * math.log(chance) + (shown - clicked) * math.log(1.0 - chance)
            steep = alpha[rank] * slope
            gradient += (clicked / chance - (shown - clicked) / (1.0 - chance)) * steep
            curvature += shown * steep * steep / (chance * (1.0 - chance))
        out[0, document], out[1, document], out[2, document] = value, gradient, curvature
