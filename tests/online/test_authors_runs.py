"""Whole runs against a transcription of the authors' update: distributions of what PDGD has learned.

``authors_pdgd.json`` has 20 queries, and what 24 runs of 2,000 impressions learned on them by a NumPy
transcription of the update and the click simulation in the authors' programs
(HarrieO/2021wsdm-unifying-LTR, ``utils/PDGD.py`` and ``utils/click_generation.py``), for a linear model. The
programs themselves, which need TensorFlow, were not run for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rankloop import clicks, online
from rankloop.evaluation import policy_metrics
from rankloop.models import Linear
from rankloop.types import Float64, Split

FILE = Path(__file__).with_name("authors_pdgd.json")
# Of one comparison of means; with these seeds, the outcome is fixed.
FALSE_ALARMS = 1e-3


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text())
    return content


@pytest.fixture(scope="module")
def split(stored: dict[str, Any]) -> Split:
    return Split.build(np.array(stored["features"], np.float32), stored["labels"], stored["documents"])


def values(weights: Float64, split: Split) -> Float64:
    """The NDCG of each run's policy."""
    scores = split.features.astype(np.float64) @ weights.T
    return np.array([policy_metrics(each, split, ["ndcg@5"])["ndcg@5"] for each in scores.T])


def learned(name: str, stored: dict[str, Any], split: Split) -> Float64:
    """The weights that as many runs of ours learn; the bias of the model ranks nothing."""
    method = online.method(f"{name}(rate={stored['rate']})")
    relevance = clicks.relevance("linear").of(split.labels)
    traffic = online.Traffic(online.Queries.of(split), relevance, clicks.users("paper@5"))
    start = Linear(split.n_features, np.zeros(split.n_features + 1, np.float32))
    runs = []
    for seed in range(len(stored["learned"][name])):
        state = online.MethodState.start(method, start, np.random.default_rng(seed))
        done, _ = online.interact(method, state, traffic, stored["interactions"])
        runs.append(done.learned.parameters[:-1])
    return np.array(runs)


def interval(one: Float64, other: Float64) -> tuple[float, float]:
    """The interval of the difference of two means (Welch)."""
    found = stats.ttest_ind(one, other, equal_var=False).confidence_interval(1.0 - FALSE_ALARMS)
    return float(found.low), float(found.high)


@pytest.mark.parametrize("name", ["pdgd", "biased-pdgd"])
def test_final_ndcg_and_weights_are_distributed_as_theirs(
    name: str, stored: dict[str, Any], split: Split
) -> None:
    ours, theirs = learned(name, stored, split), np.array(stored["learned"][name])
    low, high = interval(values(ours, split), values(theirs, split))
    assert low < 0.0 < high
    for mine, their in zip(ours.T, theirs.T, strict=True):
        low, high = interval(mine, their)
        assert low < 0.0 < high


def test_the_comparison_can_tell_the_two_methods_apart(stored: dict[str, Any]) -> None:
    """The same interval, between PDGD and biased PDGD: runs of the wrong method would be noticed."""
    pdgd, biased = (np.array(stored["learned"][name]) for name in ("pdgd", "biased-pdgd"))
    apart = [interval(one, other) for one, other in zip(pdgd.T, biased.T, strict=True)]
    assert any(low > 0.0 or high < 0.0 for low, high in apart)
