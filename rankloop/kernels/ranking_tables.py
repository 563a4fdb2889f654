"""Tables that rankings of one query are drawn from, by the million.

A ranking is filled from the top. Each document comes from an alias table over the weights ``exp(score)``: one
random number, one comparison. If the document is already in the ranking, another one is drawn; the documents
that are left are then drawn with exactly the probabilities of Plackett–Luce.

Repeated draws are cheap for any scores: the heaviest documents come first in ``documents``, and there are
tables for all documents from position ``level`` on, at several levels, each built when it is first needed.
The first document that is not shown is the heaviest that is left, and fewer than ``ranks`` are shown; so
among the documents from that one on, those left have at least 1 / ranks of the weight. Draws that fail move
on to such a table. Weights are relative to the heaviest of their table, so scores may lie as far apart as
they like.

Reference:
    Vose, A linear algorithm for generating random numbers with a given distribution, 1991.
"""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel
from rankloop.kernels.query_sizes import longest_query
from rankloop.kernels.random_streams import next_uniform

# A table is replaced by the next one when the documents from the first one not shown have less than this
# share of its weight. At a half, policies that are not peaked need only one table, and the bound on failed
# draws doubles.
LEAST_SHARE = 0.5

_TWO = np.uint64(2)


@kernel
def heaviest_first(scores, ranks, documents):
    """Put what can be shown into ``documents``, the ``ranks`` heaviest first; return their number."""
    shown = 0
    for j in range(len(scores)):
        if scores[j] == -np.inf:
            continue
        place = min(shown, ranks)
        if place == ranks and scores[j] <= scores[documents[ranks - 1]]:
            documents[shown] = j
        else:
            if place == ranks:
                place = ranks - 1
                documents[shown] = documents[place]
            while place > 0 and scores[documents[place - 1]] < scores[j]:
                documents[place] = documents[place - 1]
                place -= 1
            documents[place] = j
        shown += 1
    return shown


@kernel
def build_table(level, scores, documents, shown, ranks, tables):
    """Fill the alias table of the documents from ``level`` on, and note at which position it is left.

    With ``x`` uniform on [0, size) and i its whole part, the table draws the position ``pair[2 i]`` if
    ``x < cut[i]`` and ``pair[2 i + 1]`` if not.
    """
    cut, pair, leave, _, work = tables
    cut, pair = cut[level], pair[level]
    size = shown - level
    heaviest = scores[documents[level]]
    total = 0.0
    for i in range(size):
        cut[i] = math.exp(scores[documents[level + i]] - heaviest)
        total += cut[i]

    leave[level] = level + 1
    rest = total - cut[0]
    while leave[level] < min(shown, ranks) and rest >= LEAST_SHARE * total:
        rest -= cut[leave[level] - level]
        leave[level] += 1

    # Documents below the mean go to the left of ``work``, the others to the right; the latter fill up the
    # former.
    scale = size / total
    small, large = 0, size
    for i in range(size):
        cut[i] *= scale
        pair[2 * i] = pair[2 * i + 1] = level + i
        if cut[i] < 1.0:
            work[small] = i
            small += 1
        else:
            large -= 1
            work[large] = i
    while small > 0 and large < size:
        poor, rich = work[small - 1], work[large]
        pair[2 * poor + 1] = level + rich
        cut[rich] -= 1.0 - cut[poor]
        cut[poor] += poor
        if cut[rich] < 1.0:
            work[small - 1] = rich
            large += 1
        else:
            small -= 1
    # The rest is 1, up to rounding.
    for k in range(small):
        cut[work[k]] = work[k] + 1.0
    for k in range(large, size):
        cut[work[k]] = work[k] + 1.0


@kernel
def draw_position(level, state, shown, cut, pair):
    """Draw from the table of the documents from ``level`` on; return the random state and the position."""
    state, u = next_uniform(state)
    x = u * (shown - level)
    # Unsigned, because a signed index costs a test for negative numbers; one of a pair instead of a branch,
    # because a branch on a random number is mispredicted half of the time.
    i = np.uint64(np.int64(x))
    return state, np.uint64(pair[level, _TWO * i + np.uint64(x >= cut[level, i])])


@kernel
def draw_from_tables(number, state, scores, documents, shown, tables, ranking):
    """Draw one ranking of as many documents as fit; return the random state.

    ``number`` tells this ranking from the others of the query in ``last_shown``.
    """
    cut, pair, leave, last_shown, _ = tables
    ranks = len(ranking)
    k = 0
    # Without a branch: a document that was drawn before is overwritten by the next.
    for _ in range(leave[0]):
        state, position = draw_position(0, state, shown, cut, pair)
        ranking[k] = documents[position]
        k += last_shown[position] != number
        last_shown[position] = number
    level = front = 0
    while k < min(shown, ranks):
        state, position = draw_position(level, state, shown, cut, pair)
        if last_shown[position] != number:
            ranking[k] = documents[position]
            k += 1
            last_shown[position] = number
            continue
        # Which table is next depends only on the documents shown, so that their probabilities do not change.
        while last_shown[front] == number:
            front += 1
        if front >= leave[level]:
            level = front
            if leave[level] == 0:
                build_table(level, scores, documents, shown, ranks, tables)
    return state


@kernel
def room_for_tables(offsets, ranks):
    """Scratch for the documents and tables of the longest query: cut, pair, leave, last_shown, work."""
    longest = longest_query(offsets)
    levels = min(ranks, longest)
    documents = np.empty(longest, np.int64)
    tables = (
        np.empty((levels, longest)),
        np.empty((levels, 2 * longest), np.int64),
        np.empty(levels, np.int64),
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
    )
    return documents, tables


@kernel
def build_first_table(scores, ranks, documents, tables):
    """Order a query's documents and build its first table; return how many of them it can show."""
    _, _, leave, last_shown, _ = tables
    shown = heaviest_first(scores, ranks, documents)
    leave[:] = 0  # no table yet
    last_shown[:] = -1
    if shown > 0:
        build_table(0, scores, documents, shown, ranks, tables)
    return shown
