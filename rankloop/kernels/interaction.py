"""One interaction after the other, compiled: who comes, what they are shown, what they click.

Every method runs the same two steps around its own update:

    features, first, last, a, b = next_query(…)      which query, and where its documents are
    length = show(…)                                 its ranking and its clicks

Interactions are simulated and written into the log, or read from it; methods cannot tell which.
"""

from __future__ import annotations

import numpy as np

from rankloop.kernels.click_simulation import draw_clicks
from rankloop.kernels.jit import kernel
from rankloop.kernels.ranking_samples import draw, uniform


@kernel
def longest_query(offsets):
    """How many documents the largest query has."""
    longest = 1
    for q in range(len(offsets) - 1):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def next_query(i, simulated, log, world, stream):
    """Interaction number i: the matrix that holds its query's documents, their rows there and among all."""
    queries, _, _ = log
    features, starts, offsets, _, _, _ = world
    if simulated:
        # A number this side of 1 times n may still round to n.
        n_queries = len(offsets) - 1
        queries[i] = min(np.int64(uniform(stream) * n_queries), n_queries - 1)
    a, b = offsets[queries[i]], offsets[queries[i] + 1]
    part = 0
    while a >= starts[part + 1]:
        part += 1
    return features[part], a - starts[part], b - starts[part], a, b


@kernel
def show(i, simulated, scores, a, b, log, world, stream, arrivals, ranking, clicked):
    """Draw the ranking and the clicks of interaction i, or read them; return how many items were shown.

    ``scores`` are those of the policy that logs, of the documents ``a … b``; ``arrivals`` is scratch, one
    number a rank.
    """
    _, rankings, clicks = log
    _, _, _, relevance, behaviour, stops = world
    if simulated:
        draw(scores, stream, arrivals, ranking)
        length = 0
        while length < len(ranking) and ranking[length] >= 0:
            length += 1
        state = (stream[0], stream[1], stream[2], stream[3])
        state = draw_clicks(state, relevance[a:b], ranking, length, behaviour, stops, clicked)
        for word in range(4):
            stream[word] = state[word]
        for k in range(length):
            rankings[i, k] = ranking[k]
            clicks[i, k] = clicked[k]
        return length
    length = 0
    while length < len(ranking) and rankings[i, length] >= 0:
        ranking[length] = rankings[i, length]
        clicked[length] = clicks[i, length]
        length += 1
    return length
