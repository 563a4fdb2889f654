from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy import stats

from rankloop.clicks import Impressions, bias_of, users
from rankloop.errors import DataError, RankloopError
from rankloop.models import MLP, SGD, Linear
from rankloop.online import (
    PDGD,
    BiasedPDGD,
    MethodState,
    Queries,
    Traffic,
    interact,
    interact_log,
    pdgd_gradient,
    replay,
)
from rankloop.online.interact import BLOCK
from rankloop.policies import rank_marginals
from rankloop.types import Split
from tests.online import reference

SIZES = [1, 2, 3, 7, 12]
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


def small_queries(rng, features=6, parts=1):
    """Five queries, shorter and longer than five ranks; with two matrices, the first has three queries."""
    rows = rng.normal(size=(OFFSETS[-1], features)).astype(np.float32)
    cut = () if parts == 1 else (OFFSETS[3],)
    return Queries(tuple(np.split(rows, cut)), OFFSETS)


def small_traffic(rng, who="paper@5", **shape):
    return Traffic(small_queries(rng, **shape), rng.integers(5, size=OFFSETS[-1]) / 4, users(who))


@pytest.mark.parametrize("method", [PDGD(rate=1.0), BiasedPDGD(rate=1.0)], ids=str)
@pytest.mark.parametrize("hidden", [(), (5,), (4, 3)])
@pytest.mark.parametrize("counterfactual", [False, True])
def test_the_compiled_loop_equals_the_reference(method, hidden, counterfactual, rng):
    """80 impressions with large steps, in float64: NumPy, all documents, no kernels, no sharing."""
    traffic = small_traffic(rng, parts=2)
    if hidden:
        model = MLP.initialise(6, rng, hidden=hidden, dtype=np.float64)
    else:
        model = Linear.initialise(6, rng, dtype=np.float64)
    logging = rng.normal(size=OFFSETS[-1]) if counterfactual else None
    after, log = interact_log(method, MethodState.start(method, model, rng), traffic, 80, logging=logging)
    rows, parameters = np.concatenate(traffic.queries.features), model.parameters.copy()
    for q, ranking, clicks in zip(log.queries, log.rankings, log.clicks, strict=True):
        own, shown = slice(OFFSETS[q], OFFSETS[q + 1]), ranking[ranking >= 0]
        scores = reference.scores(rows[own], parameters, model.widths)
        policy = scores if logging is None else logging[own]
        gradient = reference.pdgd_gradient(
            scores, shown, clicks[: len(shown)], policy, debiased=type(method) is PDGD
        )
        parameters += method.rate * reference.parameter_gradient(
            rows[own], parameters, model.widths, gradient
        )
    assert np.abs(after.learned.parameters - model.parameters).max() > 0.1
    np.testing.assert_allclose(after.learned.parameters, parameters, rtol=1e-9, atol=1e-12)


def test_a_step_equals_that_of_a_learner(rng):
    """The fused step in float32 against the public gradient and SGD."""
    queries, model = small_queries(rng), MLP.initialise(6, rng, hidden=(4,))
    ranking, clicks = np.array([[3, 0, 6, 1, 2]], np.int32), np.array([[False, True, False, True, False]])
    log = Impressions(np.array([3]), ranking, clicks)
    after = replay(PDGD(), MethodState.start(PDGD(), model, rng), queries, log)
    own = queries.features[0][OFFSETS[3] : OFFSETS[4]]
    learner = model.learner(SGD(rate=0.01))
    learner.update(own, pdgd_gradient(model.scores(own), ranking[0], clicks[0]))
    np.testing.assert_allclose(after.learned.parameters, learner.parameters, rtol=1e-6, atol=1e-8)
    assert after.learned.fingerprint != model.fingerprint


@pytest.mark.parametrize("who", ["paper@5", "paper@3", "position@5"])
def test_impressions_follow_traffic_policy_and_users(who, rng):
    """Counts within 5 standard errors of their expectation; fails for one of 10,000 seeds."""
    traffic, n = small_traffic(rng, who), 50_000
    scores, bias = rng.normal(size=OFFSETS[-1]), bias_of(users(who))
    # The rate is so small that the model practically does not change.
    model = Linear.initialise(6, rng)
    _, counts = interact(PDGD(rate=1e-6), MethodState.start(PDGD(), model, rng), traffic, n, logging=scores)

    def near(observed, trials, chance):
        assert (
            np.abs(observed - trials * chance) <= 5 * np.sqrt(trials * chance * (1 - chance)) + 1e-9
        ).all()

    near(counts.impressions_by_query, n, 1 / len(SIZES))
    came = np.repeat(counts.impressions_by_query, SIZES)[:, None]
    near(counts.displays_by_position, came, rank_marginals(scores, OFFSETS, bias.positions))
    near(
        counts.clicks_by_position,
        counts.displays_by_position,
        np.outer(traffic.relevance, bias.alpha) + bias.beta,
    )


def test_the_next_query_does_not_depend_on_clicks(rng):
    """A click at the first rank, and the query after it; fails by chance in one of 10,000 runs."""
    traffic = small_traffic(rng)
    state = MethodState.start(PDGD(), Linear.initialise(6, rng), rng)
    _, log = interact_log(PDGD(), state, traffic, 20_000, logging=np.zeros(OFFSETS[-1]))
    clicked, after = log.clicks[:-1, 0], log.queries[1:]
    table = [np.bincount(after[clicked == value], minlength=len(SIZES)) for value in (False, True)]
    assert stats.chi2_contingency(table).pvalue > 1e-4


def test_the_current_policy_logs(rng):
    """Scores of ±30 from the features: the ranking is practically deterministic."""
    queries = Queries((np.array([[-30.0], [30.0], [0.0]], np.float32),), np.array([0, 3]))
    traffic = Traffic(queries, np.zeros(3), users("affine(alpha=0:0, beta=0:0)"))
    model = Linear(1, np.array([1.0, 0.0], np.float32))
    after, log = interact_log(PDGD(), MethodState.start(PDGD(), model, rng), traffic, 100)
    np.testing.assert_array_equal(log.rankings, np.tile([1, 2], (100, 1)))
    # There are no clicks, so the model does not change.
    assert after.learned.fingerprint == model.fingerprint


def test_cascade_users(rng):
    """Users who leave after the first click click at most once."""
    traffic = small_traffic(rng, "cascade@5(stop=1)")
    _, log = interact_log(PDGD(), MethodState.start(PDGD(), Linear.initialise(6, rng), rng), traffic, 2_000)
    assert log.clicks.sum(axis=1).max() == 1
    assert log.clicks.any(axis=0).all()


def test_the_division_into_matrices_does_not_matter(rng):
    whole = small_traffic(np.random.default_rng(3))
    cut = small_traffic(np.random.default_rng(3), parts=2)
    state = MethodState.start(PDGD(), MLP.initialise(6, rng, hidden=(4,)), rng)
    ends = [interact(PDGD(), state, traffic, 200)[0].to_bytes() for traffic in (whole, cut)]
    assert ends[0] == ends[1]


def test_long_runs_are_divided_into_blocks(rng):
    """Longer than a block, with one call and with two."""
    queries = Queries((rng.random((4, 1), dtype=np.float32),), np.array([0, 2, 4]))
    traffic = Traffic(queries, np.array([1.0, 0.0, 0.0, 1.0]), users("position@1"))
    state, n = MethodState.start(PDGD(), Linear.initialise(1, rng), rng), BLOCK + 10
    whole, counts = interact(PDGD(), state, traffic, n)
    first, part = interact(PDGD(), state, traffic, 100)
    rest, other = interact(PDGD(), first, traffic, n - 100)
    assert whole.to_bytes() == rest.to_bytes()
    assert counts.impressions == n
    np.testing.assert_array_equal(
        counts.clicks_by_position, part.clicks_by_position + other.clicks_by_position
    )


def test_no_impression_changes_nothing(rng):
    state = MethodState.start(PDGD(), Linear.initialise(6, rng), rng)
    after, counts = interact(PDGD(), state, small_traffic(rng), 0)
    assert after.to_bytes() == state.to_bytes()
    assert counts.displays_by_position.shape == (OFFSETS[-1], 5)
    assert counts.impressions == 0


def test_features_may_be_read_only_in_one_part(rng):
    a, b = rng.random((4, 3), dtype=np.float32), rng.random((2, 3), dtype=np.float32)
    b.flags.writeable = False
    queries = Queries((a, b), np.array([0, 4, 6]))
    traffic = Traffic(queries, np.full(6, 0.5), users("paper@3"))
    interact(PDGD(), MethodState.start(PDGD(), Linear.initialise(3, rng), rng), traffic, 10)
    assert a.flags.writeable
    assert all(np.shares_memory(part, given) for part, given in zip(queries.features, (a, b), strict=True))


@pytest.mark.parametrize("counterfactual", [False, True])
def test_divergence_is_reported(counterfactual, rng):
    traffic = small_traffic(rng)
    logging = np.zeros(OFFSETS[-1]) if counterfactual else None
    method = PDGD(rate=1e9)
    state = MethodState.start(method, Linear.initialise(6, rng), rng)
    with pytest.raises(RankloopError, match=r"pdgd\(rate=1000000000\) diverged after \d+ impressions"):
        interact(method, state, traffic, 1000, logging=logging)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"impressions": -1}, "integer of at least 0"),
        ({"impressions": 1.5}, "integer of at least 0"),
        ({"logging": np.zeros(3)}, "scores of all 25 documents"),
        ({"logging": "start"}, "scores of all 25 documents"),
        ({"logging": np.full(25, np.nan)}, "query number 0, document 0: the score is nan"),
    ],
)
def test_invalid_arguments(change, message, rng):
    state = MethodState.start(PDGD(), Linear.initialise(6, rng), rng)
    arguments = {"impressions": 10, "logging": None} | change
    with pytest.raises(DataError, match=message):
        interact(PDGD(), state, small_traffic(rng), **arguments)


def test_a_model_with_another_number_of_features(rng):
    state = MethodState.start(PDGD(), Linear.initialise(5, rng), rng)
    with pytest.raises(DataError, match="the model expects 5 features, but the documents have 6"):
        interact(PDGD(), state, small_traffic(rng), 1)


@pytest.mark.parametrize(
    ("queries", "rankings", "clicks", "message"),
    [
        ([0, 5], [[0], [0]], [[True], [True]], "impression number 1: the query must be between 0 and 4"),
        ([1, 1], [[0], [2]], [[True], [True]], "impression number 1: no such document"),
        ([4], [[1, 1]], [[True, False]], "impression number 0: a document is shown twice"),
        ([4], [[-1, 1]], [[False, False]], "below an empty rank"),
        ([4], [[1, -1]], [[False, True]], "a click at an empty rank"),
        ([4, 4], [[1, 0]], [[False, True]], "a log needs one query and one ranking"),
        ([4], [[1, 0]], [[False]], "clicks must have the shape of the rankings"),
    ],
)
def test_invalid_logs(queries, rankings, clicks, message, rng):
    log = Impressions(np.array(queries), np.array(rankings), np.array(clicks))
    state = MethodState.start(PDGD(), Linear.initialise(6, rng), rng)
    with pytest.raises(DataError, match=message):
        replay(PDGD(), state, small_queries(rng), log)


@pytest.mark.parametrize(
    ("features", "offsets", "message"),
    [
        ((np.ones((4, 2)), np.ones((2, 3))), [0, 4, 6], "same features"),
        ((), [0, 4], "same features"),
        ((np.ones(4),), [0, 4], "same features"),
        ((np.ones((4, 2)), np.ones((2, 2))), [0, 3, 6], "must be in a single feature matrix"),
        ((np.ones((4, 2)),), [0, 5], "end at the number of documents"),
    ],
)
def test_invalid_queries(features, offsets, message):
    with pytest.raises(DataError, match=message):
        Queries(features, np.array(offsets))


def test_invalid_relevance(rng):
    with pytest.raises(DataError, match="25 documents need 25 relevances"):
        Traffic(small_queries(rng), np.zeros(3), users("paper@5"))


def test_queries_of_splits():
    split = Split.build(np.eye(3), [0, 2, 1], sizes=[2, 1])
    queries = Queries.of(split, split)
    np.testing.assert_array_equal(queries.offsets, [0, 2, 3, 5, 6])
    np.testing.assert_array_equal(queries.starts, [0, 3, 6])
    model = Linear(3, np.array([1.0, 2.0, 3.0, 0.5]))
    np.testing.assert_array_equal(queries.scores(model), [1.5, 2.5, 3.5, 1.5, 2.5, 3.5])


def test_learning_does_not_depend_on_how_it_is_divided(rng, monkeypatch):
    # Compiled code cannot be interrupted: COLTR did not notice Ctrl-C for half a minute.
    traffic, start = small_traffic(rng), Linear.initialise(6, rng)
    state = MethodState.start(PDGD(rate=1.0), start, rng)
    whole, log = interact_log(PDGD(rate=1.0), state, traffic, 100)
    monkeypatch.setattr(sys.modules["rankloop.online.interact"], "IMPRESSIONS_PER_CALL", 7)
    parts, same = interact_log(PDGD(rate=1.0), state, traffic, 100)
    assert parts.to_bytes() == whole.to_bytes()
    assert (same.clicks == log.clicks).all()
