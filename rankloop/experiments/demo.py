"""The demonstration: the ladder on a data set, its table, its picture and its models in one folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rankloop._version import __version__
from rankloop.data import dataset
from rankloop.experiments.figures import learning_curves
from rankloop.experiments.ladder import METRIC, Rung, Watch, climb
from rankloop.files import save, write_whole


@dataclass(frozen=True)
class Demonstration:
    """What was measured, and where it is.

    Attributes:
        dataset: the name of the data.
        test_queries: how many queries the values are means of.
        metric: what was maximised and measured.
        rungs: the rankers, from random to full information.
        written: the files.
    """

    dataset: str
    test_queries: int
    metric: str
    rungs: list[Rung]
    written: list[Path]


def run(
    data: str, *, fold: int = 1, seed: int = 0, folder: Path, metric: str = METRIC, watch: Watch | None = None
) -> Demonstration:
    """Climb the ladder and write results.json, the learning curves and the models to the folder."""
    collection = dataset(data, fold=fold)
    rungs = climb(collection, metric=metric, seed=seed, watch=watch)
    written = learning_curves(rungs, metric, folder / "learning-curves")
    results = {
        "version": __version__,
        "data": data,
        "fold": fold,
        "seed": seed,
        "metric": metric,
        "test_queries": collection.test.n_queries,
        "rankers": [
            {
                "name": rung.name,
                "queries": rung.queries,
                "ranking": rung.ranking,
                "policy": rung.policy,
                "fingerprint": rung.training.model.fingerprint if rung.training else None,
                "held_out": [epoch.held_out for epoch in rung.training.history] if rung.training else [],
            }
            for rung in rungs
        ],
    }
    written.append(write_whole(folder / "results.json", json.dumps(results, indent=2).encode()))
    best = rungs[-1].training
    assert best is not None
    written.append(save(best.model, folder / "full-information.rankloop"))
    return Demonstration(collection.name, collection.test.n_queries, metric, rungs, written)
