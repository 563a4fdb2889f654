"""One ascent step of an optimiser, in place."""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel

METHODS = ("sgd", "adam")
SGD_METHOD, ADAM_METHOD = range(len(METHODS))


@kernel
def sgd_step(parameters, gradient, rate):
    """``p ← p + rate · g`` in place."""
    scale = parameters.dtype.type(rate)
    for k in range(len(parameters)):
        parameters[k] += scale * gradient[k]


@kernel
def adam_step(
    parameters,
    gradient,
    first_moment,
    second_moment,
    step,
    rate,
    beta1,
    beta2,
    epsilon,
):
    """Adam's step number ``step`` (from 1), in place on parameters and moments."""
    number = parameters.dtype.type
    # The corrections 1 − βᵗ are scalars: outside the loop, they leave one root and one division inside.
    root = math.sqrt(1 - beta2**step)
    scale, floor = number(rate * root / (1 - beta1**step)), number(epsilon * root)
    keep1, new1, keep2, new2 = number(beta1), number(1 - beta1), number(beta2), number(1 - beta2)
    for k in range(len(parameters)):
        g = gradient[k]
        m = keep1 * first_moment[k] + new1 * g
        v = keep2 * second_moment[k] + new2 * g * g
        first_moment[k] = m
        second_moment[k] = v
        parameters[k] += scale * m / (np.sqrt(v) + floor)


@kernel
def ascend(
    method,
    constants,
    parameters,
    gradient,
    first_moment,
    second_moment,
    step,
):
    """One step of the optimiser with the code ``method`` and these constants, in place."""
    if method == SGD_METHOD:
        sgd_step(parameters, gradient, constants[0])
    else:
        rate, beta1, beta2, epsilon = constants[0], constants[1], constants[2], constants[3]
        adam_step(parameters, gradient, first_moment, second_moment, step, rate, beta1, beta2, epsilon)
