"""Activations of hidden units and their slopes, in place; in float32 they become SIMD instructions."""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel

ACTIVATIONS = ("sigmoid", "tanh", "relu")
SIGMOID, TANH, RELU = range(len(ACTIVATIONS))

# float32 constants of e^x = 2^k e^r: arithmetic with them stays in float32, and so in SIMD.
_HALF, _ONE, _TWO, _LN2, _INV_LN2 = (np.float32(x) for x in (0.5, 1.0, 2.0, math.log(2), 1 / math.log(2)))
# 2^k must be a normal number: |k| < 127, so |x| < 127 ln 2 = 88.03.
_EXP_LIMIT = np.float32(87.0)
# The series of e^r on |r| <= ln 2 / 2, as factors for Horner's rule from the last term to the first. The
# first term left out, r⁸ / 8! < 6e-9, is below half a unit in the last place (6e-8).
_SERIES = tuple(np.float32(1 / k) for k in range(7, 0, -1))
# How a float32 stores 2^k: k + 127 above 23 bits of fraction.
_EXPONENT_BIAS, _FRACTION_BITS = np.int32(127), np.int32(23)


@kernel
def _exp32(x):
    """``e^x = 2^k e^r`` in float32, |r| <= ln 2 / 2: this becomes SIMD, a call to the C library does not."""
    if x > _EXP_LIMIT:
        x = _EXP_LIMIT
    elif x < -_EXP_LIMIT:
        x = -_EXP_LIMIT
    # Both are float32 instructions of SIMD; `math.floor` would make an int64, which has none.
    k = np.floor(x * _INV_LN2 + _HALF)
    r = x - k * _LN2
    series = _ONE
    for factor in _SERIES:
        series = _ONE + series * r * factor
    return series * np.int32((np.int32(k) + _EXPONENT_BIAS) << _FRACTION_BITS).view(np.float32)


@kernel
def _sigmoid(values):
    if values.itemsize == 4:  # known when compiling: only one of the loops is left
        for k in range(len(values)):
            values[k] = _ONE / (_ONE + _exp32(-np.float32(values[k])))
    else:
        for k in range(len(values)):
            values[k] = 1 / (1 + math.exp(-values[k]))


@kernel
def _tanh(values):
    if values.itemsize == 4:
        # tanh x = 2 σ(2x) − 1 doubles the error of σ: two units in the last place of 1, however small x is.
        for k in range(len(values)):
            values[k] = _TWO / (_ONE + _exp32(-_TWO * np.float32(values[k]))) - _ONE
    else:
        for k in range(len(values)):
            values[k] = math.tanh(values[k])


@kernel
def activate(values, activation):
    """``values = h(values)``."""
    if activation == SIGMOID:
        _sigmoid(values)
    elif activation == TANH:
        _tanh(values)
    else:
        for k in range(len(values)):
            if values[k] < 0:
                values[k] = 0


@kernel
def multiply_by_slope(deltas, values, activation):
    """``deltas *= h'``, where the slope follows from the value of the activation."""
    if activation == SIGMOID:
        for k in range(len(values)):
            deltas[k] *= values[k] * (1 - values[k])
    elif activation == TANH:
        for k in range(len(values)):
            deltas[k] *= 1 - values[k] * values[k]
    else:
        for k in range(len(values)):
            deltas[k] *= values[k] > 0
