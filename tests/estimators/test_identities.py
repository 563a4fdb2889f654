"""Where two estimators must be one."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.checks.contract import OFFSETS, SIZES
from rankloop.checks.contract import random_log as log
from rankloop.errors import DataError
from rankloop.estimators import (
    IPS,
    Affine,
    Estimator,
    InterventionAware,
    InterventionOblivious,
    Naive,
    PolicyAware,
    estimator,
)
from rankloop.policies import sample_rankings, top_ranking
from rankloop.ragged import ranks as ranks_of
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Bias
from tests.estimators.scenarios import position, trust

EXACT = {"rtol": 1e-12, "atol": 1e-12}


def assert_same_weights(a: Estimator, b: Estimator, statistics: Statistics, bias: Bias) -> None:
    np.testing.assert_allclose(a.weights(statistics, bias), b.weights(statistics, bias), **EXACT)


every_clip = pytest.mark.parametrize("clip", ["off", "paper", 0.3])


@every_clip
@pytest.mark.parametrize("average", ["all", "query"])
def test_one_policy_aware_is_oblivious(rng: np.random.Generator, clip: float, average: str) -> None:
    bias = trust(3)
    statistics = log(rng, bias, "a", rng.normal(size=OFFSETS[-1]))
    aware = estimator(f"intervention-aware(clip={clip}, average={average})")
    assert_same_weights(aware, InterventionOblivious(clip=clip), statistics, bias)


@every_clip
def test_two_ids_of_one_policy_are_one_policy(rng: np.random.Generator, clip: float) -> None:
    bias, scores = trust(3), rng.normal(size=OFFSETS[-1])
    statistics = log(rng, bias, "monday", scores) + log(rng, bias, "tuesday", scores, impressions=900)
    assert_same_weights(InterventionAware(clip=clip), InterventionOblivious(clip=clip), statistics, bias)


@every_clip
def test_without_trust_oblivious_is_policy_aware(rng: np.random.Generator, clip: float) -> None:
    bias = position(3)
    statistics = log(rng, bias, "a", rng.normal(size=OFFSETS[-1]))
    statistics += log(rng, bias, "b", 3 * rng.normal(size=OFFSETS[-1]))
    assert_same_weights(InterventionOblivious(clip=clip), PolicyAware(clip=clip), statistics, bias)


@every_clip
def test_without_trust_affine_is_ips(rng: np.random.Generator, clip: float) -> None:
    bias = position(3)
    statistics = log(rng, bias, "a", rng.normal(size=OFFSETS[-1]))
    assert_same_weights(Affine(clip=clip), IPS(clip=clip), statistics, bias)


def deterministic(rng: np.random.Generator, bias: Bias) -> Statistics:
    """One policy that shows every document of every query, always in the same order."""
    scores = rng.normal(size=OFFSETS[-1])
    queries = rng.integers(len(SIZES), size=500)
    rankings = top_ranking(scores, OFFSETS, bias.positions)[queries]
    clicks = (rng.random(rankings.shape) < 0.4) & (rankings >= 0)
    rank = ranks_of(scores, OFFSETS) - 1
    exposure = Exposure(bias.alpha[rank], bias.beta[rank], bias.examination[rank])
    return of_impressions("a", OFFSETS, exposure, queries=queries, rankings=rankings, clicks=clicks)


def everything_shown() -> Bias:
    ranks = np.arange(1, SIZES.max() + 1)
    return Bias(alpha=0.5 / ranks, beta=0.4 / ranks**2, examination=1 / ranks)


@every_clip
@pytest.mark.parametrize("name", ["intervention-oblivious", "intervention-aware"])
def test_deterministic_and_everything_shown_oblivious_is_affine(
    rng: np.random.Generator, clip: float, name: str
) -> None:
    bias = everything_shown()
    statistics = deterministic(rng, bias)
    np.testing.assert_allclose(
        estimator(f"{name}(clip={clip})").weights(statistics, bias),
        Affine(clip=clip).weights(statistics, bias),
        **EXACT,
    )


@every_clip
def test_deterministic_and_everything_shown_policy_aware_is_ips(
    rng: np.random.Generator, clip: float
) -> None:
    bias = everything_shown()
    statistics = deterministic(rng, bias)
    assert_same_weights(PolicyAware(clip=clip), IPS(clip=clip), statistics, bias)


@pytest.mark.parametrize("kind", [IPS, PolicyAware, Affine, InterventionOblivious, InterventionAware])
def test_users_without_bias_make_every_estimator_naive(
    rng: np.random.Generator, kind: type[Estimator]
) -> None:
    # Everything is shown and examined, and every click is relevance.
    ranks = int(SIZES.max())
    bias = Bias(alpha=np.ones(ranks), beta=np.zeros(ranks), examination=np.ones(ranks))
    statistics = deterministic(rng, bias)
    assert_same_weights(kind(), Naive(), statistics, bias)


def test_the_mean_over_queries_is_the_estimated_metric(rng: np.random.Generator) -> None:
    # R̂ = 1/T Σ_t Σ_d λ(d) Δ̂_t(d), click by click, for IPS and a λ of one's own.
    bias, impressions = trust(3), 50
    scores, metric = rng.normal(size=OFFSETS[-1]), rng.normal(size=OFFSETS[-1])
    queries = rng.integers(len(SIZES), size=impressions)
    rankings = sample_rankings(scores, OFFSETS, 3, rng, samples=impressions)[np.arange(impressions), queries]
    clicks = (rng.random(rankings.shape) < 0.4) & (rankings >= 0)
    estimated = 0.0
    for q, ranking, clicked in zip(queries, rankings, clicks, strict=True):
        for k, (document, click) in enumerate(zip(ranking, clicked, strict=True)):
            estimated += click * metric[OFFSETS[q] + document] / bias.examination[k] / impressions
    statistics = of_impressions(
        "a",
        OFFSETS,
        Exposure.of_scores(scores, OFFSETS, bias),
        queries=queries,
        rankings=rankings,
        clicks=clicks,
    )
    weights = IPS(clip="off").weights(statistics, bias)
    assert weights @ metric / len(SIZES) == pytest.approx(estimated, rel=1e-12)


def test_the_bound_follows_the_whole_log_and_the_scale_follows_the_split(rng: np.random.Generator) -> None:
    bias = trust(3)
    whole = log(rng, bias, "a", 2 * rng.normal(size=OFFSETS[-1]), impressions=900)
    split = whole.select([1, 2])
    alpha = split.policies["a"].exposure.alpha
    numerator = (
        split.clicks - split.per_document(split.impressions_by_query) * split.policies["a"].exposure.beta
    )
    scale = 2 / split.impressions_by_query.sum()
    expected = numerator / np.maximum(alpha, 10 / 30) * scale
    np.testing.assert_allclose(InterventionAware().weights(split, bias), expected, **EXACT)
    np.testing.assert_allclose(
        InterventionAware().unclipped.weights(split, bias), numerator / alpha * scale, **EXACT
    )


def test_a_split_that_saw_no_query_cannot_be_estimated(rng: np.random.Generator) -> None:
    bias = trust(3)
    whole = log(rng, bias, "a", rng.normal(size=OFFSETS[-1]), impressions=1)
    (came,) = np.flatnonzero(whole.impressions_by_query)
    assert np.isfinite(InterventionAware().weights(whole.select([came]), bias)).all()
    with pytest.raises(DataError, match="none of the 4 queries ever came"):
        InterventionAware().weights(whole.select([q for q in range(5) if q != came]), bias)
