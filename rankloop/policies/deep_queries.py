"""Queries with many items and many ranks, one at a time: what `rankloop.kernels.deep_ranks` computes.

A query of thousands of items takes seconds or minutes. It is computed in parts, between which Ctrl-C is
noticed, and refused if it would take hours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.deep_ranks import DEEP, add_deep_derivatives, add_deep_weights
from rankloop.kernels.quadrature import count_nodes
from rankloop.ragged import offsets_of, run_all
from rankloop.types import Float64, Int64

# Arithmetic steps of a part: well below a second.
STEPS_PER_PART = 2e8
# Steps that are refused: about an hour.
MOST_STEPS = 1e13
# The number of possible arrivals at a node is at most this many times the root of the number of items.
BAND = 14.0


class Divided:
    """The queries of a call: deep ones, which are computed here, and the others.

    Attributes:
        deep: numbers of the queries with more than `DEEP` items and ranks.
        shallow: numbers of the other queries.
        shallow_items: numbers of their items.
        shallow_offsets: their offsets, if only their items are listed.
    """

    def __init__(self, offsets: Int64, ranks: int) -> None:
        sizes = np.diff(offsets)
        is_deep = sizes > (DEEP if ranks > DEEP else np.inf)
        self.deep = np.flatnonzero(is_deep)
        self.shallow = np.flatnonzero(~is_deep)
        self.shallow_items = np.flatnonzero(np.repeat(~is_deep, sizes))
        self.shallow_offsets = offsets_of(sizes[~is_deep])
        self._offsets = offsets

    def add_weights(self, scores: Float64, rank_weights: Float64, out: Float64) -> None:
        """Add the expected rank weights of the deep queries to ``out``, items × vectors."""

        def steps(first: int, last: int) -> Iterator[None]:
            shown = np.flatnonzero(scores[first:last] > -np.inf)
            part = np.zeros((len(shown), len(rank_weights)))
            given = scores[first:last][shown]
            for begin, end in _parts(given, rank_weights):
                yield add_deep_weights(given, rank_weights, begin, end, part)
            out[first + shown] = part

        self._run(steps)

    def add_derivatives(
        self, scores: Float64, doc_weights: Float64, rank_weights: Float64, values: Float64, out: Float64
    ) -> None:
        """Add the values of the deep queries to ``values``, and the derivatives to ``out``, 3 × items."""

        def steps(first: int, last: int) -> Iterator[None]:
            shown = np.flatnonzero(scores[first:last] > -np.inf)
            part = np.zeros((3, len(shown)))
            given, weights = scores[first:last][shown], doc_weights[first:last][shown]
            query = np.searchsorted(self._offsets, first, side="right") - 1
            for begin, end in _parts(given, rank_weights[None]):
                values[query] += add_deep_derivatives(given, weights, rank_weights, begin, end, part)
                yield
            out[:, first + shown] = part

        self._run(steps)

    def _run(self, steps: Callable[[int, int], Iterator[None]]) -> None:
        run_all([steps(int(self._offsets[q]), int(self._offsets[q + 1])) for q in self.deep])


def _parts(scores: Float64, rank_weights: Float64) -> Iterator[tuple[int, int]]:
    """Ranges of nodes that take well below a second each."""
    n = len(scores)
    if n == 0:
        return
    ranks = min(n, rank_weights.shape[1])
    nodes = count_nodes(np.sort(scores)[::-1], ranks)
    possible = min(ranks, BAND * np.sqrt(n))
    vectors = min(len(rank_weights), possible) if len(rank_weights) > 1 else 1
    steps = n * possible * vectors
    if nodes * steps > MOST_STEPS:
        raise DataError(
            f"a query of {n:,} items with {ranks:,} ranks would take hours: give fewer ranks, or ask for "
            f"expected rank weights instead of the probability of every rank"
        )
    stride = max(1, int(STEPS_PER_PART / steps))
    for begin in range(0, nodes, stride):
        yield begin, begin + stride
