"""Impressions by the million: draw rankings of one query from tables, let users click, count or write down.

A ranking is filled from the top. Each item comes from an alias table (Walker 1977, Vose 1991) over the
weights ``exp(score)``: one random number, one comparison. An item that is already in the ranking is drawn
again, which leaves exactly the chances of what is left: Plackett–Luce.

What makes drawing again cheap, whatever the scores: the heaviest items come first in ``items``, and there is
a table for the items from position ``level`` on, for several levels. Draws use a table whose total is at
most twice that of the items from the first one not yet shown on. Those that are shown, of which there are
fewer than ranks, each weigh no more than that one; so a draw is accepted with a chance of at least
1 / (2 · ranks), and nearly always with one above a half. Weights are relative to the heaviest item of
their table: nothing underflows that matters, and no small remainder is lost in a difference.
"""

from __future__ import annotations

import math

import numpy as np

from rankloop.jit import kernel
from rankloop.policies._sampling import seed_stream

# The next table is used when the items from the first one not shown on make up less than this of the current
# one's total: at a half, a draw costs two random numbers on average, and policies that are not peaked need
# no second table.
LEAST_SHARE = 0.5

# Rows of the behaviour table; `Behaviour.table` stacks them in this order.
ALPHA, BETA, STOP_CLICKED, STOP_RELEVANT, STOP_SKIPPED = range(5)

_U11, _U17, _U19, _U23 = np.uint64(11), np.uint64(17), np.uint64(19), np.uint64(23)
_U41, _U45 = np.uint64(41), np.uint64(45)
_ULP = 2.0**-53


@kernel
def next_uniform(s0, s1, s2, s3):
    total = s0 + s3
    result = ((total << _U23) | (total >> _U41)) + s0
    s2 ^= s0
    s3 ^= s1
    u = np.float64(np.int64(result >> _U11)) * _ULP
    return u, s0 ^ s3, s1 ^ s2, s2 ^ (s1 << _U17), (s3 << _U45) | (s3 >> _U19)


@kernel
def heaviest_first(scores, ranks, items):
    """Order the items that can be shown: the ``ranks`` heaviest first, by weight; return how many there are."""
    shown = 0
    for j in range(len(scores)):
        if scores[j] == -np.inf:
            continue
        if shown < ranks:
            place = shown
        elif scores[j] > scores[items[ranks - 1]]:
            # The lightest of the first ``ranks`` makes room.
            items[shown] = items[ranks - 1]
            place = ranks - 1
        else:
            items[shown] = j
            shown += 1
            continue
        while place > 0 and scores[items[place - 1]] < scores[j]:
            items[place] = items[place - 1]
            place -= 1
        items[place] = j
        shown += 1
    return shown


@kernel
def build_table(level, scores, items, shown, ranks, cut, alias, work):
    """Fill the alias table of the items from ``level`` on; return the position at which it is left.

    Entry i of the table stands for the item at position ``level + i`` with chance ``cut[i] − i`` and for the
    one at position ``alias[i]`` otherwise. ``work`` is scratch, one number an item.
    """
    size = shown - level
    total = 0.0
    left = min(shown, ranks)
    heaviest = scores[items[level]]
    for i in range(size):
        cut[i] = math.exp(scores[items[level + i]] - heaviest)
        total += cut[i]
    rest = total
    for i in range(left - level):
        if rest < LEAST_SHARE * total:
            left = level + i
            break
        rest -= cut[i]
    # Below the mean from the left of ``work``, above it from the right; the one fills up the other.
    scale = size / total
    small, large = 0, size
    for i in range(size):
        cut[i] *= scale
        alias[i] = level + i
        if cut[i] < 1.0:
            work[small] = i
            small += 1
        else:
            large -= 1
            work[large] = i
    while small > 0 and large < size:
        small -= 1
        poor, rich = work[small], work[large]
        alias[poor] = level + rich
        cut[rich] -= 1.0 - cut[poor]
        cut[poor] += poor
        if cut[rich] < 1.0:
            large += 1
            work[small] = rich
            small += 1
    # What remains is 1 but for rounding.
    for k in range(small):
        cut[work[k]] = work[k] + 1.0
    for k in range(large, size):
        cut[work[k]] = work[k] + 1.0
    return left


@kernel
def draw_ranking(number, state, scores, items, shown, tables, ranking):
    """Draw one ranking: positions in ``items``, as many as fit. ``number`` is different at each call."""
    cut, alias, leave, last_shown, work = tables
    ranks = len(leave)
    s0, s1, s2, s3 = state
    level = 0
    front = 0  # the first position that has not been shown
    for k in range(min(shown, ranks)):
        while last_shown[front] == number:
            front += 1
        if front >= leave[level]:
            level = front
            if leave[level] == 0:
                leave[level] = build_table(level, scores, items, shown, ranks, cut[level], alias[level], work)
        size = shown - level
        while True:
            u, s0, s1, s2, s3 = next_uniform(s0, s1, s2, s3)
            x = u * size
            i = int(x)
            position = level + i if x < cut[level, i] else alias[level, i]
            if last_shown[position] != number:
                break
        last_shown[position] = number
        ranking[k] = items[position]
    return s0, s1, s2, s3


@kernel
def draw_clicks(state, relevance, ranking, length, behaviour, stops, clicked):
    """Let one user go down the ranking."""
    reading = True
    s0, s1, s2, s3 = state
    for k in range(length):
        r = relevance[ranking[k]]
        u, s0, s1, s2, s3 = next_uniform(s0, s1, s2, s3)
        click = reading & (u < behaviour[ALPHA, k] * r + behaviour[BETA, k])
        clicked[k] = click
        if stops:
            if click:
                stop = behaviour[STOP_CLICKED, k] + behaviour[STOP_RELEVANT, k] * r
            else:
                stop = behaviour[STOP_SKIPPED, k]
            u, s0, s1, s2, s3 = next_uniform(s0, s1, s2, s3)
            reading &= u >= stop
    return s0, s1, s2, s3


@kernel
def scratch(offsets, ranks):
    """Room for the tables of the largest query."""
    largest = 0
    for q in range(len(offsets) - 1):
        largest = max(largest, offsets[q + 1] - offsets[q])
    levels = min(ranks, largest)
    items = np.empty(largest, np.int64)
    tables = (
        np.empty((levels, largest)),
        np.empty((levels, largest), np.int64),
        np.empty(ranks, np.int64),
        np.empty(largest, np.int64),
        np.empty(largest, np.int64),
    )
    return items, tables


@kernel
def prepare(scores, items, tables):
    """Get ready for a query; return how many items it can show."""
    cut, alias, leave, last_shown, work = tables
    ranks = len(leave)
    shown = heaviest_first(scores, ranks, items)
    leave[:] = 0
    last_shown[:] = -1
    if shown > 0:
        leave[0] = build_table(0, scores, items, shown, ranks, cut[0], alias[0], work)
    return shown


@kernel
def count_impressions(first, last, starts, offsets, scores, relevance, behaviour, stops, seed, displays, clicks):
    """Add the impressions of the queries ``first … last`` to displays and clicks, items × ranks.

    Query q has ``starts[q + 1] − starts[q]`` impressions, drawn from random stream q.
    """
    ranks = behaviour.shape[1]
    items, tables = scratch(offsets, ranks)
    ranking = np.empty(ranks, np.int64)
    clicked = np.empty(ranks, np.bool_)
    for q in range(first, last):
        if starts[q] == starts[q + 1]:
            continue
        own = slice(offsets[q], offsets[q + 1])
        own_scores, own_relevance = scores[own], relevance[own]
        own_displays, own_clicks = displays[own], clicks[own]
        words = seed_stream(seed, q)
        state = (words[0], words[1], words[2], words[3])
        shown = prepare(own_scores, items, tables)
        length = min(shown, ranks)
        for i in range(starts[q], starts[q + 1]):
            state = draw_ranking(i, state, own_scores, items, shown, tables, ranking)
            state = draw_clicks(state, own_relevance, ranking, length, behaviour, stops, clicked)
            for k in range(length):
                own_displays[ranking[k], k] += 1
                own_clicks[ranking[k], k] += clicked[k]


@kernel
def log_impressions(
    first, last, starts, offsets, scores, relevance, behaviour, stops, seed, time, queries, rankings, clicks
):
    """Write down the impressions of the queries ``first … last``, the same that would have been counted.

    Impression i goes to row ``time[i]``; ``rankings`` and ``clicks`` come filled with -1 and False.
    """
    ranks = behaviour.shape[1]
    items, tables = scratch(offsets, ranks)
    ranking = np.empty(ranks, np.int64)
    clicked = np.empty(ranks, np.bool_)
    for q in range(first, last):
        if starts[q] == starts[q + 1]:
            continue
        own = slice(offsets[q], offsets[q + 1])
        own_scores, own_relevance = scores[own], relevance[own]
        words = seed_stream(seed, q)
        state = (words[0], words[1], words[2], words[3])
        shown = prepare(own_scores, items, tables)
        length = min(shown, ranks)
        for i in range(starts[q], starts[q + 1]):
            state = draw_ranking(i, state, own_scores, items, shown, tables, ranking)
            state = draw_clicks(state, own_relevance, ranking, length, behaviour, stops, clicked)
            queries[time[i]] = q
            for k in range(length):
                rankings[time[i], k] = ranking[k]
                clicks[time[i], k] = clicked[k]
