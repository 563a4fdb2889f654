"""Streams of random numbers: xoshiro256++, seeded by splitmix64 as its authors advise.

A stream has a number, so that every query can have its own: what is drawn then does not depend on which
thread draws it. A stream is an array of four words that changes in place. Within a loop its words are better
held as a tuple, the *state*, which lives in registers: `read_state`, then `next_word` and `next_uniform`, and
`write_state` at the end.

Reference:
    Blackman and Vigna, Scrambled linear pseudorandom number generators, 2021.
"""

from __future__ import annotations

import numpy as np

from rankloop.kernels.jit import kernel

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_U11, _U12, _U17, _U19, _U23 = (np.uint64(bits) for bits in (11, 12, 17, 19, 23))
_U27, _U30, _U31, _U41, _U45 = (np.uint64(bits) for bits in (27, 30, 31, 41, 45))


@kernel
def seed_stream(seed, number):
    """The stream with this number under ``seed``, before its first draw: four uint64."""
    stream = np.empty(4, np.uint64)
    x = np.uint64(seed) ^ (np.uint64(number) * _MIX1)
    for i in range(4):
        x += _GOLDEN
        z = x
        z = (z ^ (z >> _U30)) * _MIX1
        z = (z ^ (z >> _U27)) * _MIX2
        stream[i] = z ^ (z >> _U31)
    return stream


@kernel
def read_state(stream):
    """The words of a stream as a tuple."""
    return stream[0], stream[1], stream[2], stream[3]


@kernel
def write_state(stream, state):
    """Let the stream continue from this state."""
    for word in range(4):
        stream[word] = state[word]


@kernel
def next_word(state):
    """The next state, and 64 random bits."""
    s0, s1, s2, s3 = state
    total = s0 + s3
    result = ((total << _U23) | (total >> _U41)) + s0
    s2 ^= s0
    s3 ^= s1
    state = (s0 ^ s3, s1 ^ s2, s2 ^ (s1 << _U17), (s3 << _U45) | (s3 >> _U19))
    return state, result


@kernel
def next_uniform(state):
    """The next state, and a number uniform on [0, 1), a multiple of 2⁻⁵³.

    It stays below 1, so that ``n`` times it, rounded, stays below ``n`` and can be an index.
    """
    state, word = next_word(state)
    return state, np.float64(np.int64(word >> _U11)) * 2.0**-53


@kernel
def next_open_uniform(state):
    """The next state, and a number uniform on the open interval (0, 1), whose logarithm is finite."""
    state, word = next_word(state)
    # 52 bits and a half: with one bit more, the largest number would round to 1.
    return state, (np.float64(word >> _U12) + 0.5) * 2.0**-52
