"""Whole runs of the authors' programs against the same runs here: distributions of the final NDCG over seeds.

``authors_programs.json`` has what their programs learned on a small generated collection, and says in words
how that was made; docs/paper-and-code.md has the table. Both sides have the same queries, features, labels,
start and times, and the same exact NDCG measures what they learned. Their seeds and ours have nothing in
common, so only distributions can be compared: means, and standard deviations.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rankloop import online
from rankloop.data import synthetic
from rankloop.data.synthetic import SHAPES
from rankloop.estimators import estimator
from rankloop.loop import Evaluated, Loop, SimulatedUsers
from rankloop.models import MLP
from rankloop.training import PAPER
from rankloop.types import Dataset, Float64

FILE = Path(__file__).with_name("authors_programs.json")
STORED: dict[str, Any] = json.loads(FILE.read_text())
ARMS: dict[str, dict[str, Any]] = STORED["arms"]
ESTIMATORS = [name for name, arm in ARMS.items() if "estimator" in arm["learner"]]
# Runs of ours per arm.
RUNS = 40
# The chance that any comparison fails although both sides have the same distribution. Each arm is compared
# by its mean and by its spread, and the estimators once more together; the levels add up (Bonferroni).
FALSE_ALARMS = 1e-3
LEVEL = FALSE_ALARMS / (2 * len(ARMS) + 1)
# The difference in mean NDCG that is noticed nine times in ten. When training stops varies much with the
# clicks if weights are divided by small exposures; therefore the estimators are also compared together.
NOTICED = {"affine": 0.002, "pdgd": 0.003, "biased-pdgd": 0.003}
NOTICED_AT_ALL, NOTICED_TOGETHER = 0.013, 0.0035

# The final NDCG of our runs of an arm; or of another learner, by its name, at the times of that arm.
FinalNdcg = Callable[..., Float64]


@pytest.fixture(scope="module")
def data() -> Dataset:
    """The collection of their runs; their reader leaves out test queries without a relevant document."""
    about = STORED["data"]
    whole = synthetic(replace(SHAPES["yahoo"], **about["shape"]), queries=about["queries"])
    test = whole.test
    judged = [query for query in range(test.n_queries) if test.labels[slice(*test.offsets[query:][:2])].any()]
    return replace(whole, test=test.select(np.array(judged)))


@pytest.fixture(scope="module")
def start(data: Dataset) -> MLP:
    return MLP(data.n_features, np.array(STORED["start"], np.float32), (32, 32))


@pytest.fixture(scope="module")
def ours(data: Dataset, start: MLP) -> FinalNdcg:
    made: dict[str, Float64] = {}
    users = SimulatedUsers.of(data)

    def final(arm: dict[str, Any], learner: dict[str, str], seed: int) -> float:
        loop = Loop(
            data,
            users,
            start,
            arm["horizon"],
            arm["interventions"] if arm["interventions"] == "all" else tuple(arm["interventions"]),
            learning=PAPER,
            estimator=estimator(learner["estimator"]) if "estimator" in learner else None,
            method=online.method(learner["method"]) if "method" in learner else None,
            seed=seed,
        )
        *_, last = loop.run()
        assert isinstance(last, Evaluated)
        return last.learned

    def runs(name: str, **learner: str) -> Float64:
        arm = ARMS[name]
        chosen = learner or arm["learner"]
        key = f"{chosen} {arm['horizon']} {arm['interventions']}"
        if key not in made:
            made[key] = np.array([final(arm, chosen, seed) for seed in range(RUNS)])
        return made[key]

    return runs


def theirs(name: str, variant: str | None = None) -> Float64:
    """The final NDCG of their runs of an arm."""
    arm = ARMS[name]
    return np.array(arm[variant or arm["compared"]]["ndcg"])[:, -1]


def interval(one: Float64, other: Float64) -> tuple[float, float]:
    """The interval of the difference of two means (Welch)."""
    found = stats.ttest_ind(one, other, equal_var=False).confidence_interval(1.0 - LEVEL)
    return float(found.low), float(found.high)


def spreads(values: Float64) -> Float64:
    """Miller's jackknife: numbers whose mean estimates the logarithm of the variance of these values.

    Unlike the F test, it does not need a normal distribution, which a rule that stops early does not give.
    """
    n = len(values)
    left_out = np.array([math.log(np.delete(values, i).var(ddof=1)) for i in range(n)])
    return n * math.log(values.var(ddof=1)) - (n - 1) * left_out


def agree(one: Float64, other: Float64) -> bool:
    """Whether neither the means nor the spreads differ."""
    pairs = (interval(one, other), interval(spreads(one), spreads(other)))
    return all(low < 0.0 < high for low, high in pairs)


def squared_error(values: Float64, runs: int) -> float:
    """The variance of the mean of this many such values."""
    return float(values.var(ddof=1)) / runs


def test_the_data_and_the_start_are_those_of_their_runs(data: Dataset, start: MLP) -> None:
    for name, labels in STORED["data"]["labels"].items():
        assert np.bincount(getattr(data, name).labels.astype(int), minlength=5).tolist() == labels
    # Their network has 64-bit numbers.
    np.testing.assert_allclose(start.scores(data.test.features[:5]), STORED["start_scores"], atol=1e-5)


@pytest.mark.parametrize(
    "name",
    # Training after every deployment takes a few seconds per arm.
    [
        pytest.param(name, marks=pytest.mark.long if name in ESTIMATORS and name.endswith("-4") else ())
        for name in ARMS
    ],
)
def test_final_ndcg_is_distributed_as_theirs(name: str, ours: FinalNdcg) -> None:
    mine, their = ours(name), theirs(name)
    low, high = interval(mine, their)
    assert low < 0.0 < high, f"means differ by {mine.mean() - their.mean():.4f}, {low:.4f} to {high:.4f}"
    low, high = interval(spreads(mine), spreads(their))
    assert low < 0.0 < high, f"ratio of spreads: {math.exp(low / 2):.2f} to {math.exp(high / 2):.2f}"


@pytest.mark.long
def test_estimators_together_are_as_good_as_theirs(ours: FinalNdcg) -> None:
    """The mean difference of all arms with an estimator, with Satterthwaite's degrees of freedom."""
    pairs = [(ours(name), theirs(name)) for name in ESTIMATORS]
    difference = np.mean([mine.mean() - their.mean() for mine, their in pairs])
    parts = [(squared_error(side, len(side)), len(side) - 1) for pair in pairs for side in pair]
    total = sum(part for part, _ in parts)
    freedom = total**2 / sum(part**2 / n for part, n in parts)
    assert abs(difference) < stats.t.ppf(1 - LEVEL / 2, freedom) * math.sqrt(total) / len(pairs)


def test_differences_that_matter_would_be_noticed() -> None:
    errors = {}
    for name in ARMS:
        their = theirs(name)
        errors[name] = squared_error(their, len(their)) + squared_error(their, RUNS)
        noticed = _noticed(math.sqrt(errors[name]), len(their) + RUNS - 2)
        assert noticed < NOTICED.get(name.rsplit("-", 1)[0], NOTICED_AT_ALL), name
    together = math.sqrt(sum(errors[name] for name in ESTIMATORS)) / len(ESTIMATORS)
    assert _noticed(together, RUNS) < NOTICED_TOGETHER


def _noticed(error: float, freedom: int) -> float:
    """The difference whose interval excludes 0 with probability 0.9."""
    return float(stats.t.ppf(1 - LEVEL / 2, freedom) + stats.norm.ppf(0.9)) * error


@pytest.mark.parametrize(
    ("name", "learner"),
    [
        ("intervention-aware-0", {"estimator": "affine"}),
        ("intervention-aware-0", {"estimator": "naive"}),
        ("affine-0", {"estimator": "intervention-aware"}),
        ("pdgd-online", {"method": "biased-pdgd"}),
        ("biased-pdgd-online", {"method": "pdgd"}),
    ],
)
def test_another_learner_is_rejected(name: str, learner: dict[str, str], ours: FinalNdcg) -> None:
    assert not agree(ours(name, **learner), theirs(name))


def test_runs_that_never_deploy_are_rejected(ours: FinalNdcg) -> None:
    assert not agree(ours("affine-0"), theirs("affine-4"))


@pytest.mark.parametrize("name", ["intervention-aware-0", "policy-aware-0", "affine-0"])
def test_sampled_stopping_is_a_difference_that_shows(name: str, ours: FinalNdcg) -> None:
    """As published, their programs stop on the noise of 100 sampled rankings: earlier, at a lower NDCG."""
    low, _ = interval(ours(name), theirs(name, "as_published"))
    assert low > 0.0
