"""An epoch of the network, one query per step, against its matrix products alone."""

from __future__ import annotations

import numpy as np

from benchmarks.measure import Benchmark, Effort, Result, Target, best_times
from benchmarks.queries import DOCUMENTS, GRADES, RANKS
from rankloop import rank_weights
from rankloop.models import MLP
from rankloop.training import Settings, Task, Training, train_network
from rankloop.types import Float32, Int64

# The shape of the Yahoo! collection, and the network of the paper.
FEATURES, HIDDEN = 700, 32

TIME = Target("mlp_us_per_query", "µs", "≤", 200)
RATIO = Target("mlp_vs_matmul", "times", "≤", 3)


class BareProducts:
    """The minimum work of a step: the eight products of three layers, and one addition to the parameters.

    Forward ``X W₁``, ``A₁ W₂``, ``A₂ W₃``; backward ``A₂ᵀ δ₃``, ``δ₃ W₃ᵀ``, ``A₁ᵀ δ₂``, ``δ₂ W₂ᵀ``,
    ``Xᵀ δ₁``; then ``p += rate · g`` over all parameters. There are no biases, activations, objective or
    optimiser state: the result is not a gradient, but takes as many products.

    Args:
        documents: number of documents of a query; all of them go forward.
        rng: random generator.
        backward: number of documents that go backward, the first ones; all if None.
    """

    def __init__(self, documents: int, rng: np.random.Generator, *, backward: int | None = None) -> None:
        shapes = [(FEATURES, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, 1)]
        sizes = [a * b for a, b in shapes]
        self.parameters = rng.standard_normal(sum(sizes), dtype=np.float32)
        self.gradient = np.empty_like(self.parameters)
        self.scaled = np.empty_like(self.parameters)
        cuts = np.cumsum(sizes)[:-1]
        self.w1, self.w2, self.w3 = self._layers(self.parameters, cuts, shapes)
        self.g1, self.g2, self.g3 = self._layers(self.gradient, cuts, shapes)
        self.a1, self.a2, self.d1, self.d2 = np.empty((4, documents, HIDDEN), np.float32)
        self.scores = np.empty((documents, 1), np.float32)
        self.d3 = rng.standard_normal((documents, 1), dtype=np.float32)
        self.shown = slice(backward)
        self.back_a1, self.back_a2, self.back_d1, self.back_d2, self.back_d3 = (
            array[self.shown] for array in (self.a1, self.a2, self.d1, self.d2, self.d3)
        )

    @staticmethod
    def _layers(flat: Float32, cuts: Int64, shapes: list[tuple[int, int]]) -> list[Float32]:
        return [part.reshape(shape) for part, shape in zip(np.split(flat, cuts), shapes, strict=True)]

    def step(self, features: Float32) -> None:
        """Do the products of one query, documents × features."""
        np.matmul(features, self.w1, out=self.a1)
        np.matmul(self.a1, self.w2, out=self.a2)
        np.matmul(self.a2, self.w3, out=self.scores)
        np.matmul(self.back_a2.T, self.back_d3, out=self.g3)
        np.matmul(self.back_d3, self.w3.T, out=self.back_d2)
        np.matmul(self.back_a1.T, self.back_d2, out=self.g2)
        np.matmul(self.back_d2, self.w2.T, out=self.back_d1)
        np.matmul(features[self.shown].T, self.back_d1, out=self.g1)
        # The rate is so small that the parameters do not change, however long this runs.
        np.multiply(self.gradient, np.float32(1e-12), out=self.scaled)
        np.add(self.parameters, self.scaled, out=self.parameters)


def measure(effort: Effort) -> dict[str, Result]:
    """Time one epoch, and the bare products on the same features, both in random order."""
    rng = np.random.default_rng(6)
    documents = effort.steps * DOCUMENTS
    task = Task(
        features=rng.random((documents, FEATURES), dtype=np.float32),
        offsets=np.arange(effort.steps + 1) * DOCUMENTS,
        document_weights=rng.integers(GRADES, size=documents) / (GRADES - 1),
        rank_weights=rank_weights.dcg(RANKS),
    )
    start, settings = MLP.initialise(FEATURES, rng), Settings(batch=1, epochs=1)
    bare, by_query = BareProducts(DOCUMENTS, rng), task.features.reshape(-1, DOCUMENTS, FEATURES)

    def epoch() -> Training:
        return train_network(start, task, held_out=None, settings=settings, rng=rng)

    def products() -> None:
        for q in rng.permutation(effort.steps):
            bare.step(by_query[q])

    ours, bare_time = best_times(effort.rounds, epoch, products)
    per_query = 1e6 / effort.steps
    return {
        TIME.name: Result(
            ours * per_query,
            f"{DOCUMENTS} documents × {FEATURES} features, {FEATURES}–{HIDDEN}–{HIDDEN}–1, "
            f"{settings.optimiser}, exact gradient included, one core",
        ),
        RATIO.name: Result(
            ours / bare_time,
            f"the eight products and one addition to the parameters take {bare_time * per_query:.0f} µs",
        ),
    }


NETWORK = Benchmark((TIME, RATIO), measure)
