"""Fully connected layers: scores of documents, and the gradient of the scores on the parameters.

Layer l maps a_{l−1} (documents × in) to a_l = h(a_{l−1} W_l + b_l) (documents × out), with h the activation
on hidden layers and the identity on the last, whose width is 1. The parameters are one flat array: for each
layer W (in × out, C order), then b. `forward` and `backward` treat the documents of one query, run on one
thread, and may be called from other kernels; callers provide the scratch, so that nothing is allocated but a
copy of the weights of hidden layers in `backward`.
"""

from __future__ import annotations

import numpy as np

from rankloop.kernels.activations import activate, multiply_by_slope
from rankloop.kernels.jit import kernel
from rankloop.kernels.matrix_product import add_product

# Rows that go through the layers together: enough to fill the tiles of the product, few enough that their
# activations stay in the fastest cache.
ROWS_TOGETHER = 64


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
            activate(out, activation)
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
            multiply_by_slope(before, inputs, activation)
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
    n, n_in, n_out = len(delta), weights.shape[0], weights.shape[1]
    if n_out == 1:
        for i in range(n):
            for f in range(n_in):
                before[i * n_in + f] = delta[i, 0] * weights[f, 0]
    else:
        # The product wants contiguous columns; the copy takes a fraction of it.
        transposed = np.empty((n_out, n_in), weights.dtype)
        for f in range(n_in):
            for j in range(n_out):
                transposed[j, f] = weights[f, j]
        before[:] = 0
        add_product(delta, transposed, before.reshape(n, n_in))


@kernel
def score_rows(first, last, offsets, features, widths, parameters, activation, scores):
    """Scores of the blocks of rows ``first … last``; ``offsets`` cut blocks of at most `ROWS_TOGETHER`."""
    activations = np.empty(ROWS_TOGETHER * widths[1:].sum(), parameters.dtype)
    for k in range(first, last):
        a, b = offsets[k], offsets[k + 1]
        scores[a:b] = forward(features, a, b, widths, parameters, activation, activations)


@kernel
def add_gradient(features, widths, parameters, activation, score_gradient, gradient):
    """Add to ``gradient`` what the gradient on the scores of all rows makes of the parameters."""
    activations = np.empty(ROWS_TOGETHER * widths[1:].sum(), parameters.dtype)
    deltas = np.empty_like(activations)
    for a in range(0, len(features), ROWS_TOGETHER):
        b = min(a + ROWS_TOGETHER, len(features))
        g = score_gradient[a:b]
        forward(features, a, b, widths, parameters, activation, activations)
        backward(features, a, b, widths, parameters, activation, activations, g, deltas, gradient)
