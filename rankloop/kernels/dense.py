"""Fully connected layers for one query at a time: scores, and their gradient on the parameters.

Layer l maps a_{l−1} (documents × in) to a_l = h(a_{l−1} W_l + b_l) (documents × out), with h the activation
on hidden layers and nothing on the last, whose width is 1. The parameters are one flat array: for each layer
W (in × out, C order), then b. Everything here is compiled, works on one thread, and may be called from other
kernels; callers give the scratch, so nothing is allocated.

The one hot operation, ``C += A B``, is written here: kernels can call it without the GIL and without the
overhead of a library, which for the 24 documents of a query is as long as the arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from rankloop.kernels.jit import kernel

ACTIVATIONS = ("sigmoid", "tanh", "relu")
SIGMOID, TANH, RELU = range(len(ACTIVATIONS))

# A tile of C stays in registers while the sum runs: 4 rows of 64 bytes are eight of the sixteen 32-byte
# registers of AVX2, enough independent sums to hide the latency of a multiply-add.
TILE_ROWS = 4
TILE_BYTES = 64

# float32 constants of e^x = 2^k e^r: arithmetic with them stays in float32, and so in SIMD.
_HALF, _ONE, _TWO, _LN2, _INV_LN2 = (np.float32(x) for x in (0.5, 1.0, 2.0, math.log(2), 1 / math.log(2)))
# 2^k must be a normal number: |k| < 127, so |x| < 127 ln 2 = 88.03.
_EXP_LIMIT = np.float32(87.0)
# The series of e^r on |r| <= ln 2 / 2, as factors for Horner's rule from the last term to the first. The
# first term left out, r⁸ / 8! < 6e-9, is below half a unit in the last place (6e-8).
_SERIES = tuple(np.float32(1 / k) for k in range(7, 0, -1))
# How a float32 stores 2^k: k + 127 above 23 bits of fraction.
_EXPONENT_BIAS, _FRACTION_BITS = np.int32(127), np.int32(23)


def _tile(rows: int, width_bytes: int) -> Any:
    """The compiled ``c[i:i+rows, j:j+columns] += a[i:i+rows] @ b[:, j:j+columns]``, sums kept in registers.

    It has as many columns as fit ``width_bytes``, at least one. The columns of b and c must be contiguous; a
    may have any strides, so that it can be a transposed view.
    """

    @intrinsic
    def tile(typing_context, a, b, c, i, j):  # noqa: ARG001
        def generate(context, builder, signature, arguments):
            a_type, b_type, c_type = signature.args[:3]
            a, b, c = (
                context.make_array(kind)(context, builder, value)
                for kind, value in zip((a_type, b_type, c_type), arguments[:3], strict=True)
            )
            i, j = arguments[3:]
            number = context.get_data_type(c_type.dtype)
            size = c_type.dtype.bitwidth // 8
            width = max(1, width_bytes // size)
            vector = ir.VectorType(number, width)

            def pointer(array, row, column):
                row_stride, column_stride = cgutils.unpack_tuple(builder, array.strides, 2)
                shift = builder.add(builder.mul(row, row_stride), builder.mul(column, column_stride))
                return cgutils.pointer_add(builder, array.data, shift)

            def vector_at(array, row):
                return builder.bitcast(pointer(array, row, j), vector.as_pointer())

            lines = [builder.add(i, ir.Constant(i.type, row)) for row in range(rows)]
            sums = [cgutils.alloca_once(builder, vector) for _ in range(rows)]
            for total, line in zip(sums, lines, strict=True):
                builder.store(builder.load(vector_at(c, line), align=size), total)
            depth = cgutils.unpack_tuple(builder, b.shape, 2)[0]
            with cgutils.for_range(builder, depth) as loop:
                b_row = builder.load(vector_at(b, loop.index), align=size)
                for total, line in zip(sums, lines, strict=True):
                    value = builder.load(pointer(a, line, loop.index))
                    value = context.cast(builder, value, a_type.dtype, c_type.dtype)
                    one = builder.insert_element(
                        ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
                    )
                    spread = builder.shuffle_vector(
                        one, one, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
                    )
                    product = builder.fmul(spread, b_row, flags=("contract",))
                    builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)
            for total, line in zip(sums, lines, strict=True):
                builder.store(builder.load(total), vector_at(c, line), align=size)
            return context.get_dummy_value()

        return types.void(a, b, c, types.intp, types.intp), generate

    return tile


# What the widest tiles leave over is done by tiles of a quarter of their width, then column by column.
_tall_wide, _flat_wide = _tile(TILE_ROWS, TILE_BYTES), _tile(1, TILE_BYTES)
_tall_slim, _flat_slim = _tile(TILE_ROWS, TILE_BYTES // 4), _tile(1, TILE_BYTES // 4)
_tall_thin, _flat_thin = _tile(TILE_ROWS, 1), _tile(1, 1)


@kernel
def add_product(a, b, c):
    """``c += a @ b`` in place; the columns of b and c are contiguous, a may be any view."""
    rows, columns = c.shape
    wide = TILE_BYTES // c.itemsize
    slim = wide // 4
    n_tall = rows // TILE_ROWS * TILE_ROWS
    for i in range(0, n_tall, TILE_ROWS):
        j = 0
        while j + wide <= columns:
            _tall_wide(a, b, c, i, j)
            j += wide
        while j + slim <= columns:
            _tall_slim(a, b, c, i, j)
            j += slim
        while j < columns:
            _tall_thin(a, b, c, i, j)
            j += 1
    for i in range(n_tall, rows):
        j = 0
        while j + wide <= columns:
            _flat_wide(a, b, c, i, j)
            j += wide
        while j + slim <= columns:
            _flat_slim(a, b, c, i, j)
            j += slim
        while j < columns:
            _flat_thin(a, b, c, i, j)
            j += 1


@kernel
def _exp32(x):
    """``e^x = 2^k e^r`` in float32, |r| <= ln 2 / 2: this becomes SIMD, a call to the C library does not."""
    if x > _EXP_LIMIT:
        x = _EXP_LIMIT
    elif x < -_EXP_LIMIT:
        x = -_EXP_LIMIT
    k = math.floor(x * _INV_LN2 + _HALF)
    r = x - np.float32(k) * _LN2
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
def _activate(values, activation):
    if activation == SIGMOID:
        _sigmoid(values)
    elif activation == TANH:
        _tanh(values)
    else:
        for k in range(len(values)):
            if values[k] < 0:
                values[k] = 0


@kernel
def _times_slope(deltas, values, activation):
    """``deltas *= h'``, where the slope of the activation is told from its value."""
    if activation == SIGMOID:
        for k in range(len(values)):
            deltas[k] *= values[k] * (1 - values[k])
    elif activation == TANH:
        for k in range(len(values)):
            deltas[k] *= 1 - values[k] * values[k]
    else:
        for k in range(len(values)):
            deltas[k] *= values[k] > 0


@kernel
def forward(features, first, last, widths, parameters, activation, activations):
    """Scores of rows ``first:last``: a view of the end of ``activations``.

    Args:
        features: float32, documents × widths[0]; only rows first:last are read.
        first: the first row.
        last: one past the last row; n = last − first.
        widths: int64, features, hidden widths …, 1.
        parameters: float32 or float64, flat, in the layout above.
        activation: SIGMOID, TANH or RELU.
        activations: scratch, flat, of the parameters' type, at least n × Σ widths[1:]. Afterwards it holds
            the activations of each layer (n × width) one after the other, and so at its end the n scores.
    """
    n = last - first
    at, start = 0, 0
    for layer in range(len(widths) - 1):
        n_in, n_out = widths[layer], widths[layer + 1]
        weights = parameters[at : at + n_in * n_out]
        bias = parameters[at + n_in * n_out : at + (n_in + 1) * n_out]
        out = activations[start : start + n * n_out]
        if layer == 0:
            _affine(features[first:last], weights, bias, out)
        else:
            _affine(activations[start - n * n_in : start].reshape(n, n_in), weights, bias, out)
        if layer < len(widths) - 2:
            _activate(out, activation)
        at += (n_in + 1) * n_out
        start += n * n_out
    return activations[start - n : start]


@kernel
def _affine(inputs, weights, bias, out):
    n, n_in = inputs.shape
    n_out = len(bias)
    if n_out == 1:
        for i in range(n):
            row = inputs[i]
            total = bias[0]
            for f in range(n_in):
                total += row[f] * weights[f]
            out[i] = total
    else:
        rows = out.reshape(n, n_out)
        for i in range(n):
            rows[i] = bias
        add_product(inputs, weights.reshape(n_in, n_out), rows)


@kernel
def backward(
    features, first, last, widths, parameters, activation, activations, score_gradient, deltas, gradient
):
    """Add to ``gradient`` what the gradient on the scores of rows ``first:last`` makes of the parameters.

    Args:
        features: as given to `forward`, which must have been called on the same rows just before.
        first: the first row.
        last: one past the last row; n = last − first.
        widths: int64, features, hidden widths …, 1.
        parameters: flat.
        activation: SIGMOID, TANH or RELU.
        activations: what `forward` left there.
        score_gradient: n derivatives of the objective, of any float type.
        deltas: scratch like ``activations``.
        gradient: flat, like ``parameters``; added to, not overwritten. It may be ``parameters`` itself: with
            ``score_gradient`` times a rate, this is then a step of gradient ascent.
    """
    n = last - first
    at, start = len(parameters), n * widths[1:].sum()
    for i in range(n):
        deltas[start - n + i] = score_gradient[i]
    for layer in range(len(widths) - 2, -1, -1):
        n_in, n_out = widths[layer], widths[layer + 1]
        at -= (n_in + 1) * n_out
        start -= n * n_out
        delta = deltas[start : start + n * n_out]
        weight_gradient = gradient[at : at + n_in * n_out]
        bias_gradient = gradient[at + n_in * n_out : at + (n_in + 1) * n_out]
        if layer == 0:
            _outer(features[first:last], delta, weight_gradient)
        else:
            # The weights are read before their gradient is added: the two may be the same array.
            inputs, before = activations[start - n * n_in : start], deltas[start - n * n_in : start]
            weights = parameters[at : at + n_in * n_out].reshape(n_in, n_out)
            _pull_back(delta.reshape(n, n_out), weights, before)
            _times_slope(before, inputs, activation)
            _outer(inputs.reshape(n, n_in), delta, weight_gradient)
        _sum_rows(delta, bias_gradient)


@kernel
def _sum_rows(delta, total):
    n_out = len(total)
    for i in range(len(delta) // n_out):
        row = delta[i * n_out : (i + 1) * n_out]
        for j in range(n_out):
            total[j] += row[j]


@kernel
def _outer(inputs, delta, weight_gradient):
    """``∂W += inputsᵀ δ``."""
    n, n_in = inputs.shape
    if len(delta) == n:
        for i in range(n):
            row, d = inputs[i], delta[i]
            for f in range(n_in):
                weight_gradient[f] += row[f] * d
    else:
        n_out = len(delta) // n
        add_product(inputs.T, delta.reshape(n, n_out), weight_gradient.reshape(n_in, n_out))


@kernel
def _pull_back(delta, weights, before):
    """``δ_{l−1} = δ_l Wᵀ``, before the slope of the activation."""
    n, n_in = len(delta), len(weights)
    for i in range(n):
        row = delta[i]
        for f in range(n_in):
            line = weights[f]
            total = before.dtype.type(0)
            for j in range(len(line)):
                total += row[j] * line[j]
            before[i * n_in + f] = total
