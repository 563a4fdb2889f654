"""The tables of docs/loop.md: estimators with and without interventions, and how safe the default is.

    python -m examples.loop_tables safety FIRST LAST      # the default loop, seeds FIRST to LAST
    python -m examples.loop_tables estimators FIRST LAST  # four estimators, with 20 and without interventions

Each line is one run: 2,000 Yahoo-shaped queries of 100 features (another collection and another production
ranker for each seed), the paper's users, 10⁶ interactions.
"""

from __future__ import annotations

import sys

import numpy as np

import rankloop
from rankloop.experiments.ladder import production_data, production_queries
from rankloop.loop import ROBUST, Evaluated, Loop, exponential_times

HORIZON, FIRST_INTERVENTION, INTERVENTIONS = 1_000_000, 100, 20
ESTIMATORS = ("intervention-aware", "intervention-oblivious", "policy-aware", "affine")
METRIC = "ndcg@5"


def truth(model: rankloop.MLP, data: rankloop.Dataset) -> float:
    """The true metric of a model's policy on the test queries."""
    return rankloop.policy_metrics(model.scores(data.test.features), data.test, [METRIC])[METRIC]


def run(seed: int, estimator: str, interventions: int) -> None:
    """Run one loop and print what it came to."""
    data = rankloop.synthetic(queries=2_000, features=100, seed=seed)
    few = production_data(data, production_queries(data.train.n_queries), np.random.default_rng(seed))
    start = rankloop.train(few, "mlp", seed=seed).model
    full = rankloop.train(data, "mlp", metric="dcg@5", settings=ROBUST.settings, seed=seed).model
    loop = Loop(
        data,
        rankloop.SimulatedUsers.of(data, "paper@5"),
        start,
        HORIZON,
        exponential_times(FIRST_INTERVENTION, HORIZON, interventions),
        estimator=rankloop.estimator(estimator),
        seed=seed,
    )
    events = [event for event in loop.run() if isinstance(event, Evaluated)]
    begun, best, last = truth(start, data), truth(full, data), events[-1]
    lowest = min(event.learned for event in events)
    mean_logging = np.mean([event.logging for event in events])
    print(
        f"{estimator} interventions {interventions} seed {seed}: start {begun:.4f} full {best:.4f} "
        f"learned {last.learned:.4f} logging {last.logging:.4f} mean logging {mean_logging:.4f} "
        f"behind full {best - last.learned:+.4f} lowest below start {begun - lowest:+.4f}",
        flush=True,
    )


def main(table: str, first: int, last: int) -> None:
    """Print the runs of one table."""
    for seed in range(first, last + 1):
        if table == "safety":
            run(seed, "intervention-aware", INTERVENTIONS)
        else:
            for estimator in ESTIMATORS:
                for interventions in (INTERVENTIONS, 0):
                    run(seed, estimator, interventions)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
