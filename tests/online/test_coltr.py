from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rankloop.clicks import Impressions
from rankloop.errors import DataError, RankloopError
from rankloop.kernels.directions import is_direct
from rankloop.kernels.random_streams import seed_stream
from rankloop.models import MLP, Linear
from rankloop.online import COLTR, MethodState, Queries, replay, snips_risk
from rankloop.types import Split
from tests.online import reference

ALARM = 1e-4


def test_risk_by_hand():
    """Weights 1, 1, 2 judged, 1, 1, 1 logged, all three shown in order; a click on the last: losses 1, 1, 0.

    w = (1/4)/(1/3), (1/3)/(1/2), 1/1 = 3/4, 2/3, 1, so that R̂ = (3/4 + 2/3) / (29/12) = 17/29.
    """
    scores, clicks = np.log([1.0, 1.0, 2.0]), [False, False, True]
    loss = 17 / 29
    spread = np.sqrt((3 / 4 * (1 - loss)) ** 2 + (2 / 3 * (1 - loss)) ** 2 + loss**2) / (29 / 12)
    assert snips_risk(scores, np.zeros(3), [0, 1, 2], clicks, variance=0) == pytest.approx(loss, rel=1e-13)
    assert snips_risk(scores, np.zeros(3), [0, 1, 2], clicks) == pytest.approx(loss + spread, rel=1e-13)
    # Of the logging policy itself: the mean, and the standard error of a mean.
    own = snips_risk(np.zeros(3), np.zeros(3), [0, 1, 2], clicks, variance=2)
    assert own == pytest.approx(2 / 3 + 2 * np.sqrt(2 / 9 / 3), rel=1e-13)


@pytest.mark.parametrize(("n", "ranks"), [(2, 2), (6, 3), (8, 8)])
def test_risk_against_the_reference(n, ranks, rng):
    for _ in range(20):
        judged, logging = rng.normal(size=(2, n))
        ranking, clicks = rng.permutation(n)[:ranks], rng.random(ranks) < 0.5
        expected = reference.snips_risk(judged, logging, ranking, clicks, variance=0.7)
        risk = snips_risk(judged, logging, ranking, clicks, variance=0.7)
        assert risk == pytest.approx(expected, rel=1e-11, abs=1e-15)


def test_a_candidate_is_normalised_with_its_own_scores():
    """The candidate likes the document that is not shown e⁵⁰-fold: w = e⁻⁵⁰ / (1/3) and e⁻⁵⁰ / (1/2), 3 to 2.

    Divided by the logging policy's remainder, the weights would be 1 and 1, and the loss 1/2; and scores that
    are all higher by one number, which is the same policy, would give others again.
    """
    scores = np.array([0.0, 0.0, 50.0])
    for shift in (0.0, 3.0):
        loss = snips_risk(scores + shift, np.zeros(3), [0, 1], [False, True], variance=0)
        assert loss == pytest.approx(3 / (3 + 2), rel=1e-12)


def test_a_candidate_beside_the_logging_policys_remainder():
    """The same case: weights 1 and 1; with scores higher by log 2, (2/5) / (1/3) and (2/3) / (1/2)."""
    scores = np.array([0.0, 0.0, 50.0])

    def loss(shift):
        return snips_risk(scores + shift, np.zeros(3), [0, 1], [False, True], variance=0, remainder="logging")

    assert loss(0.0) == pytest.approx(1 / 2, rel=1e-12)
    first, second = (2 / 5) / (1 / 3), (2 / 3) / (1 / 2)
    assert loss(np.log(2.0)) == pytest.approx(first / (first + second), rel=1e-12)


def test_the_remainder_decides_which_candidates_win(rng):
    """One and the same impression, learned from with both: the logging policy's remainder favours others."""
    features, start = rng.random((6, 3)).astype(np.float32), Linear.initialise(3, rng)
    queries = Queries.of(Split.build(features, np.zeros(6), [6]))
    log = Impressions(np.array([0]), np.array([[0, 1]]), np.array([[False, True]]))
    learned = {}
    for remainder in ("own", "logging"):
        method = COLTR(remainder=remainder)
        state = MethodState.start(method, start, np.random.default_rng(0))
        learned[remainder] = replay(method, state, queries, log).learned.parameters
    assert not np.array_equal(learned["own"], learned["logging"])
    for parameters in learned.values():
        assert not np.array_equal(parameters, start.parameters)


@pytest.mark.parametrize("clicks", ["000", "111", "100", "110"])
def test_without_skipped_documents_there_is_no_risk(clicks):
    scores = np.array([0.5, 2.0, -1.0])
    assert snips_risk(scores, np.zeros(3), [0, 1, 2], [click == "1" for click in clicks]) == 0.0


def test_arbitrary_scores(rng):
    for _ in range(20):
        judged, logging = 1e4 * rng.normal(size=(2, 6))
        risk = snips_risk(judged, logging, rng.permutation(6)[:4], [False, True, False, True])
        assert 0.0 <= risk <= 2.0


def test_invalid_arguments():
    with pytest.raises(DataError, match="3 documents need 3 scores"):
        snips_risk(np.zeros(3), np.zeros(2), [0], [True])
    for option, value, wanted in (
        ("candidates", 0, "an integer of at least 1"),
        ("candidates", 2.5, "an integer of at least 1"),
        ("rate", -1.0, "positive and finite"),
        ("reach", 0.0, "positive and finite"),
        ("variance", float("nan"), "at least 0 and finite"),
        ("remainder", "theirs", "own or logging"),
    ):
        with pytest.raises(RankloopError, match=f"coltr: {option} must be {wanted}"):
            COLTR(**{option: value})


# Two of four documents are shown, and the second is clicked.
RANKING, CLICKS = [2, 0], [False, True]


def model_of(hidden, features, rng):
    if not hidden:
        return Linear.initialise(features, rng, dtype=np.float64)
    return MLP.initialise(features, rng, hidden=hidden, dtype=np.float64)


def one_step(method, model, queries, stream, logging=None):
    """Compute the step of one impression, in units of the rate."""
    log = Impressions(np.zeros(1, np.int64), np.array([RANKING], np.int32), np.array([CLICKS]))
    after = replay(method, MethodState(model, 0, np.empty(0), stream), queries, log, logging=logging)
    return (after.learned.parameters - model.parameters) / method.rate


@pytest.mark.parametrize(
    ("hidden", "features", "whole"),
    [
        pytest.param((), 40, False, marks=pytest.mark.long),
        ((), 2, True),
        ((3,), 12, False),
        ((3, 2), 3, True),
    ],
)
def test_steps_have_the_distribution_of_full_directions(hidden, features, whole, rng):
    """Against a reference that draws and scores every candidate in full, 4,000 steps each."""
    method, samples = COLTR(candidates=4, rate=0.5), 4_000
    rows = 2 * rng.random((4, features), dtype=np.float32)
    model = model_of(hidden, features, rng)
    assert is_direct(4, model.widths, method.candidates) is whole
    queries = Queries((rows,), np.array([0, 4]))
    ours = np.array([one_step(method, model, queries, seed_stream(np.int64(3), k)) for k in range(samples)])
    theirs = []
    for _ in range(samples):
        step = reference.coltr_step(
            rows, model.parameters, model.widths, RANKING, CLICKS, candidates=4, variance=1.0, rng=rng
        )
        theirs.append(np.zeros(len(model.parameters)) if step is None else step)
    drawn = np.array(theirs)

    moved, should_move = (np.abs(steps).sum(axis=1) > 0 for steps in (ours, drawn))
    assert (
        stats.fisher_exact(
            [[moved.sum(), samples - moved.sum()], [should_move.sum(), samples - should_move.sum()]]
        ).pvalue
        > ALARM
    )
    ours, drawn = ours[moved], drawn[should_move]
    assert min(len(ours), len(drawn)) > 1_000
    seen = np.column_stack([rows, np.ones(4)])
    looks = {
        "length": lambda steps: np.linalg.norm(steps, axis=1),
        # The output of the first unit for the first document, and the change of the first layer.
        "image": lambda steps: steps[:, : seen.shape[1] * model.widths[1] : model.widths[1]] @ seen[0],
        "first layer": lambda steps: np.linalg.norm(steps[:, : seen.shape[1] * model.widths[1]], axis=1),
        "first weight": lambda steps: steps[:, 0],
        "last bias": lambda steps: steps[:, -1],
    }
    for name, look in looks.items():
        # Rounded, because the length of a single winner is 1 up to rounding.
        samples_of = (np.round(look(steps), 9) for steps in (ours, drawn))
        assert stats.ks_2samp(*samples_of).pvalue > ALARM, name
    # Means of every coordinate, within 5 standard errors of their difference.
    error = np.sqrt(ours.var(axis=0) / len(ours) + drawn.var(axis=0) / len(drawn))
    assert (np.abs(ours.mean(axis=0) - drawn.mean(axis=0)) < 5 * error).all()


@pytest.mark.parametrize("logging", [None, np.array([2.0, 0.0, -2.0, 1.0])], ids=["online", "counterfactual"])
@pytest.mark.parametrize("hidden", [(), (3,)])
def test_a_single_candidate_is_a_winning_unit_vector(hidden, logging, rng):
    """With one candidate the step is its direction: of length 1, and of lower risk than the model."""
    method = COLTR(candidates=1, rate=0.5, reach=0.8)
    rows = 2 * rng.random((4, 300), dtype=np.float32)
    model = model_of(hidden, 300, rng)
    assert not is_direct(4, model.widths, 1)
    queries, won = Queries((rows,), np.array([0, 4])), 0
    now = model.scores(rows)
    logged = now if logging is None else logging
    bar = snips_risk(now, logged, RANKING, CLICKS)
    for k in range(40):
        step = one_step(method, model, queries, seed_stream(np.int64(4), k), logging)
        if not step.any():
            continue
        won += 1
        assert np.linalg.norm(step) == pytest.approx(1.0, rel=1e-9)
        moved = model.with_parameters(model.parameters + 0.8 * step).scores(rows)
        assert snips_risk(moved, logged, RANKING, CLICKS) < bar
    assert 5 < won < 35


def test_parameters_do_not_change_without_skipped_documents(rng):
    rows = rng.random((4, 6), dtype=np.float32)
    model, queries = Linear.initialise(6, rng), Queries((rows,), np.array([0, 4]))
    log = Impressions(
        np.zeros(3, np.int64),
        np.array([[0, 1, -1], [2, 3, 1], [1, 0, 2]], np.int32),
        np.array([[True, False, False], [False, False, False], [True, True, True]]),
    )
    after = replay(COLTR(), MethodState.start(COLTR(), model, rng), queries, log)
    np.testing.assert_array_equal(after.learned.parameters, model.parameters)


def test_candidates_are_weighted_against_the_logging_policy(rng):
    """The model's own scores as logging policy change nothing; other scores do."""
    rows = rng.random((4, 30), dtype=np.float32)
    model, queries = Linear.initialise(30, rng, dtype=np.float64), Queries((rows,), np.array([0, 4]))
    log = Impressions(np.zeros(1, np.int64), np.array([RANKING], np.int32), np.array([CLICKS]))
    state = MethodState.start(COLTR(), model, rng)
    results = [
        replay(COLTR(), state, queries, log, logging=logging).learned.parameters
        for logging in (None, model.scores(rows), np.array([3.0, 0.0, -3.0, 1.0]))
    ]
    np.testing.assert_array_equal(results[0], results[1])
    assert np.abs(results[0] - results[2]).max() > 1e-6


def test_the_variance_changes_the_winners(rng):
    rows = rng.random((4, 30), dtype=np.float32)
    model, queries = Linear.initialise(30, rng, dtype=np.float64), Queries((rows,), np.array([0, 4]))
    stream = seed_stream(np.int64(8), 0)
    usual = one_step(COLTR(), model, queries, stream)
    careful = one_step(COLTR(variance=10.0), model, queries, stream)
    assert np.abs(usual - careful).max() > 1e-6
