"""What holds for every estimator: names, shapes, sums, limits, bad input."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest

from rankloop.errors import DataError
from rankloop.estimators import ESTIMATORS, Estimator, estimator
from rankloop.names import BadNameError
from rankloop.statistics import Exposure, Statistics
from tests.estimators.random_logs import OFFSETS, log
from tests.estimators.worlds import trust

# Every estimator, with and without its options. One added to ESTIMATORS must be added here.
NAMES = [
    "affine",
    "affine(clip=off)",
    "intervention-aware",
    "intervention-aware(average=query)",
    "intervention-aware(average=query, clip=0.01)",
    "intervention-aware(clip=off)",
    "intervention-oblivious",
    "intervention-oblivious(clip=off)",
    "ips",
    "ips(clip=1)",
    "ips(clip=off)",
    "naive",
    "policy-aware",
    "policy-aware(clip=0.01)",
    "policy-aware(clip=off)",
]
BIAS = trust(3)

every_estimator = pytest.mark.parametrize("e", [estimator(name) for name in NAMES], ids=str)


def statistics(seed: int = 0) -> Statistics:
    rng = np.random.default_rng(seed)
    return log(rng, BIAS, "a", rng.normal(size=OFFSETS[-1])) + log(
        rng, BIAS, "b", 2 * rng.normal(size=OFFSETS[-1]), timesteps=900
    )


def test_every_estimator_is_covered() -> None:
    assert {name.partition("(")[0] for name in NAMES} == set(ESTIMATORS)


@every_estimator
def test_name_and_estimator_are_one(e: Estimator) -> None:
    assert str(e) in NAMES
    assert estimator(str(e)) == e
    assert hash(estimator(str(e))) == hash(e)
    assert pickle.loads(pickle.dumps(e)) == e


@every_estimator
def test_an_estimator_is_a_value(e: Estimator) -> None:
    for field in fields(e):  # type: ignore[arg-type]
        with pytest.raises(FrozenInstanceError):
            setattr(e, field.name, "off")


@every_estimator
def test_one_finite_weight_an_item(e: Estimator) -> None:
    weights = e.weights(statistics(), BIAS)
    assert weights.shape == (OFFSETS[-1],)
    assert weights.dtype == np.float64
    assert np.isfinite(weights).all()
    assert (weights != 0.0).any()


@every_estimator
def test_inputs_are_left_alone_and_results_are_new(e: Estimator) -> None:
    given = statistics()
    first = e.weights(given, BIAS)
    kept = first.copy()
    first += 1.0
    np.testing.assert_array_equal(e.weights(given, BIAS), kept)


@every_estimator
def test_the_same_log_twice_has_the_same_weights(e: Estimator) -> None:
    # T doubles, and so may the bound on denominators move: this is about the scale alone.
    once = statistics()
    fixed = e.unclipped
    np.testing.assert_allclose(
        fixed.weights(once + once, BIAS), fixed.weights(once, BIAS), rtol=1e-12, atol=1e-12
    )


@every_estimator
def test_weights_are_those_of_the_merged_log_in_any_order(e: Estimator) -> None:
    a, b = statistics(1), statistics(2).select(range(5))
    renamed = Statistics(
        b.offsets,
        {f"other {policy}": gathered for policy, gathered in b.policies.items()},
        b.displays_by_rank,
        b.clicks_by_rank,
        b.log_timesteps,
    )
    np.testing.assert_allclose(
        e.weights(a + renamed, BIAS), e.weights(renamed + a, BIAS), rtol=1e-12, atol=1e-12
    )


@every_estimator
def test_a_policy_that_has_not_logged_yet_changes_nothing(e: Estimator) -> None:
    rng = np.random.default_rng(3)
    zeros = np.zeros((OFFSETS[-1], 3), np.int64)
    deployed = Statistics.of_policy(
        "c",
        OFFSETS,
        Exposure.of_scores(rng.normal(size=OFFSETS[-1]), OFFSETS, BIAS),
        query_counts=np.zeros(5, np.int64),
        displays_by_rank=zeros,
        clicks_by_rank=zeros,
    )
    np.testing.assert_array_equal(e.weights(statistics() + deployed, BIAS), e.weights(statistics(), BIAS))


@every_estimator
def test_an_item_that_is_never_shown_weighs_nothing(e: Estimator) -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=OFFSETS[-1])
    scores[[1, 6]] = -np.inf
    weights = e.weights(log(rng, BIAS, "a", scores), BIAS)
    assert np.isfinite(weights).all()
    np.testing.assert_array_equal(weights[[1, 6]], 0.0)


@every_estimator
def test_exposures_too_small_to_matter_stay_finite(e: Estimator) -> None:
    rng = np.random.default_rng(0)
    weights = e.weights(log(rng, BIAS, "a", 300 * rng.normal(size=OFFSETS[-1])), BIAS)
    assert np.isfinite(weights).all()


@every_estimator
def test_clipping_off_is_clipping_off(e: Estimator) -> None:
    assert e.unclipped.unclipped == e.unclipped
    assert str(e.unclipped) in {str(e), f"{e.name}(clip=off)", f"{e.name}(average=query, clip=off)"}
    if "clip" in {field.name for field in fields(e)}:  # type: ignore[arg-type]
        assert "clip=off" in str(e.unclipped)


@every_estimator
def test_bias_and_statistics_of_different_ranks_are_refused(e: Estimator) -> None:
    with pytest.raises(DataError, match="the statistics are of 3 ranks and the bias of 2"):
        e.weights(statistics(), trust(2))


@every_estimator
def test_no_timesteps_no_estimate(e: Estimator) -> None:
    with pytest.raises(DataError, match="none of the 5 queries ever came"):
        e.weights(Statistics.empty(OFFSETS, 3), BIAS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("afine", r"unknown estimator 'afine', did you mean 'affine'\?"),
        ("naive(clip=off)", "unknown option of 'naive' 'clip'; there are: none"),
        ("affine(average=query)", "unknown option of 'affine' 'average'"),
        ("affine@5", "'affine' takes no cut-off, got 'affine@5'"),
        ("affine(clip=on)", "option 'clip' of 'affine.clip=on.': expected a number, got 'on'"),
        ("affine(clip=0)", "'clip' of the estimator 'affine': expected 'paper', 'off' or a number above 0"),
        ("affine(clip=1.5)", "up to 1, got 1.5"),
        ("affine(clip=nan)", "expected a finite number"),
        ("intervention-aware(average=queries)", "unknown value 'queries', did you mean 'query'"),
    ],
)
def test_names_that_say_nothing_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadNameError, match=message):
        estimator(text)


@pytest.mark.parametrize("clip", [True, None, float("nan"), -0.1, "Paper"])
@pytest.mark.parametrize("kind", [kind for name, kind in ESTIMATORS.items() if name != "naive"])
def test_bad_clips_are_refused(kind: type[Estimator], clip: object) -> None:
    with pytest.raises(BadNameError, match=f"'clip' of the estimator '{kind.name}'"):
        kind(clip=clip)  # type: ignore[call-arg]


def test_bad_averages_are_refused() -> None:
    with pytest.raises(BadNameError, match="'average' of the estimator 'intervention-aware'"):
        ESTIMATORS["intervention-aware"](average="mean")  # type: ignore[call-arg]
