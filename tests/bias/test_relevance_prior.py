"""The distribution of relevance: its grids, and the fine structure that is learned."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import RankCounts
from rankloop.bias.newton import fit
from rankloop.bias.relevance_prior import (
    COMPONENTS,
    NODES,
    SHAPE_NODES,
    component_weights,
    grid,
    pooled_shape,
    regrid,
    shaped_grid,
)
from tests.bias.counts_of import counts_of


@pytest.mark.parametrize("nodes", NODES)
def test_components_of_a_shape_are_distributions_on_their_own_nodes(nodes: int) -> None:
    shape = np.random.default_rng(0).dirichlet(np.full(SHAPE_NODES, 0.1))
    found = shaped_grid(nodes, shape)
    np.testing.assert_allclose(found.hats.sum(axis=1), 1.0)
    assert ((found.hats > 0.0) == (grid(nodes).hats > 0.0)).all()


def test_a_uniform_shape_gives_plain_hats() -> None:
    found = shaped_grid(33, np.full(SHAPE_NODES, 1.0 / SHAPE_NODES))
    # The nodes at both ends stand for half an interval each.
    np.testing.assert_allclose(found.hats[1:-1, 2:-2], grid(33).hats[1:-1, 2:-2], rtol=1e-3, atol=1e-12)


def test_weights_of_the_components_give_back_their_shape() -> None:
    shape = np.random.default_rng(1).dirichlet(np.ones(SHAPE_NODES))
    weights = component_weights(shape)
    assert weights.shape == (COMPONENTS,)
    np.testing.assert_allclose(pooled_shape(weights, shape), shape, atol=1e-4)


@pytest.mark.parametrize("nodes", [33, 129, 513])
def test_another_grid_keeps_the_total_and_the_mean(nodes: int) -> None:
    shape = np.zeros(SHAPE_NODES)
    shape[[40, 90]] = 0.3, 0.7
    found = regrid(shape, nodes)
    assert found.sum() == pytest.approx(1.0)
    mean = np.linspace(0.0, 1.0, nodes) @ found
    assert mean == pytest.approx(np.linspace(0.0, 1.0, SHAPE_NODES) @ shape)


def test_grades_of_relevance_become_peaks() -> None:
    """Relevance of two grades: with plain hats, half of the probability lay between them.

    200 displays per document tell the grades apart, so nearly all of g is near two points.
    """
    rng = np.random.default_rng(0)
    items = 600
    grades = rng.choice([0.2, 0.7], items)
    displays = np.full((items, 2), 100)
    clicks = rng.binomial(displays, np.outer(grades, [0.5, 0.6]) + np.array([0.4, 0.1]))
    shown = RankCounts.of(counts_of(displays, clicks, sizes=[6] * 100))
    shape = fit(shown).likelihood.shape
    assert shape is not None
    peaks = np.argsort(shape)[-12:]
    near = np.zeros(SHAPE_NODES, bool)
    for offset in range(-6, 7):
        near[np.clip(peaks + offset, 0, SHAPE_NODES - 1)] = True
    assert near.sum() < SHAPE_NODES / 2
    assert shape[near].sum() > 0.95
