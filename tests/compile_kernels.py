"""Compile the kernels that most tests need, once, before several processes need them at the same time.

`make test` runs this beside the linters: ``python -m tests.compile_kernels``.
"""

from __future__ import annotations

import numpy as np

import rankloop
from rankloop import bias, clicks, online
from rankloop.evaluation import METRICS, metric
from rankloop.loop import Loop, SimulatedUsers
from rankloop.training import Settings


def main() -> None:
    """Call what is compiled with small arguments of the usual types."""
    rng = np.random.default_rng(0)
    data = rankloop.synthetic(queries=30, features=4)
    train, users = data.train, SimulatedUsers.of(data, "paper@3")
    scores = rng.normal(size=train.n_documents)
    for name in METRICS:
        cut = "" if name in ("arp", "mrr") else "@3"
        rankloop.policy_metrics(scores, train, [str(metric(f"{name}{cut}"))])
    rankings = rankloop.policies.sample_rankings(scores, train.offsets, 3, rng)[0]
    rankloop.policies.log_probability(scores, train.offsets, rankings)
    rankloop.objectives.expected_metric(scores, train.offsets, train.labels, rankloop.rank_weights.dcg(3))
    start = rankloop.train(data, "mlp", settings=Settings(epochs=1)).model
    rankloop.train(data, "lightgbm(rounds=2)")
    list(Loop(data, users, start, horizon=300, interventions=(100,)).run())
    for method in map(online.method, ("pdgd", "biased-pdgd", "coltr(candidates=2)")):
        list(Loop(data, users, start, horizon=100, interventions="all", method=method).run())
        list(Loop(data, users, start, horizon=100, interventions=(50,), method=method).run())
    offsets, people = np.arange(0, 161, 4), clicks.users("paper@2")
    counts = clicks.gather(np.zeros(160), offsets, rng.random(160), people, 20_000, rng)
    bias.estimate_bias(counts, bias.BiasOptions(resamples=0), rng=rng)


if __name__ == "__main__":
    main()
