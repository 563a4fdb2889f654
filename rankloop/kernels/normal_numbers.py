"""Normal and chi-square numbers from a stream of random bits.

Normal numbers come from a ziggurat of 256 layers of equal area: 99 % of them take one word of random bits,
one multiplication and one comparison. Layer, sign and position in the layer are different bits of the word.

References:
    Marsaglia and Tsang, The ziggurat method for generating random variables, 2000; A simple method for
    generating gamma variables, 2000.
"""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel
from rankloop.kernels.random_streams import next_uniform, next_word, read_state, write_state

LAYERS = 256
# Where the tail begins, such that 256 layers of the tail's area and its rectangle fill the bell exactly.
TAIL = 3.6541528853610088


def _layers() -> tuple[np.ndarray, np.ndarray]:
    """Right edges of the layers from the base up to 0, and the bell ``exp(−x² / 2)`` there."""
    height = math.exp(-0.5 * TAIL**2)
    area = TAIL * height + math.sqrt(0.5 * math.pi) * math.erfc(TAIL / math.sqrt(2.0))
    edges = [area / height, TAIL]
    while len(edges) < LAYERS:
        edges.append(math.sqrt(-2.0 * math.log(area / edges[-1] + math.exp(-0.5 * edges[-1] ** 2))))
    x = np.array([*edges, 0.0])
    return x, np.exp(-0.5 * x**2)


_X, _BELL = _layers()
_WIDTH = 2.0**-52 * _X
# A position nearer to the middle than this is under the curve at any height.
_SURE = np.array([int(2**52 * ratio) for ratio in _X[1:] / _X[:-1]])

_LAYER, _ONE = np.uint64(LAYERS - 1), np.uint64(1)
_PLACE_SHIFT = np.int64(11)


@kernel
def next_normal(state):
    """The next state of the stream, and a standard normal number."""
    # Kept small, so that it is inlined; the rare cases are in `decide`.
    state, layer, place = next_place(state)
    if abs(place) < _SURE[layer]:
        return state, place * _WIDTH[layer]
    return decide(state, layer, place)


@kernel
def next_place(state):
    """A layer, and a position in it: 53 signed bits, because a branch on the sign could not be predicted."""
    state, word = next_word(state)
    return state, word & _LAYER, np.int64(word) >> _PLACE_SHIFT


@kernel
def decide(state, layer, place):
    """The number for a position that may lie above the bell; if it does, from another position."""
    while True:
        x = place * _WIDTH[layer]
        if abs(place) < _SURE[layer]:
            return state, x
        if layer == 0:
            state, beyond = next_in_tail(state)
            return state, math.copysign(beyond, x)
        state, u = next_uniform(state)
        above = layer + _ONE
        if _BELL[layer] + u * (_BELL[above] - _BELL[layer]) < math.exp(-0.5 * x * x):
            return state, x
        state, layer, place = next_place(state)


@kernel
def next_in_tail(state):
    """A normal number, given that it lies beyond `TAIL`."""
    while True:
        state, u = next_uniform(state)
        state, v = next_uniform(state)
        # 1 − u is never 0.
        x = -math.log(1.0 - u) / TAIL
        if -2.0 * math.log(1.0 - v) > x * x:
            return state, TAIL + x


@kernel
def fill_normal(stream, out):
    """Fill ``out`` with standard normal numbers, and return the sum of their squares."""
    state = read_state(stream)
    total = 0.0
    for k in range(len(out)):
        state, x = next_normal(state)
        out[k] = x
        total += x * x
    write_state(stream, state)
    return total


@kernel
def draw_normal(stream):
    """One standard normal number."""
    state, x = next_normal(read_state(stream))
    write_state(stream, state)
    return x


@kernel
def draw_chi_square(stream, freedom):
    """The sum of the squares of ``freedom`` standard normal numbers, in constant time."""
    if freedom == 0:
        return 0.0
    state = read_state(stream)
    # Twice a gamma number; that method needs a shape of at least 1, so a single square is drawn directly.
    state, x = next_normal(state)
    result = x * x
    if freedom > 1:
        d = 0.5 * freedom - 1.0 / 3.0
        c = 1.0 / math.sqrt(9.0 * d)
        while True:
            state, u = next_uniform(state)
            v = 1.0 + c * x
            if v > 0.0:
                v = v * v * v
                if math.log(1.0 - u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                    result = 2.0 * d * v
                    break
            state, x = next_normal(state)
    write_state(stream, state)
    return result
