"""Drawing rankings and weighing them, one query at a time, each with a random stream of its own."""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel

# xoshiro256++ (Blackman & Vigna 2021), seeded by splitmix64 as its authors advise. Each query has its own
# stream, so what is drawn does not depend on which thread draws it.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_U12, _U17, _U23, _U27 = np.uint64(12), np.uint64(17), np.uint64(23), np.uint64(27)
_U30, _U31, _U45, _U64 = np.uint64(30), np.uint64(31), np.uint64(45), np.uint64(64)
_ULP = 2.0**-52


@kernel
def seed_stream(seed, stream):
    """The state of random stream number ``stream`` under ``seed``: four uint64."""
    state = np.empty(4, np.uint64)
    x = np.uint64(seed) ^ (np.uint64(stream) * _MIX1)
    for i in range(4):
        x += _GOLDEN
        z = x
        z = (z ^ (z >> _U30)) * _MIX1
        z = (z ^ (z >> _U27)) * _MIX2
        state[i] = z ^ (z >> _U31)
    return state


@kernel
def uniform(state):
    """The next number of the stream, uniform on the open interval (0, 1)."""
    total = state[0] + state[3]
    result = ((total << _U23) | (total >> (_U64 - _U23))) + state[0]
    t = state[1] << _U17
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= t
    state[3] = (state[3] << _U45) | (state[3] >> (_U64 - _U45))
    # 52 bits and a half: with one bit more, the largest number would round to 1.
    return (np.float64(result >> _U12) + 0.5) * _ULP


@kernel
def draw(scores, state, arrivals, ranking):
    """The first items to arrive in one race, fastest first; -1 where nothing is left to show.

    ``arrivals`` is scratch, one number a rank. The time of item j is ``−log(u) / w_j``, in logarithms.
    """
    ranks = len(ranking)
    filled = 0
    for j in range(len(scores)):
        if scores[j] == -np.inf:
            continue
        time = math.log(-math.log(uniform(state))) - scores[j]
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


@kernel
def add_exponentials(largest, total, score):
    """Add ``exp(score)`` to ``total · exp(largest)``, kept as a pair so that nothing overflows."""
    if score == -np.inf:
        return largest, total
    if score <= largest:
        return largest, total + math.exp(score - largest)
    return score, total * math.exp(largest - score) + 1.0


@kernel
def log_remaining(scores, ranking, placed, out):
    """``out[i]``: log of the total weight from which the item at rank i was drawn; return how many ranks.

    Summed from the last rank up, so that no small remainder is lost in a difference. ``placed`` is scratch,
    one boolean an item.
    """
    placed[:] = False
    length = 0
    while length < len(ranking) and ranking[length] >= 0:
        placed[ranking[length]] = True
        length += 1
    largest, total = -np.inf, 0.0
    for j in range(len(scores)):
        if not placed[j]:
            largest, total = add_exponentials(largest, total, scores[j])
    for i in range(length - 1, -1, -1):
        largest, total = add_exponentials(largest, total, scores[ranking[i]])
        out[i] = largest + math.log(total) if total > 0.0 else -np.inf
    return length


@kernel
def log_probabilities(first, last, offsets, scores, rankings, out):
    """The log-probability of every ranking of the queries ``first … last``: samples × queries."""
    remaining = np.empty(rankings.shape[2])
    for q in range(first, last):
        own = scores[offsets[q] : offsets[q + 1]]
        placed = np.empty(len(own), np.bool_)
        for i in range(len(rankings)):
            length = log_remaining(own, rankings[i, q], placed, remaining)
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
        state = seed_stream(seed, q)
        for i in range(len(out)):
            draw(scores[offsets[q] : offsets[q + 1]], state, arrivals, out[i, q])
