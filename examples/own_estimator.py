"""Tutorial: your own estimator, by name, checked, and compared in the loop."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

import rankloop
from rankloop.checks import check_estimator
from rankloop.estimators import Estimator
from rankloop.loop import Evaluated
from rankloop.types import Bias, Float64


@rankloop.register
@dataclass(frozen=True)
class ClickRate(Estimator):
    """Clicks per display, with displays added that had no click. It corrects none of the biases."""

    name: ClassVar[str] = "click-rate"
    added: float = 10.0

    @property
    def unclipped(self) -> Self:
        """The same without the displays that were added."""
        return replace(self, added=0.0)

    def _total(self, statistics: rankloop.statistics.Statistics, bias: Bias, /) -> Float64:  # noqa: ARG002
        displays = statistics.displays_by_position.sum(axis=1) + self.added
        times = statistics.per_document(statistics.impressions_by_query)
        return statistics.clicks / np.maximum(displays, 1) * times


def learn_with(name: str, data: rankloop.Dataset) -> float:
    """Return the NDCG@5 of what is learned with an estimator from a static log of simulated clicks."""
    users = rankloop.SimulatedUsers.of(data, "paper@5", relevance=f"linear(max_label={data.max_label:g})")
    start = rankloop.models.Linear.initialise(data.n_features, np.random.default_rng(1))
    loop = rankloop.Loop(data, users, start, horizon=300_000, estimator=rankloop.estimator(name))
    return [event.learned for event in loop.run() if isinstance(event, Evaluated)][-1]


def main() -> None:
    """Check the contract of the estimator, then compare it with those of the paper."""
    check_estimator(ClickRate())
    print("contract kept: statistics that add, weights that scale")
    # The path of your own labelled data, or generated data.
    data = rankloop.dataset(
        sys.argv[1] if len(sys.argv) > 1 else "synthetic(queries=400, features=20, seed=3)"
    )
    for name in ("naive", "affine", "policy-aware", "click-rate(added=20)", "intervention-aware"):
        print(f"{learn_with(name, data):.2f} {name}")


if __name__ == "__main__":
    main()
