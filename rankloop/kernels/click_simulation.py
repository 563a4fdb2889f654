"""Impressions by the million: draw rankings, let simulated users click, and count or record what happens."""

from __future__ import annotations

import numpy as np

from rankloop.kernels.jit import kernel
from rankloop.kernels.random_streams import next_uniform, read_state, seed_stream
from rankloop.kernels.ranking_tables import build_first_table, draw_from_tables, room_for_tables

# Rows of the behaviour table; `Behaviour.table` stacks them in this order.
ALPHA, BETA, STOP_CLICKED, STOP_RELEVANT, STOP_SKIPPED = range(5)


@kernel
def draw_clicks(state, relevance, ranking, length, behaviour, stops, clicked):
    """Let one user read the ranking, who may stop early if ``stops``; return the random state."""
    reading = True
    for k in range(length):
        r = relevance[ranking[k]]
        state, u = next_uniform(state)
        click = reading & (u < behaviour[ALPHA, k] * r + behaviour[BETA, k])
        clicked[k] = click
        if stops:
            if click:
                stop = behaviour[STOP_CLICKED, k] + behaviour[STOP_RELEVANT, k] * r
            else:
                stop = behaviour[STOP_SKIPPED, k]
            state, u = next_uniform(state)
            reading &= u >= stop
    return state


@kernel
def draw_page_clicks(seed, relevance, length, behaviour, stops, clicked):
    """Let one user read one page of documents with this relevance, from the top."""
    draw_clicks(
        read_state(seed_stream(seed, 0)), relevance, np.arange(length), length, behaviour, stops, clicked
    )


@kernel
def simulate_impressions(
    first, last, starts, offsets, scores, relevance, behaviour, stops, seed, counts, log
):
    """Simulate the impressions of the queries ``first … last``; count them, record them, or both.

    Query q has impressions number ``starts[q] … starts[q + 1]``, drawn from random stream q.

    Args:
        first: the first query.
        last: one past the last query.
        starts: queries + 1, numbers of impressions.
        offsets: queries + 1.
        scores: documents.
        relevance: documents.
        behaviour: the users' behaviour table, rows × ranks.
        stops: whether users may stop before the last rank.
        seed: of the random streams.
        counts: displays and clicks to add to, documents × ranks each; empty arrays: nothing is counted.
        log: by impression number the row to record it in; then rankings and clicks, rows × ranks each, which
            come filled with -1 and False. No row numbers: nothing is recorded.
    """
    displays, clicks = counts
    rows, logged_rankings, logged_clicks = log
    counted, logged = len(displays) > 0, len(rows) > 0
    ranks = behaviour.shape[1]
    documents, tables = room_for_tables(offsets, ranks)
    ranking, clicked = np.empty(ranks, np.int64), np.empty(ranks, np.bool_)
    for q in range(first, last):
        if starts[q] == starts[q + 1]:
            continue
        own = slice(offsets[q], offsets[q + 1])
        own_scores, own_relevance = scores[own], relevance[own]
        own_displays, own_clicks = displays[own], clicks[own]
        state = read_state(seed_stream(seed, q))
        shown = build_first_table(own_scores, ranks, documents, tables)
        length = min(shown, ranks)
        for i in range(starts[q], starts[q + 1]):
            state = draw_from_tables(i, state, own_scores, documents, shown, tables, ranking)
            state = draw_clicks(state, own_relevance, ranking, length, behaviour, stops, clicked)
            if counted:
                for k in range(length):
                    own_displays[ranking[k], k] += 1
                    own_clicks[ranking[k], k] += clicked[k]
            if logged:
                for k in range(length):
                    logged_rankings[rows[i], k] = ranking[k]
                    logged_clicks[rows[i], k] = clicked[k]
