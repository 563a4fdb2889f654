"""Guesses of relevance by name: what each of them finds, and how a user adds another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from rankloop.errors import RankloopError
from rankloop.names import BadNameError
from rankloop.registry import register
from rankloop.relevance import GUESSES, ClickTask, GuessModel, guess_model, guess_relevance
from rankloop.relevance.guesses import LogisticGuess, Scorer
from rankloop.training import DOUBLY_ROBUST, learning_named
from tests.relevance.test_cross_fit import BIAS, drawn


@pytest.mark.parametrize("name", ["logistic", "trees"])
def test_guesses_find_what_features_tell(name: str) -> None:
    (split, statistics), (held_out, other) = drawn(0), drawn(1)
    guess = guess_relevance((split, held_out), (statistics, other), BIAS, model=guess_model(name))
    assert np.corrcoef(guess.held_out, held_out.features[:, 0])[0, 1] > 0.8
    assert guess.gain > 0.0
    assert guess.spec == name


def test_a_constant_guess_gains_nothing() -> None:
    (split, statistics), (held_out, other) = drawn(0), drawn(1)
    guess = guess_relevance((split, held_out), (statistics, other), BIAS, model=guess_model("constant"))
    assert len(np.unique(guess.held_out)) == 1
    assert guess.gain <= 0.0


def test_the_logistic_guess_maximises_the_penalised_likelihood() -> None:
    """At the maximum, no change of a coefficient helps."""
    split, statistics = drawn(0)
    shown = ClickTask.of(split.features, statistics, BIAS)
    scores = LogisticGuess(penalty=0.0).fit(shown, shown, np.random.default_rng(0))(shown.features)
    gradient = shown.model.at(scores).gradient
    standard = (shown.features - shown.features.mean(axis=0)) / shown.features.std(axis=0)
    np.testing.assert_allclose(gradient.sum(), 0.0, atol=1e-3)
    np.testing.assert_allclose(standard.T @ gradient, 0.0, atol=1e-3)


def test_missing_features_count_as_their_mean() -> None:
    split, statistics = drawn(0)
    shown = ClickTask.of(split.features, statistics, BIAS)
    holed = shown.features.copy()
    holed[::3, 1] = np.nan
    holed_part = replace(shown, features=holed)
    scores = LogisticGuess().fit(holed_part, holed_part, np.random.default_rng(0))
    assert np.isfinite(scores(holed)).all()
    filled = np.where(np.isnan(holed), np.nanmean(holed.astype(np.float64), axis=0), holed)
    np.testing.assert_allclose(scores(holed), scores(filled.astype(np.float32)), atol=1e-4)


def test_names_are_read_and_refused() -> None:
    assert learning_named("doubly-robust").guess == DOUBLY_ROBUST.guess
    assert str(learning_named("doubly-robust", guess="trees(leaves=7)").guess) == "trees(leaves=7)"
    with pytest.raises(BadNameError, match="did you mean 'trees'"):
        guess_model("tree")
    with pytest.raises(RankloopError, match="penalty must be at least 0"):
        guess_model("logistic(penalty=-1)")


def test_a_guess_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GUESSES, "_classes", dict(GUESSES._classes))

    @register
    @dataclass(frozen=True)
    class FirstFeature(GuessModel):
        """The first feature is the relevance."""

        name: ClassVar[str] = "first-feature"

        def fit(self, task: ClickTask, held_out: ClickTask, rng: np.random.Generator) -> Scorer:  # noqa: ARG002
            return lambda features: np.log(features[:, 0] / (1.0 - features[:, 0])).astype(np.float64)

    (split, statistics), (held_out, other) = drawn(0), drawn(1)
    guess = guess_relevance((split, held_out), (statistics, other), BIAS, model=guess_model("first-feature"))
    np.testing.assert_allclose(guess.train, split.features[:, 0], atol=1e-5)
