"""Guesses of relevance as a control variate: narrower intervals, from the clicks of other queries alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rankloop
from rankloop.clicks import gather_log, users
from rankloop.names import BadNameError
from rankloop.offline import EvaluationOptions, Log
from rankloop.offline.relevance_guess import guess_by_scores
from rankloop.types import Split

# Users who click on whatever is relevant: which documents were shown is then all that is left to chance.
USERS = "position@5(eta=0)"


@pytest.fixture(scope="module")
def split() -> Split:
    return rankloop.synthetic(queries=150, features=5, seed=3).train


@pytest.fixture(scope="module")
def log(split: Split, tmp_path_factory: pytest.TempPathFactory) -> Log:
    rng = np.random.default_rng(0)
    scores = 0.5 * split.labels.astype(np.float64)
    clicks = gather_log(scores, split.offsets, split.labels >= 2, users(USERS), 3_000, rng)
    folder = tmp_path_factory.mktemp("guess") / "log"
    traffic = [rankloop.logs.PolicyTraffic("production", scores, clicks)]
    return rankloop.open_log(rankloop.logs.write_simulated(folder, split, traffic))


def write_table(path: Path, split: Split, values: np.ndarray) -> Path:
    """A table of scores of all documents."""
    places = np.concatenate([np.arange(size) for size in split.sizes])
    query = np.repeat(split.query_ids, split.sizes)
    rows = zip(query, places, values, strict=True)
    path.write_text("query_id,doc_id,score\n" + "".join(f"{q},{d},{v}\n" for q, d, v in rows))
    return path


@pytest.fixture(scope="module")
def good(split: Split, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that knows the labels, but for some noise."""
    noise = np.random.default_rng(1).normal(size=split.n_documents)
    return write_table(tmp_path_factory.mktemp("scores") / "good.csv", split, split.labels + 0.3 * noise)


def test_a_guess_by_scores_is_worth_impressions(log: Log, good: Path) -> None:
    options = {name: EvaluationOptions(guess=name) for name in ("scores", "mean")}
    found, plain = (log.evaluate(good, "production", bias=USERS, options=each) for each in options.values())
    assert found.guesses.gain is not None
    assert found.guesses.gain > 0.0
    assert found.guesses.factor > 1.0
    assert plain.guesses.gain is None
    # As the worth says, up to the resamples of queries.
    widths = [each.difference.estimate.high - each.difference.estimate.low for each in (found, plain)]
    assert (widths[1] / widths[0]) ** 2 == pytest.approx(found.guesses.factor, rel=0.3)
    # Both are estimates of the same number.
    error = np.hypot(found.difference.estimate.error, plain.difference.estimate.error)
    assert abs(found.difference.estimate.value - plain.difference.estimate.value) < 4.0 * error
    assert "impressions worth about" in found.guesses.sentence(found.impressions)


def test_scores_that_tell_nothing_are_not_used(log: Log, split: Split, tmp_path: Path) -> None:
    """False alarms: the curve has four coefficients, so that noise gains rarely on clicks it did not see."""
    noise = np.random.default_rng(2).normal(size=split.n_documents)
    found = log.evaluate(write_table(tmp_path / "noise.csv", split, noise), "production", bias=USERS)
    assert found.guesses.gain is None or found.guesses.gain < 0.001
    assert found.guesses.factor == pytest.approx(1.0, abs=0.1)


def test_no_guess_depends_on_the_clicks_of_its_query(log: Log, split: Split) -> None:
    bias = rankloop.clicks.bias_of(users(USERS))
    statistics = log.statistics(bias).statistics
    scores, used = [split.labels.astype(np.float64)], statistics.impressions_by_query > 0
    before = guess_by_scores(scores, statistics, bias, used).guesses
    query = int(np.argmax(statistics.impressions_by_query))
    own = slice(statistics.offsets[query], statistics.offsets[query + 1])
    after = guess_by_scores(scores, _inverted(statistics, own), bias, used).guesses
    np.testing.assert_array_equal(before[own], after[own])
    assert not np.array_equal(before, after)


def _inverted(statistics: rankloop.statistics.Statistics, own: slice) -> rankloop.statistics.Statistics:
    """The same statistics, but whatever was clicked in one query was not, and the other way round."""
    clicks = statistics.clicks_by_position.copy()
    clicks[own] = statistics.displays_by_position[own] - clicks[own]
    policy = statistics.policies["production"]
    return rankloop.statistics.Statistics.of_policy(
        "production",
        statistics.offsets,
        policy.exposure,
        impressions_by_query=policy.impressions_by_query,
        displays_by_position=statistics.displays_by_position,
        clicks_by_position=clicks,
    )


@pytest.mark.parametrize("guess", ["scores", "logistic", "trees(rounds=5)"])
def test_a_policy_is_never_better_than_itself(log: Log, good: Path, guess: str) -> None:
    options = EvaluationOptions(guess=guess)
    found = log.evaluate(good, good, bias=USERS, options=options)
    assert found.decision.kind == "same"
    assert found.difference.estimate.value == 0.0


def test_guesses_from_features_have_names(log: Log, good: Path) -> None:
    found = log.evaluate(good, "production", bias=USERS, options=EvaluationOptions(guess="logistic"))
    assert found.guesses.name == "mean relevance" or "logistic" in found.guesses.name
    with pytest.raises(BadNameError, match="unknown guess 'tres', did you mean 'trees'"):
        EvaluationOptions(guess="tres")


def test_a_fit_on_its_own_training_queries_does_not_guess(log: Log) -> None:
    short = rankloop.Learning(rankloop.Settings(epochs=2))
    fit = log.fit("linear", bias=USERS, learning=short)
    assert log.evaluate(fit, "production", queries="all").guesses.gain is None
