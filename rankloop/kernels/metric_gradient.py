"""The gradient of the expected metric of one query: what networks are trained with, and nothing more.

`rankloop.kernels.expectations` computes the value and three derivatives for any number of ranks. Steps of a
network need one derivative, millions of times. Here it is computed for four nodes of the quadrature at once,
whose sums over ranks stay in registers from document to document, in a few kilobytes of scratch. With L and H
of the documents after j, F and G of those before it (the docs derive them), q, a = 1 − q, d the density of j,
z = w t:

    ∂V/∂s_j = Σ_nodes  r_j d (1 − z) Σ_m F_m L_m  −  z q Σ_m [G_m (L_m − L_{m+1}) + F_m (H_m − H_{m+1})]

The two terms of a peaked policy cancel, so the error is relative to the weights r, not to the gradient: below
1e-7 of them, which is also how exactly float32 networks hold their own gradients.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from rankloop.kernels.jit import kernel
from rankloop.kernels.quadrature import (
    TINY,
    block_end,
    block_width,
    fit,
    place_nodes,
    read_clocks,
    ring_density,
)

# Nodes that are handled together: one 32-byte register of float64.
NODES_TOGETHER = 4
# The numbers of ranks that code is generated for. Fewer ranks use the next larger one, with weights of 0; for
# more, sums no longer fit the registers.
FEW_RANKS, SEVERAL_RANKS = 5, 10

_VECTOR = ir.VectorType(ir.DoubleType(), NODES_TOGETHER)
_FUSED = ("contract", "reassoc", "nsz")


class _Vectors:
    """Arithmetic on vectors of nodes, and their places in float64 arrays with contiguous last axes."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder

    def array(self, kind: Any, value: Any) -> Any:
        return self.context.make_array(kind)(self.context, self.builder, value)

    def constant(self, number: float) -> Any:
        return ir.Constant(_VECTOR, [number] * NODES_TOGETHER)

    def variable(self, number: float) -> Any:
        place = cgutils.alloca_once(self.builder, _VECTOR)
        self.builder.store(self.constant(number), place)
        return place

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.builder.fadd(self.builder.fmul(a, b, flags=_FUSED), c, flags=_FUSED)

    def number_at(self, array: Any, index: Any) -> Any:
        """One number of a vector, in all places."""
        number = self.builder.load(self._pointer(array, [index]))
        one = self.builder.insert_element(
            ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(ir.IntType(32), 0)
        )
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), NODES_TOGETHER), [0] * NODES_TOGETHER)
        return self.builder.shuffle_vector(one, one, zeros)

    def load(self, array: Any, *indices: Any) -> Any:
        return self.builder.load(self._vector_pointer(array, indices), align=8)

    def store(self, value: Any, array: Any, *indices: Any) -> None:
        self.builder.store(value, self._vector_pointer(array, indices), align=8)

    def _vector_pointer(self, array: Any, indices: Any) -> Any:
        return self.builder.bitcast(self._pointer(array, indices), _VECTOR.as_pointer())

    def _pointer(self, array: Any, indices: Any) -> Any:
        strides = cgutils.unpack_tuple(self.builder, array.strides, len(indices))
        shift = self.builder.mul(indices[0], strides[0])
        for index, stride in zip(indices[1:], strides[1:], strict=True):
            shift = self.builder.add(shift, self.builder.mul(index, stride))
        return cgutils.pointer_add(self.builder, array.data, shift)


def _gradient_pass(ranks: int) -> Any:
    """The compiled pass over the documents and back, for the nodes ``b … b + 4`` of a block and these ranks.

    Arguments: documents; the node b; r; θ, as many as ranks; waiting, arrived, density and elapsed, each
    documents × nodes; scratch, documents × (2 ranks · 4); and slopes, documents × 4, to which terms of the
    gradient are added.
    """

    @intrinsic
    def run(typing_context, n, b, r, theta, waiting, arrived, density, elapsed, scratch, slopes):  # noqa: ARG001
        def generate(context, builder, signature, arguments):
            code = _Vectors(context, builder)
            count, node = arguments[:2]
            r, theta, waiting, arrived, density, elapsed, scratch, slopes = (
                code.array(kind, value) for kind, value in zip(signature.args[2:], arguments[2:], strict=True)
            )
            index = count.type
            zero = ir.Constant(index, 0)
            places = [ir.Constant(index, NODES_TOGETHER * m) for m in range(2 * ranks)]
            tiny, none = code.constant(TINY), code.constant(0.0)

            ahead = [code.variable(1.0 if m == 0 else 0.0) for m in range(ranks)]
            gained = [code.variable(0.0) for _ in range(ranks)]
            with cgutils.for_range(builder, count) as loop:
                j = loop.index
                q, a, d = (code.load(array, j, node) for array in (waiting, arrived, density))
                earned = builder.fmul(code.number_at(r, j), d, flags=_FUSED)
                F, G = ([builder.load(place) for place in sums] for sums in (ahead, gained))
                for m in range(ranks):
                    code.store(F[m], scratch, j, places[m])
                    code.store(G[m], scratch, j, places[ranks + m])
                    moved = tiny if m == 0 else code.multiply_add(a, F[m - 1], tiny)
                    builder.store(code.multiply_add(q, F[m], moved), ahead[m])
                    moved = tiny if m == 0 else code.multiply_add(a, G[m - 1], tiny)
                    moved = code.multiply_add(earned, F[m], moved)
                    builder.store(code.multiply_add(q, G[m], moved), gained[m])

            later = [cgutils.alloca_once(builder, _VECTOR) for _ in range(ranks)]
            owed = [code.variable(0.0) for _ in range(ranks)]
            for m in range(ranks):
                builder.store(code.number_at(theta, ir.Constant(index, m)), later[m])
            with cgutils.for_range_slice(
                builder, builder.sub(count, ir.Constant(index, 1)), ir.Constant(index, -1),
                ir.Constant(index, -1), intp=index, inc=False,
            ) as (j, _):  # fmt: skip
                q, a, d, z = (code.load(array, j, node) for array in (waiting, arrived, density, elapsed))
                earned = builder.fmul(code.number_at(r, j), d, flags=_FUSED)
                L, H = ([*(builder.load(place) for place in sums), none] for sums in (later, owed))
                own, others = none, none
                for m in range(ranks):
                    f = code.load(scratch, j, places[m])
                    g = code.load(scratch, j, places[ranks + m])
                    own = code.multiply_add(f, L[m], own)
                    others = code.multiply_add(g, builder.fsub(L[m], L[m + 1], flags=_FUSED), others)
                    others = code.multiply_add(f, builder.fsub(H[m], H[m + 1], flags=_FUSED), others)
                    moved = tiny if m == ranks - 1 else code.multiply_add(a, H[m + 1], tiny)
                    moved = code.multiply_add(earned, L[m], moved)
                    builder.store(code.multiply_add(q, H[m], moved), owed[m])
                    moved = tiny if m == ranks - 1 else code.multiply_add(a, L[m + 1], tiny)
                    builder.store(code.multiply_add(q, L[m], moved), later[m])
                slope = builder.fmul(earned, builder.fsub(code.constant(1.0), z), flags=_FUSED)
                slope = builder.fmul(slope, own, flags=_FUSED)
                loss = builder.fmul(builder.fmul(z, q, flags=_FUSED), others, flags=_FUSED)
                slope = builder.fadd(code.load(slopes, j, zero), builder.fsub(slope, loss), flags=_FUSED)
                code.store(slope, slopes, j, zero)
            return context.get_dummy_value()

        arrays = (r, theta, waiting, arrived, density, elapsed, scratch, slopes)
        return types.void(types.intp, types.intp, *arrays), generate

    return run


_pass_few, _pass_several = _gradient_pass(FEW_RANKS), _gradient_pass(SEVERAL_RANKS)


@kernel
def gradient_scratch(n):
    """Scratch for queries of up to ``n`` documents: of the passes, and of their sums over nodes."""
    return np.empty((n, 2 * SEVERAL_RANKS * NODES_TOGETHER)), np.empty((n, NODES_TOGETHER))


@kernel
def metric_gradient(scores, document_weights, rank_weights, race, scratch, slopes, gradient):
    """``gradient = ∂/∂s Σ_j r_j E[θ_rank(j)]`` of one query of finite scores and at most `SEVERAL_RANKS`.

    Args:
        scores: s, the documents' log-weights.
        document_weights: r.
        rank_weights: θ.
        race: a `rankloop.kernels.quadrature.workspace` for these documents and ranks.
        scratch: from `gradient_scratch`.
        slopes: from `gradient_scratch`.
        gradient: the result.
    """
    n = len(scores)
    ranks = min(n, len(rank_weights))
    few = len(rank_weights) <= FEW_RANKS
    theta = np.zeros(SEVERAL_RANKS)
    for m in range(ranks):
        theta[m] = rank_weights[m]
    work = fit(race, n, ranks)
    count = place_nodes(scores, ranks, work.positions, work.widths)
    width = block_width(n, ranks) // NODES_TOGETHER * NODES_TOGETHER
    slopes[:n] = 0.0
    first = 0
    while first < count:
        last = block_end(work.positions, first, count, width)
        nodes = last - first
        read_clocks(scores, work.positions, first, last, work.elapsed, work.waiting, work.arrived)
        ring_density(n, work.widths, first, nodes, work.elapsed, work.waiting, work.density)
        # Nodes that only fill up the last vector: clocks that never ring.
        for j in range(n):
            for b in range(nodes, -(-nodes // NODES_TOGETHER) * NODES_TOGETHER):
                work.elapsed[j, b] = 0.0
                work.waiting[j, b] = 1.0
                work.arrived[j, b] = 0.0
                work.density[j, b] = 0.0
        for b in range(0, nodes, NODES_TOGETHER):
            if few:
                _pass_few(
                    n, b, document_weights, theta, work.waiting, work.arrived, work.density, work.elapsed,
                    scratch, slopes,
                )  # fmt: skip
            else:
                _pass_several(
                    n, b, document_weights, theta, work.waiting, work.arrived, work.density, work.elapsed,
                    scratch, slopes,
                )  # fmt: skip
        first = last
    total = 0.0
    for j in range(n):
        gradient[j] = slopes[j, 0] + slopes[j, 1] + slopes[j, 2] + slopes[j, 3]
        total += gradient[j]
    # Only differences of scores matter, so the exact gradient sums to 0. Adam would follow an error of it.
    for j in range(n):
        gradient[j] -= total / n
