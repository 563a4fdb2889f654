"""Online methods, interaction after interaction: how many a second, and PDGD against its matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.measure import Benchmark, Effort, Result, Target, best_times
from benchmarks.mlp import FEATURES, HIDDEN, BareProducts
from benchmarks.queries import DOCUMENTS, GRADES, RANKS
from rankloop.clicks import Impressions, users
from rankloop.models import MLP
from rankloop.online import MethodState, Queries, Traffic, interact, interact_log, method
from rankloop.types import Float32

PDGD_SPEED = Target("pdgd_per_second", "interactions/s", "≥", 5_000)
COLTR_SPEED = Target("coltr_per_second", "interactions/s", "≥", 150)
RATIO = Target("pdgd_vs_matmul", "times", "≤", 3)


class ShownProducts(BareProducts):
    """What an interaction cannot do without: all documents forward, those that are shown backward.

    Like `BareProducts`, but ``A₂ᵀ δ₃``, ``δ₃ W₃ᵀ``, ``A₁ᵀ δ₂``, ``δ₂ W₂ᵀ`` and ``Xᵀ δ₁`` over the documents
    of one page alone. They are taken to be the first ones, so that nothing is gathered.
    """

    def step(self, features: Float32) -> None:
        """Do the products of one interaction, documents × features."""
        np.matmul(features, self.w1, out=self.a1)
        np.matmul(self.a1, self.w2, out=self.a2)
        np.matmul(self.a2, self.w3, out=self.scores)
        a1, a2, d1, d2, d3 = (part[:RANKS] for part in (self.a1, self.a2, self.d1, self.d2, self.d3))
        np.matmul(a2.T, d3, out=self.g3)
        np.matmul(d3, self.w3.T, out=d2)
        np.matmul(a1.T, d2, out=self.g2)
        np.matmul(d2, self.w2.T, out=d1)
        np.matmul(features[:RANKS].T, d1, out=self.g1)
        # So small a rate that numbers stay what they are, however long it runs.
        np.multiply(self.gradient, np.float32(1e-12), out=self.scaled)
        np.add(self.parameters, self.scaled, out=self.parameters)


def measure(effort: Effort) -> dict[str, Result]:
    """Time as many interactions as there are queries, and the bare products on random ones of them."""
    rng = np.random.default_rng(7)
    documents = effort.steps * DOCUMENTS
    features = rng.random((documents, FEATURES), dtype=np.float32)
    # Training and validation queries lie in two matrices, as in the loop.
    half = effort.steps // 2 * DOCUMENTS
    traffic = Traffic(
        Queries((features[:half], features[half:]), np.arange(effort.steps + 1) * DOCUMENTS),
        rng.integers(GRADES, size=documents) / (GRADES - 1),
        users(f"paper@{RANKS}"),
    )
    start = MLP.initialise(FEATURES, rng)
    bare, by_query = ShownProducts(DOCUMENTS, rng), features.reshape(-1, DOCUMENTS, FEATURES)
    pdgd, coltr = method("pdgd"), method("coltr")
    states = {chosen.name: MethodState.start(chosen, start, rng) for chosen in (pdgd, coltr)}

    def interactions(name: str) -> Callable[[], object]:
        return lambda: interact(method(name), states[name], traffic, effort.steps)

    def products() -> None:
        for q in rng.permutation(effort.steps):
            bare.step(by_query[q])

    pdgd_time, coltr_time, bare_time = best_times(
        effort.rounds, interactions("pdgd"), interactions("coltr"), products
    )
    setting = f"{DOCUMENTS} documents × {FEATURES} features, {FEATURES}–{HIDDEN}–{HIDDEN}–1, one core"
    _, log = interact_log(coltr, states["coltr"], traffic, effort.steps)
    each = 1e6 / effort.steps
    return {
        PDGD_SPEED.name: Result(effort.steps / pdgd_time, f"{setting}; {pdgd_time * each:.0f} µs each"),
        COLTR_SPEED.name: Result(
            effort.steps / coltr_time,
            f"50 candidates, {coltr_time * each:.0f} µs each; {_judged(log):.0%} of the interactions have an "
            "item that was passed over, and need candidates",
        ),
        RATIO.name: Result(
            pdgd_time / bare_time,
            f"the products (forward {DOCUMENTS} documents, backward {RANKS}) and one addition to the "
            f"parameters take {bare_time * each:.0f} µs",
        ),
    }


def _judged(log: Impressions) -> float:
    """The share of interactions in which a click lies below an item that was not clicked."""
    seen = np.cumsum(log.clicks[:, ::-1], axis=1)[:, ::-1] > 0
    return float((seen & ~log.clicks).any(axis=1).mean())


ONLINE = Benchmark((PDGD_SPEED, COLTR_SPEED, RATIO), measure)
