"""Online methods: impressions per second, and PDGD against its matrix products."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.measure import Benchmark, Effort, Result, Target, best_times
from benchmarks.mlp import FEATURES, HIDDEN, BareProducts
from benchmarks.queries import DOCUMENTS, GRADES, RANKS
from rankloop.clicks import Impressions, users
from rankloop.models import MLP
from rankloop.online import MethodState, Queries, Traffic, interact, interact_log, method

PDGD_SPEED = Target("pdgd_per_second", "impressions/s", "≥", 5_000)
COLTR_SPEED = Target("coltr_per_second", "impressions/s", "≥", 150)
RATIO = Target("pdgd_vs_matmul", "times", "≤", 3)


def measure(effort: Effort) -> dict[str, Result]:
    """Time as many impressions as there are queries, and the bare products on the queries in random order.

    An impression scores all documents and needs the gradient of those that are shown. The baseline takes the
    first documents for these, so that no rows need to be gathered.
    """
    rng = np.random.default_rng(7)
    documents = effort.steps * DOCUMENTS
    features = rng.random((documents, FEATURES), dtype=np.float32)
    # Training and validation queries are in two matrices, as in the loop.
    half = effort.steps // 2 * DOCUMENTS
    traffic = Traffic(
        Queries((features[:half], features[half:]), np.arange(effort.steps + 1) * DOCUMENTS),
        rng.integers(GRADES, size=documents) / (GRADES - 1),
        users(f"paper@{RANKS}"),
    )
    start = MLP.initialise(FEATURES, rng)
    bare, by_query = BareProducts(DOCUMENTS, rng, backward=RANKS), features.reshape(-1, DOCUMENTS, FEATURES)
    pdgd, coltr = method("pdgd"), method("coltr")
    states = {chosen.name: MethodState.start(chosen, start, rng) for chosen in (pdgd, coltr)}

    def impressions(name: str) -> Callable[[], object]:
        return lambda: interact(method(name), states[name], traffic, effort.steps)

    def products() -> None:
        for q in rng.permutation(effort.steps):
            bare.step(by_query[q])

    pdgd_time, coltr_time, bare_time = best_times(
        effort.rounds, impressions("pdgd"), impressions("coltr"), products
    )
    setting = f"{DOCUMENTS} documents × {FEATURES} features, {FEATURES}–{HIDDEN}–{HIDDEN}–1, one core"
    _, log = interact_log(coltr, states["coltr"], traffic, effort.steps)
    each = 1e6 / effort.steps
    return {
        PDGD_SPEED.name: Result(
            effort.steps / pdgd_time, f"{setting}; {pdgd_time * each:.0f} µs per impression"
        ),
        COLTR_SPEED.name: Result(
            effort.steps / coltr_time,
            f"50 candidates, {coltr_time * each:.0f} µs per impression; {_judged(log):.0%} of them "
            "have a skipped document, and need candidates",
        ),
        RATIO.name: Result(
            pdgd_time / bare_time,
            f"the products (forward {DOCUMENTS} documents, backward {RANKS}) and one addition to the "
            f"parameters take {bare_time * each:.0f} µs",
        ),
    }


def _judged(log: Impressions) -> float:
    """Compute the share of impressions in which a click is below a document that was not clicked."""
    seen = np.cumsum(log.clicks[:, ::-1], axis=1)[:, ::-1] > 0
    return float((seen & ~log.clicks).any(axis=1).mean())


ONLINE = Benchmark((PDGD_SPEED, COLTR_SPEED, RATIO), measure)
