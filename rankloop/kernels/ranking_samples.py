"""Rankings of a Plackett–Luce policy: drawn, and their log-probabilities."""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel
from rankloop.kernels.random_streams import next_open_uniform, read_state, seed_stream, write_state


@kernel
def draw_ranking(scores, stream, arrivals, ranking):
    """Draw a ranking: the first documents to arrive in one race, fastest first; -1 where no document is left.

    Return the number of its documents. ``arrivals`` is scratch, one number per rank. Document j arrives at
    time ``−log(u) / w_j``; the logarithms of these times are compared.
    """
    state = read_state(stream)
    ranks = len(ranking)
    filled = 0
    for j in range(len(scores)):
        if scores[j] == -np.inf:
            continue
        state, u = next_open_uniform(state)
        time = math.log(-math.log(u)) - scores[j]
        if filled == ranks and time >= arrivals[ranks - 1]:
            continue
        place = min(filled, ranks - 1)
        while place > 0 and arrivals[place - 1] > time:
            arrivals[place] = arrivals[place - 1]
            ranking[place] = ranking[place - 1]
            place -= 1
        arrivals[place] = time
        ranking[place] = j
        filled = min(filled + 1, ranks)
    ranking[filled:] = -1
    write_state(stream, state)
    return filled


@kernel
def shown_length(ranking):
    """Number of documents in a ranking: those before the first -1."""
    length = 0
    while length < len(ranking) and ranking[length] >= 0:
        length += 1
    return length


@kernel
def add_exponentials(largest, total, score):
    """Add ``exp(score)`` to ``total · exp(largest)``, kept as a pair so that nothing overflows."""
    if score == -np.inf:
        return largest, total
    if score <= largest:
        return largest, total + math.exp(score - largest)
    return score, total * math.exp(largest - score) + 1.0


@kernel
def log_remaining(scores, ranking, length, placed, out):
    """``out[k]``: log of the total weight of the documents left when k are placed, k = 0 … length.

    The document at rank k was drawn from those. Summed from the last rank up, so that no small remainder is
    lost in a difference. ``placed`` is scratch, one boolean per document; afterwards it says which documents
    are placed.
    """
    placed[: len(scores)] = False
    for k in range(length):
        placed[ranking[k]] = True
    largest, total = -np.inf, 0.0
    for j in range(len(scores)):
        if not placed[j]:
            largest, total = add_exponentials(largest, total, scores[j])
    out[length] = largest + math.log(total) if total > 0.0 else -np.inf
    for k in range(length - 1, -1, -1):
        largest, total = add_exponentials(largest, total, scores[ranking[k]])
        out[k] = largest + math.log(total) if total > 0.0 else -np.inf


@kernel
def log_probabilities(first, last, offsets, scores, rankings, out):
    """The log-probability of each ranking of the queries ``first … last``: samples × queries."""
    remaining = np.empty(rankings.shape[2] + 1)
    for q in range(first, last):
        own = scores[offsets[q] : offsets[q + 1]]
        placed = np.empty(len(own), np.bool_)
        for i in range(len(rankings)):
            length = shown_length(rankings[i, q])
            log_remaining(own, rankings[i, q], length, placed, remaining)
            total = 0.0
            for k in range(length):
                score = own[rankings[i, q, k]]
                total += score - remaining[k] if score > -np.inf else -np.inf
            out[i, q] = total


@kernel
def draw_rankings(first, last, offsets, scores, seed, out):
    """Rankings of the queries ``first … last``: samples × queries × ranks."""
    arrivals = np.empty(out.shape[2])
    for q in range(first, last):
        stream = seed_stream(seed, q)
        for i in range(len(out)):
            draw_ranking(scores[offsets[q] : offsets[q + 1]], stream, arrivals, out[i, q])
