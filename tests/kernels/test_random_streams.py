"""Streams of random numbers, against the generators' definitions in whole numbers of any size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from rankloop.kernels.random_streams import (
    next_open_uniform,
    next_uniform,
    next_word,
    read_state,
    seed_stream,
    write_state,
)

ALL_BITS = 2**64 - 1


def rotate(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & ALL_BITS


def splitmix64(x: int) -> Iterator[int]:
    while True:
        x = (x + 0x9E3779B97F4A7C15) & ALL_BITS
        z = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & ALL_BITS
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & ALL_BITS
        yield z ^ (z >> 31)


def xoshiro256pp(s: list[int]) -> Iterator[int]:
    while True:
        yield (rotate((s[0] + s[3]) & ALL_BITS, 23) + s[0]) & ALL_BITS
        t = (s[1] << 17) & ALL_BITS
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)


State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]


def typed(state: tuple[int, int, int, int]) -> State:
    """What comes back from compiled code are Python's own numbers."""
    a, b, c, d = map(np.uint64, state)
    return a, b, c, d


@pytest.mark.parametrize(("seed", "number"), [(0, 0), (1, 0), (2**62 + 3, 12345)])
def test_words_are_those_of_the_definitions(seed: int, number: int) -> None:
    mix = splitmix64(seed ^ ((number * 0xBF58476D1CE4E5B9) & ALL_BITS))
    words = [next(mix) for _ in range(4)]
    stream = seed_stream(np.int64(seed), number)
    assert stream.tolist() == words
    state, expected = read_state(stream), xoshiro256pp(words)
    for _ in range(100):
        state, word = next_word(typed(state))
        assert word == next(expected)
    next(expected)  # the reference advances when the next word is asked for
    write_state(stream, typed(state))
    assert stream.tolist() == words


def test_uniform_numbers_are_the_highest_bits_of_words() -> None:
    state = read_state(seed_stream(np.int64(5), 7))
    for _ in range(100):
        now = typed(state)
        state, word = next_word(now)
        assert next_uniform(now) == (state, (word >> 11) / 2**53)
        assert next_open_uniform(now) == (state, ((word >> 12) + 0.5) / 2**52)


def test_uniform_numbers_never_reach_one() -> None:
    """The state that gives the highest output there is: all 64 bits set."""
    top = np.uint64(2**64 - 1)
    # s0 = 2⁶⁴ − 1 and s0 + s3 = 0: the output is s0 itself.
    _, u = next_uniform((top, np.uint64(1), np.uint64(1), np.uint64(1)))
    assert u == 1 - 2.0**-53
    assert all(u * n < n for n in range(1, 100_000))


def test_open_uniform_numbers_reach_neither_end() -> None:
    one, zero = np.uint64(1), np.uint64(0)
    _, highest = next_open_uniform((np.uint64(ALL_BITS), one, one, one))
    _, lowest = next_open_uniform((zero, one, one, zero))
    assert highest == 1 - 2.0**-53
    assert lowest == 2.0**-53
