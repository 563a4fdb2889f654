"""Guesses by networks: they find what features say, and scores never come from a query's own clicks."""

from __future__ import annotations

import numpy as np

from rankloop.models import MLP
from rankloop.relevance import RelevanceGuess, guess_by_network
from rankloop.statistics import Statistics
from tests.relevance.test_cross_fit import BIAS, DOCS, drawn

START = MLP.initialise(2, np.random.default_rng(0), hidden=(4,))


def logits(relevance: np.ndarray) -> np.ndarray:
    return np.log(relevance) - np.log1p(-relevance)


def test_features_that_tell_relevance_are_found() -> None:
    (split, statistics), (held_out, other) = drawn(0), drawn(1)
    guess = guess_by_network((split, held_out), (statistics, other), BIAS, START)
    assert np.corrcoef(guess.train, split.features[:, 0])[0, 1] > 0.7
    assert np.corrcoef(guess.held_out, held_out.features[:, 0])[0, 1] > 0.7
    assert guess.gain > 0.0


def test_the_clicks_of_a_query_change_its_level_and_nothing_else() -> None:
    (split, statistics), (held_out, other) = drawn(0), drawn(1)
    own = slice(0, DOCS)
    inverted = statistics.clicks_by_position.copy()
    inverted[own] = statistics.displays_by_position[own] - inverted[own]
    changed = Statistics.of_policy(
        "a",
        split.offsets,
        statistics.policies["a"].exposure,
        impressions_by_query=statistics.impressions_by_query,
        displays_by_position=statistics.displays_by_position,
        clicks_by_position=inverted,
    )
    before, after = (
        guess_by_network((split, held_out), (log, other), BIAS, START) for log in (statistics, changed)
    )
    shift = logits(after.train[own]) - logits(before.train[own])
    np.testing.assert_allclose(shift, shift[0], atol=1e-9)
    assert abs(shift[0]) > 1e-3
    assert not np.array_equal(before.train[DOCS:], after.train[DOCS:])


def test_a_guess_is_stored_whole() -> None:
    (split, statistics), (held_out, other) = drawn(0), drawn(1)
    guess = guess_by_network((split, held_out), (statistics, other), BIAS, START)
    again = RelevanceGuess.from_bytes(guess.to_bytes())
    np.testing.assert_array_equal(again.train, guess.train)
    np.testing.assert_array_equal(again.held_out, guess.held_out)
    assert (again.spec, again.gain) == (guess.spec, guess.gain)
