"""Guesses of relevance: they find what features say, and no query's guess knows its own clicks."""

from __future__ import annotations

import numpy as np

from rankloop.relevance import guess_relevance
from rankloop.statistics import CellTable, Exposure, Statistics
from rankloop.types import Bias, Split

BIAS = Bias(alpha=[0.8, 0.5], beta=[0.1, 0.1], examination=[1.0, 0.7])
QUERIES, DOCS, TIMES = 100, 4, 6


def drawn(seed: int) -> tuple[Split, Statistics]:
    """Queries whose first feature is their relevance, shown at random ranks."""
    rng = np.random.default_rng(seed)
    relevance = rng.random(QUERIES * DOCS)
    split = Split.build(
        np.column_stack([relevance, rng.random(len(relevance))]), np.zeros(len(relevance)), [DOCS] * QUERIES
    )
    displays = np.zeros((len(relevance), 2), np.int64)
    for query in range(QUERIES):
        for _ in range(TIMES):
            first, second = query * DOCS + rng.permutation(DOCS)[:2]
            displays[first, 0] += 1
            displays[second, 1] += 1
    clicks = rng.binomial(displays, BIAS.alpha * relevance[:, None] + BIAS.beta)
    share = displays / TIMES
    exposure = Exposure(*((share + 1e-9) @ part for part in (BIAS.alpha, BIAS.beta, BIAS.examination)))
    statistics = Statistics.of_policy(
        "a",
        split.offsets,
        exposure,
        impressions_by_query=[TIMES] * QUERIES,
        displays_by_position=displays,
        clicks_by_position=clicks,
    )
    return split, statistics


def test_features_that_tell_relevance_are_found() -> None:
    (split, statistics), (held_out, other) = drawn(0), drawn(1)
    guess = guess_relevance((split, held_out), (statistics, other), BIAS)
    assert np.corrcoef(guess.train, split.features[:, 0])[0, 1] > 0.8
    assert np.corrcoef(guess.held_out, held_out.features[:, 0])[0, 1] > 0.8
    assert guess.gain > 0.0


def test_the_clicks_of_a_query_do_not_change_its_guess() -> None:
    (split, statistics), (held_out, other) = drawn(0), drawn(1)
    own = slice(0, DOCS)
    inverted = statistics.clicks_by_position.copy()
    inverted[own] = statistics.displays_by_position[own] - inverted[own]
    policy = statistics.policies["a"]
    changed = Statistics.of_policy(
        "a",
        split.offsets,
        policy.exposure,
        impressions_by_query=policy.impressions_by_query,
        displays_by_position=statistics.displays_by_position,
        clicks_by_position=inverted,
    )
    assert not np.array_equal(
        CellTable.of_statistics(changed).clicks, CellTable.of_statistics(statistics).clicks
    )
    before, after = (guess_relevance((split, held_out), (log, other), BIAS) for log in (statistics, changed))
    np.testing.assert_array_equal(before.train[own], after.train[own])
    assert not np.array_equal(before.train, after.train)


def test_held_out_clicks_are_not_read() -> None:
    (split, statistics), (held_out, other) = drawn(0), drawn(1)
    nothing = Statistics.empty(held_out.offsets, BIAS.positions)
    before, after = (guess_relevance((split, held_out), (statistics, log), BIAS) for log in (other, nothing))
    np.testing.assert_array_equal(before.train, after.train)
    np.testing.assert_array_equal(before.held_out, after.held_out)


def test_too_few_queries_get_the_mean() -> None:
    split, statistics = drawn(0)
    few = np.arange(3)
    part = split.select(few), statistics.select(few)
    guess = guess_relevance((part[0], split), (part[1], statistics), BIAS)
    assert len(np.unique(guess.train)) == len(np.unique(guess.held_out)) == 1
