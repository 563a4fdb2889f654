"""The scale of relevance: what it changes, what it leaves unchanged, and how the anchor fixes it."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import anchored
from rankloop.bias.anchor import Anchor, as_bias, clip_lines, lines_at, widest_anchor
from rankloop.clicks import bias_of, users
from rankloop.errors import DataError, RankloopError
from rankloop.estimators import estimator
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias, BiasEvidence, Lines

PAPER = bias_of(users("paper@5"))


def test_by_hand() -> None:
    # Never clicked at rank 2: R = -0.2 / 0.4. Always clicked at rank 1: R = (1 - 0.5) / 0.25.
    zero, one = -0.5, 2.0
    found = anchored(Bias([0.25, 0.4], beta=[0.5, 0.2], examination=[1.0, 0.5]))
    np.testing.assert_allclose(found.alpha, [0.25 * (one - zero), 0.4 * (one - zero)])
    np.testing.assert_allclose(found.beta, [0.5 + 0.25 * zero, 0.2 + 0.4 * zero], atol=1e-13)
    assert found.examination.tolist() == [1.0, 0.5]


def test_any_scale_of_relevance_has_the_same_anchored_bias() -> None:
    scale, shift = 0.6, 0.1  # R = 0.6 R' + 0.1
    other = Bias(PAPER.alpha * scale, PAPER.beta + PAPER.alpha * shift, PAPER.examination)
    for bias in (other, anchored(PAPER)):
        np.testing.assert_allclose(anchored(bias).alpha, anchored(PAPER).alpha)
        np.testing.assert_allclose(anchored(bias).beta, anchored(PAPER).beta, atol=1e-13)


@pytest.mark.parametrize("name", ["intervention-aware(clip=off)", "intervention-oblivious(clip=off)"])
def test_the_anchor_does_not_change_any_ranking(name: str) -> None:
    """Weights, and so metrics, change by a factor and by a constant shared by all documents of a query."""
    rng = np.random.default_rng(0)
    offsets, scores = np.array([0, 4, 9]), rng.normal(size=9)
    displays = np.zeros((9, 5), np.int64)
    displays[:4] = rng.multinomial(30, np.full(4, 0.25), size=5).T
    displays[4:] = rng.multinomial(10, np.full(5, 0.2), size=5).T
    clicks = rng.binomial(displays, 0.5)
    zero, scale = -PAPER.beta[-1] / PAPER.alpha[-1], 1.0 + PAPER.beta[-1] / PAPER.alpha[-1]

    def weights(bias: Bias) -> np.ndarray:
        statistics = Statistics.of_policy(
            "a", offsets, Exposure.of_scores(scores, offsets, bias),
            impressions_by_query=[30, 10], displays_by_position=displays, clicks_by_position=clicks,
        )  # fmt: skip
        return estimator(name).weights(statistics, bias)

    # With n queries, and a share p of all impressions for this query, a weight is n · p · R.
    share = 2 * np.repeat([30, 10], [4, 5]) / 40
    np.testing.assert_allclose(weights(anchored(PAPER)), (weights(PAPER) - share * zero) / scale)


@pytest.mark.parametrize("alpha", [(0.0, 0.3), (0.3, 0.0), (0.0, 0.0), (0.0, -0.2)])
@pytest.mark.parametrize("beta", [(0.0, 0.0), (0.1, 0.2)])
def test_lines_without_a_scale_stay_finite(alpha: tuple[float, float], beta: tuple[float, float]) -> None:
    """Resamples may have them: a click at the rank of the anchor then says nothing about relevance."""
    found = lines_at(Lines(np.array([alpha, (0.5, 0.4)]), np.array([beta, (0.1, 0.1)])), Anchor(1, 2))
    assert np.isfinite(clip_lines(found)).all()
    alone = lines_at(Lines(np.array([0.5, 0.4]), np.array([0.1, 0.1])), Anchor(1, 2))
    np.testing.assert_array_equal([part[1] for part in found], alone)


def test_resamples_that_are_not_finite_are_refused() -> None:
    resamples = np.full((2, 3, 4), 0.5)
    BiasEvidence("pairs", resamples)
    resamples[1, 0, 2] = np.nan
    with pytest.raises(DataError, match="resamples of a bias must be finite"):
        BiasEvidence("pairs", resamples)


def test_click_probabilities_outside_0_to_1_are_rejected() -> None:
    bias = Bias([0.2, 0.6], beta=[0.4, 0.1], examination=[1.0, 1.0])
    # A document that is always clicked at rank 1 has R = 3, which is not a valid probability at rank 2.
    with pytest.raises(DataError, match=r"ranks 1 and 2, click probabilities at rank 2 .* to 1.9"):
        anchored(bias)
    found = anchored(bias, high=2)
    assert found.alpha[1] + found.beta[1] == pytest.approx(1.0)
    assert found.beta[1] == pytest.approx(0.0, abs=1e-12)


def test_wrong_anchors() -> None:
    with pytest.raises(RankloopError, match="ranks 1 to 5, got 6"):
        anchored(PAPER, low=6)
    with pytest.raises(DataError, match="α is not positive at rank 2"):
        anchored(Bias([0.5, 0.0], beta=[0.1, 0.1], examination=[1.0, 1.0]))


def test_the_widest_anchor_keeps_all_probabilities_in_0_to_1() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        ends = np.sort(rng.uniform(0.02, 0.98, size=(2, 6)), axis=0)
        lines = Lines(ends[1] - ends[0], ends[0])
        anchor = widest_anchor(lines)
        alpha, beta = lines_at(lines, anchor)
        assert beta.min() == pytest.approx(0.0, abs=1e-9)
        assert (alpha + beta).max() == pytest.approx(1.0)
        assert beta.argmin() == anchor.low - 1
        assert (alpha + beta).argmax() == anchor.high - 1


def test_batches_of_lines_and_clipping() -> None:
    many = Lines(np.stack([PAPER.alpha, PAPER.alpha / 2]), np.stack([PAPER.beta, PAPER.beta]))
    found = lines_at(many, Anchor(1, 5))
    np.testing.assert_allclose(found.alpha[0], anchored(PAPER).alpha)
    bias = as_bias(Lines(np.array([0.5, 0.9]), np.array([-0.01, 0.2])), np.ones(2))
    np.testing.assert_allclose(bias.beta, [0.0, 0.2])
    np.testing.assert_allclose(bias.alpha, [0.49, 0.8])
