"""Directions on the unit sphere of all parameters, drawn only as far as the documents of one query see them.

A direction is g / ‖g‖ with g standard normal. Of the part U of g (inputs × units) that belongs to the first
layer, the documents X (documents × inputs, the last input being the 1 of the bias) see nothing but X U. With

    X Xᵀ = F Fᵀ,   F: documents × rank,         X U = F G,   G = Qᵀ U: rank × units, standard normal,

where the columns of Q are orthonormal and span the documents. So G is drawn instead of U. What is missing
for ‖g‖ is the length of the rest, ``‖(I − Q Qᵀ) U‖²``: chi-square with (inputs − rank) · units degrees of
freedom, and independent of G. Everything computed from a direction has exactly the right distribution.

The rest itself is needed only for the directions that won, and of these only the sum. The rests are
independent, of known lengths, and uniform on a sphere, so their sum points in a uniform direction too; how
long it is follows from the angles between them, one number per winner (`lengthen`). In the end one U is
drawn, however many won (`complete`):

    U = Q G + c (I − Q Qᵀ) Z = c Z + Xᵀ C,      Z standard normal,   Q Qᵀ Z = Xᵀ (X Xᵀ)⁻¹ X Z

If there are almost as many documents as inputs, this gains nothing: F is X itself, and G is U.
"""

from __future__ import annotations

import math

import numpy as np

from rankloop.kernels.jit import kernel
from rankloop.kernels.matrix_product import add_product
from rankloop.kernels.normal_numbers import draw_chi_square, draw_normal, fill_normal

# A document whose remaining square is below this share of the longest one's counts as a combination of the
# others: 1e-6 of its length is the precision of float32 scores.
LEAST_REST = 1e-12


# Costs, in multiply-adds of a product that fills the registers, of a normal number and of a multiply-add of
# the factorisation, which is in float64 and does not fill them.
NORMAL_COST, FACTOR_COST = 40, 4


@kernel
def is_direct(documents, widths, candidates):
    """Return whether whole directions are cheaper to draw: with many documents, or few candidates."""
    inputs, units = widths[0] + 1, widths[1]
    saved = candidates * units * (inputs - documents) * (NORMAL_COST + documents)
    return saved <= FACTOR_COST * documents * documents // 2 * inputs


@kernel
def copy_documents(rows, factor):
    """F = X, for directions that are drawn whole. Return the rank."""
    n, inputs = rows.shape
    for i in range(n):
        factor[i, :inputs] = rows[i]
        factor[i, inputs] = 1.0
    return inputs + 1


@kernel
def inner(x, y):
    """``x · y + 1``: the inner product of two documents and of the 1 that the bias sees."""
    total = 1.0
    for f in range(len(x)):
        total += np.float64(x[f]) * np.float64(y[f])
    return total


@kernel
def factorise(rows, factor, pivots, rest):
    """F with ``X Xᵀ = F Fᵀ``, by Cholesky's method, document by document. Return the rank.

    The document with the largest remainder comes next, until no remainder is left; ``pivots`` are these
    documents, in that order. ``rest`` is scratch, one number per document.
    """
    n = len(rows)
    factor[:n, :n] = 0.0
    longest = 0.0
    for j in range(n):
        rest[j] = inner(rows[j], rows[j])
        longest = max(longest, rest[j])
    for rank in range(n):
        p = np.argmax(rest[:n])
        if rest[p] <= LEAST_REST * longest:
            return rank
        pivots[rank] = p
        root = math.sqrt(rest[p])
        rest[p] = -np.inf
        factor[p, rank] = root
        for j in range(n):
            if rest[j] == -np.inf:
                continue
            left = inner(rows[j], rows[p])
            for m in range(rank):
                left -= factor[j, m] * factor[p, m]
            factor[j, rank] = left / root
            rest[j] -= factor[j, rank] * factor[j, rank]
    return n


@kernel
def lengthen(spread, more, freedom, stream):
    """The length of the sum of two vectors of these lengths whose angle is that of two random directions.

    The cosine is the first coordinate of a point that is uniform on the sphere in ``freedom`` dimensions.
    """
    first = draw_normal(stream)
    cosine = first / math.sqrt(first * first + draw_chi_square(stream, freedom - 1))
    return math.sqrt(max(0.0, spread * spread + more * more + 2.0 * spread * more * cosine))


@kernel
def complete(rows, factor, pivots, seen, spread, stream, whole, images):
    """Fill ``whole`` with the directions U that the documents see as ``seen``, and whose rest is ``spread``.

    Args:
        rows: the documents, n × features, without the 1 of the bias.
        factor: from `factorise`.
        pivots: likewise; as many as there are rows of ``seen``.
        seen: G, rank × units.
        spread: the length of what the documents do not see.
        stream: of random numbers.
        whole: out, inputs × units.
        images: scratch, 2 × documents × units.
    """
    n, features = rows.shape
    rank, units = seen.shape
    square = fill_normal(stream, whole.reshape(-1))
    # X Z, then Qᵀ Z: forward substitution.
    through, known = images[0, :n], images[1, :rank]
    for i in range(n):
        through[i] = whole[features]
    add_product(rows, whole[:features], through)
    for k in range(rank):
        known[k] = through[pivots[k]]
        for m in range(k):
            for u in range(units):
                known[k, u] -= factor[pivots[k], m] * known[m, u]
        for u in range(units):
            known[k, u] /= factor[pivots[k], k]
            square -= known[k, u] * known[k, u]
    scale = spread / math.sqrt(square)
    # C with Q (G − c Qᵀ Z) = Xᵀ C: backward substitution, on the documents that are pivots.
    through[:] = 0.0
    for k in range(rank - 1, -1, -1):
        row = through[pivots[k]]
        for u in range(units):
            row[u] = seen[k, u] - scale * known[k, u]
        for m in range(k + 1, rank):
            for u in range(units):
                row[u] -= factor[pivots[m], k] * through[pivots[m], u]
        for u in range(units):
            row[u] /= factor[pivots[k], k]
    whole *= scale
    add_product(rows.T, through, whole[:features])
    for i in range(n):
        for u in range(units):
            whole[features, u] += through[i, u]
