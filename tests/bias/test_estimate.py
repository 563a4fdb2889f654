"""Bias estimates: recovery of the simulated bias, rejected logs, and notes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rankloop.bias import BiasEstimate, BiasOptions, anchored, estimate_bias
from rankloop.bias.anchor import as_bias, choose_scale, clip_lines, lines_at
from rankloop.bias.bias_estimate import share_in_words
from rankloop.bias.newton import fit
from rankloop.clicks import bias_of, users
from rankloop.errors import DataError, RankloopError
from rankloop.progress import Progress, Update
from rankloop.statistics import Counts
from rankloop.statistics.intervals import draw_units, percentile
from rankloop.statistics.tables import CellTable
from rankloop.types import Lines
from tests.bias.counts_of import counts_of, simulated


def estimate(
    counts: Counts, seed: int = 0, *, progress: Progress | None = None, **options: Any
) -> BiasEstimate:
    return estimate_bias(counts, BiasOptions(**options), rng=np.random.default_rng(seed), progress=progress)


def paper(seed: int = 0) -> Counts:
    return simulated("paper@3", queries=250, impressions=40_000, seed=seed)


@pytest.mark.long
def test_intervals_have_their_stated_coverage() -> None:
    """Eight logs with 90 % intervals.

    The estimates from one log are correlated. If all of them missed together, fewer than five of eight logs
    would be covered with probability 0.5 %. Mean errors exceed 4.5 standard errors in one of 10⁴ cases.
    """
    truth = anchored(bias_of(users("paper@3")))
    errors, covered = [], []
    for seed in range(8):
        found = estimate(paper(seed), seed, resamples=40, held_out=False)
        assert found.alpha is not None
        assert found.beta is not None
        for value, real, ends in (
            (found.bias.alpha, truth.alpha, found.alpha),
            (found.bias.beta[:2], truth.beta[:2], found.beta),
        ):
            errors.append(value - real)
            covered += ((ends.low[: len(real)] <= real) & (real <= ends.high[: len(real)])).tolist()
    assert np.mean(covered) >= 5 / 8
    for part in (np.array(errors[0::2]), np.array(errors[1::2])):
        assert (np.abs(part.mean(axis=0)) < 4.5 * part.std(axis=0, ddof=1) / np.sqrt(8)).all()
        assert np.abs(part).max() < 0.08


@pytest.mark.parametrize("model", ["position", "harvesting"])
def test_position_based_models_recover_examination(model: str) -> None:
    counts = simulated("position@4", queries=250, impressions=40_000, seed=2)
    found = estimate(counts, model=model, resamples=40, held_out=False)
    truth = 1.0 / np.arange(1, 5)
    # Four standard errors, derived from the intervals: fails in one of 10⁴ cases.
    assert found.alpha is not None
    error = (found.alpha.high - found.alpha.low) / (2 * 1.645)
    assert (np.abs(found.bias.alpha - truth) <= 4 * error + 1e-12).all()
    assert error[1:].max() < 0.02
    assert not found.bias.beta.any()
    np.testing.assert_array_equal(found.bias.examination, found.bias.alpha)
    assert (found.check is None) == (model == "harvesting")
    if found.check is not None:
        np.testing.assert_allclose(found.check.harvested, truth, rtol=0.1)


@pytest.mark.parametrize("name", ["paper@3", "position@3"])
def test_examination_is_that_of_the_users(name: str) -> None:
    """Before, examination came from a second, position-based fit: .53 where these users click .71 times."""
    counts = simulated(name, queries=250, impressions=40_000, seed=0)
    found = estimate(counts, resamples=40, held_out=False)
    bias, truth = found.bias, bias_of(users(name))
    relative = (truth.alpha + truth.beta) / (truth.alpha[0] + truth.beta[0])
    assert found.examination is not None
    # Four standard errors, derived from the intervals: fails in one of 10⁴ cases.
    error = (found.examination.high - found.examination.low) / (2 * 1.645)
    assert (np.abs(bias.examination - relative) <= 4 * error + 1e-9).all()
    assert error.max() < 0.03


@pytest.mark.parametrize("model", ["affine", "position", "harvesting"])
def test_whatever_is_reported_follows_from_alpha_and_beta(model: str) -> None:
    found = estimate(paper(), model=model, resamples=20)
    bias = found.bias
    chances = bias.alpha + bias.beta
    np.testing.assert_allclose(bias.examination, chances / chances[0], rtol=1e-12)
    assert bias.evidence is not None
    assert bias.evidence.resamples is not None
    alpha, beta, examined = bias.evidence.resamples.swapaxes(0, 1)
    np.testing.assert_allclose(examined, (alpha + beta) / (alpha + beta)[:, :1], rtol=1e-9)
    for drawn, ends in ((alpha, found.alpha), (beta, found.beta), (examined, found.examination)):
        np.testing.assert_array_equal(percentile(drawn), ends)
    assert f"examined {share_in_words(bias.examination[-1])} as rank 1" in found.headline


@pytest.mark.parametrize("name", ["paper@3", "position@3"])
def test_held_out_queries_detect_trust_bias(name: str) -> None:
    """With fixed seeds; over random seeds, the wrong model would win in 2.5 % of the cases."""
    counts = simulated(name, queries=200, impressions=40_000, seed=2)
    found = estimate(counts, resamples=0)
    assert found.comparison is not None
    assert (found.comparison.better == "affine") == (name == "paper@3")
    assert found.comparison.gain == pytest.approx(found.comparison.affine - found.comparison.position)
    assert -np.log(2) < found.comparison.position < 0


def test_a_position_based_estimate_warns_about_trust_bias() -> None:
    found = estimate(paper(), model="position", resamples=0)
    assert any("leaves out trust bias" in note for note in found.notes)


def test_the_same_seed_gives_the_same_estimate() -> None:
    one, other = (estimate(paper(), 3, resamples=20).to_dict() for _ in range(2))
    assert one == other
    assert json.loads(json.dumps(one)) == one


def test_ranks_without_movement_get_no_estimate() -> None:
    counts = paper()
    cells = counts.cells
    # Rank 3 always shows the same document of each query.
    document = np.where(cells.position == 2, cells.document // 8 * 8, cells.document).astype(np.int32)
    where = (cells.position != 2) & (cells.document % 8 != 0) | (cells.position == 2)
    fixed = replace(cells, document=document)
    part = {
        name: getattr(fixed, name)[where] for name in ("policy", "document", "position", "displays", "clicks")
    }
    found = estimate(replace(counts, cells=replace(cells, **part)), resamples=20)
    assert found.bias.positions == 2
    assert len(found.movement.displays) == 3
    assert found.notes[0].startswith("No estimate below rank 2: too little movement at rank 3")
    assert found.anchor.low == 2


def test_a_single_deterministic_policy_is_rejected() -> None:
    displays = np.tile(np.diag([5000, 5000, 5000]), (20, 1))
    with pytest.raises(DataError, match="always shown at the same rank of its query"):
        estimate(counts_of(displays, displays // 3, sizes=[3] * 20))


def test_documents_without_different_relevance_are_rejected() -> None:
    """Chance alone exceeds four standard deviations in about one of 10⁴ such logs."""
    displays = np.full((60, 2), 400)
    clicks = np.random.default_rng(0).binomial(displays, [0.5, 0.3])
    with pytest.raises(DataError, match="not on which document is shown there"):
        estimate(counts_of(displays, clicks, sizes=[3] * 20))


def test_documents_whose_order_depends_on_the_rank_are_rejected() -> None:
    """Documents that are clicked at rank 1 are not clicked at rank 2: no relevance explains that."""
    displays = np.full((60, 3), 4000)
    clicks = np.tile([[3000, 1000, 2500], [1000, 3000, 500]], (30, 1))[:, [0, 2, 1]]
    with pytest.raises(DataError, match="the affine model does not hold"):
        estimate(counts_of(displays, clicks, sizes=[3] * 20), resamples=0, held_out=False)


def test_an_impossible_anchor_is_replaced() -> None:
    """The slope at rank 2 is steeper than the range of rank 1 allows."""
    lines = Lines(np.array([0.1, 0.5]), np.array([0.3, 0.1]))
    replaced = choose_scale(lines, None, 0.9)
    bias = as_bias(lines_at(lines, replaced.anchor))
    assert replaced.anchor == (2, 2)
    assert replaced.notes[-1].startswith(
        "The scale of this estimate: relevance 1 is always clicked at rank 2, relevance 0 never at rank 2. "
        "The usual ranks, 1 and 2, would"
    )
    assert bias.beta[1] == pytest.approx(0.0, abs=1e-12)
    assert bias.alpha[1] == pytest.approx(1.0)
    # It is replaced, too, if the probability of the estimate is just outside: clipped lines would have other
    # ratios of α. Resamples are clipped.
    again = Lines(np.array([[0.4, 0.35]] * 10 + [[0.4, 0.45]] * 10), np.full((20, 2), 0.5))
    near = Lines(np.array([0.4, 0.41]), np.full(2, 0.5))
    moved = choose_scale(near, again, 0.9)
    bias = as_bias(lines_at(near, moved.anchor))
    assert moved.anchor == (2, 2)
    assert bias.alpha[0] / bias.alpha[1] == pytest.approx(0.4 / 0.41)
    assert moved.alpha is not None
    assert moved.alpha.high.max() <= 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "affin"}, "unknown model 'affin', did you mean 'affine'"),
        ({"resamples": 5}, "at least 20 resamples, got 5"),
        ({"confidence": 90}, "between 0 and 1, such as 0.9, got 90"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        estimate(paper(), **options)


def test_progress_reaches_the_end() -> None:
    updates: list[Update] = []
    estimate(paper(), resamples=20, progress=updates.append)
    tasks = list(dict.fromkeys(update.task for update in updates))
    assert tasks[-2:] == ["resampling queries", "comparing on held-out queries"]
    assert {update.share for update in updates if update.task == tasks[-1]} >= {1.0}


def test_resamples_can_be_drawn_again() -> None:
    """What evaluation needs to resample the bias and the clicks together: the same queries, from the seed."""
    counts = simulated("paper@2", queries=60, impressions=20_000, seed=0)
    found = estimate(counts, 1, resamples=20, held_out=False)
    assert found.resampled is not None
    assert found.resample_seed is not None
    assert found.resampled.alpha.shape == found.resampled.beta.shape == (20, 2)
    assert found.log == counts.fingerprint
    draws = np.random.default_rng(found.resample_seed)
    shown = CellTable.of(counts, found.bias.positions)
    queries, query_of = np.unique(shown.queries, return_inverse=True)
    fitted, weights = fit(shown), draw_units(len(queries), draws)[query_of]
    nearby = fitted.parameters.free_after((weights - 1.0) @ (fitted.correction * fitted.influence()))
    lines = clip_lines(lines_at(Lines(*nearby), found.anchor))
    np.testing.assert_allclose(found.resampled.alpha[0], lines.alpha, atol=1e-6)
