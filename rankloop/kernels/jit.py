"""Compilation of kernels: on first use, without the GIL, and cached on disk for the next process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from rankloop.kernels.machine_code import cache_machine_code

# Sums may be reordered and multiplications fused, for SIMD; infinities and NaN keep their meaning, because
# a score of -inf is how a document is excluded.
FASTMATH = {"reassoc", "contract", "arcp", "nsz"}

# For kernels whose precision depends on the order of operations.
ORDERED = {"contract", "nsz"}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of arrays and numbers."""
    return _compiled(function, FASTMATH)


def ordered_kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function whose floating-point operations must stay in the order they are written in."""
    return _compiled(function, ORDERED)


def _compiled(function: Callable[..., Any], fastmath: set[str]) -> Callable[..., Any]:
    compiled = numba.njit(nogil=True, fastmath=fastmath, error_model="numpy")(function)
    cached: Callable[..., Any] = cache_machine_code(compiled)
    return cached


@intrinsic
def bits_of(_typing_context: Any, _number: Any) -> Any:
    """The 64 bits of a float64, as an int64."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def float_of(_typing_context: Any, _bits: Any) -> Any:
    """The float64 that these 64 bits spell."""

    def codegen(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), codegen
