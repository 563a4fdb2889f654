"""Agreement with the paper authors' programs, period by period."""

from __future__ import annotations

from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from rankloop.estimators import ClippedEstimator, estimator
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias

# Both sides are float64; they sum in different orders.
TOLERANCE = {"rtol": 1e-12, "atol": 1e-14}


def periods_of(case: dict[str, Any]) -> list[Statistics]:
    offsets = np.concatenate([[0], np.cumsum(case["query_sizes"])])
    return [
        Statistics.of_policy(
            f"policy {number}",
            offsets,
            # The golden values have no estimator that looks at examination.
            Exposure(
                np.array(period["expected_alpha"]),
                np.array(period["expected_beta"]),
                np.ones(offsets[-1]),
            ),
            impressions_by_query=period["query_counts"],
            displays_by_position=period["displays_by_rank"],
            clicks_by_position=period["clicks_by_rank"],
        )
        for number, period in enumerate(case["periods"])
    ]


def bias_of(case: dict[str, Any]) -> Bias:
    return Bias(alpha=case["alpha"], beta=case["beta"], examination=np.ones(len(case["alpha"])))


def test_there_is_something_to_agree_with(golden: dict[str, Any]) -> None:
    given = {name for case in golden["estimators"] for p in case["periods"] for name in p["weights"]}
    assert given == {"affine", "intervention_aware", "intervention_oblivious"}


@pytest.mark.parametrize("name", ["affine", "intervention-aware", "intervention-oblivious"])
def test_weights_after_every_period(golden: dict[str, Any], name: str) -> None:
    chosen = estimator(name)
    assert isinstance(chosen, ClippedEstimator)
    for case in golden["estimators"]:
        so_far = accumulate(periods_of(case))
        for statistics, period in zip(so_far, case["periods"], strict=True):
            assert chosen.bound(statistics.log_impressions) == pytest.approx(period["clip"], rel=1e-14)
            weights = chosen.weights(statistics, bias_of(case))
            np.testing.assert_allclose(weights, period["weights"][name.replace("-", "_")], **TOLERANCE)


def test_the_order_of_merging_does_not_matter(golden: dict[str, Any]) -> None:
    for case in golden["estimators"]:
        backwards = reduce(lambda log, more: log + more, reversed(periods_of(case)))
        weights = estimator("intervention-aware").weights(backwards, bias_of(case))
        expected = case["periods"][-1]["weights"]["intervention_aware"]
        np.testing.assert_allclose(weights, expected, **TOLERANCE)
