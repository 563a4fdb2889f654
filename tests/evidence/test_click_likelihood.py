"""Evidence made of clicks: which scores explain them better, as far as they order documents."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.evidence import convinces, explained_clicks
from rankloop.relevance import ClickModel
from rankloop.statistics import CellTable
from rankloop.types import Bias, Float64

BIAS = Bias(alpha=[0.8, 0.5], beta=[0.1, 0.1], examination=[1.0, 0.7])
QUERIES, DOCUMENTS, DISPLAYS = 60, 4, 20


def world(seed: int) -> tuple[ClickModel, Float64, Float64]:
    """Clicks, the scores behind them, and what queries add to all their documents."""
    rng = np.random.default_rng(seed)
    queries = np.repeat(np.arange(QUERIES), DOCUMENTS)
    scores, level = rng.normal(size=len(queries)), rng.normal(size=QUERIES)[queries]
    ranks = np.arange(len(queries)) % 2
    relevance = 1.0 / (1.0 + np.exp(-(scores + level)))
    clicks = rng.binomial(DISPLAYS, BIAS.alpha[ranks] * relevance + BIAS.beta[ranks]).astype(np.float64)
    shown = np.full(len(queries), float(DISPLAYS))
    cells = CellTable.of_cells(np.arange(len(queries) + 1), ranks, shown, clicks, queries)
    return ClickModel(cells, BIAS, 4.0), scores, level


def test_the_order_behind_the_clicks_explains_them_better() -> None:
    model, scores, _ = world(0)
    noise = np.random.default_rng(1).normal(size=len(scores))
    gain = explained_clicks(scores, model) - explained_clicks(noise, model)
    assert gain.shape == (QUERIES,)
    assert convinces(gain, 3.0)
    assert not convinces(-gain, 0.0)


@pytest.mark.parametrize("other", ["scale", "level"])
def test_neither_the_scale_nor_what_all_documents_of_a_query_share_counts(other: str) -> None:
    model, scores, level = world(0)
    same = 7.0 * scores if other == "scale" else scores + 5.0 * level
    np.testing.assert_allclose(explained_clicks(same, model), explained_clicks(scores, model), atol=1e-5)


def test_a_reversed_order_explains_nothing() -> None:
    model, scores, _ = world(0)
    nothing = explained_clicks(np.zeros_like(scores), model)
    np.testing.assert_allclose(explained_clicks(-scores, model), nothing, atol=1e-6)


def test_noise_seldom_convinces() -> None:
    """Of 200 pairs of unrelated orders, 0.6 % exceed 2.5 standard errors; five is 1 in 300 at that rate."""
    convinced = 0
    for seed in range(200):
        model, scores, _ = world(seed)
        rng = np.random.default_rng([seed, 1])
        one, two = (0.3 * scores + rng.normal(size=len(scores)) for _ in range(2))
        convinced += convinces(explained_clicks(one, model) - explained_clicks(two, model), 2.5)
    assert convinced <= 5
