"""One impression: which query comes, what its user is shown, and what they click.

Every method runs the same two steps around its own update:

    features, first, last, a, b = next_query(…)      which query, and where its documents are
    length = show(…)                                 its ranking and its clicks

Impressions are simulated and written into the log, or read from it; methods cannot tell which.
"""

from __future__ import annotations

import numpy as np

from rankloop.kernels.click_simulation import draw_clicks
from rankloop.kernels.jit import kernel
from rankloop.kernels.random_streams import next_open_uniform, read_state, write_state
from rankloop.kernels.ranking_samples import draw_ranking, shown_length


@kernel
def next_query(i, simulated, log, traffic, stream):
    """The query of impression i: the matrix with its documents, their rows in it and among all documents."""
    queries, _, _ = log
    features, starts, offsets, _, _, _ = traffic
    if simulated:
        n_queries = len(offsets) - 1
        state, u = next_open_uniform(read_state(stream))
        write_state(stream, state)
        # u is below 1, but u times n may still round to n.
        queries[i] = min(np.int64(u * n_queries), n_queries - 1)
    a, b = offsets[queries[i]], offsets[queries[i] + 1]
    part = 0
    while a >= starts[part + 1]:
        part += 1
    return features[part], a - starts[part], b - starts[part], a, b


@kernel
def show(i, simulated, scores, a, b, log, traffic, stream, arrivals, ranking, clicked):
    """Draw the ranking and the clicks of impression i, or read them; return the number of documents shown.

    ``scores`` are the logging policy's, for the documents ``a … b``; ``arrivals`` is scratch, one
    number per rank.
    """
    _, rankings, clicks = log
    _, _, _, relevance, behaviour, stops = traffic
    if simulated:
        length = draw_ranking(scores, stream, arrivals, ranking)
        state = read_state(stream)
        state = draw_clicks(state, relevance[a:b], ranking, length, behaviour, stops, clicked)
        write_state(stream, state)
        for k in range(length):
            rankings[i, k] = ranking[k]
            clicks[i, k] = clicked[k]
    else:
        length = shown_length(rankings[i])
        for k in range(length):
            ranking[k] = rankings[i, k]
            clicked[k] = clicks[i, k]
    return length
