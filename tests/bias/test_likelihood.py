"""The likelihood against a direct computation, its derivatives against finite differences, and its prior."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias.anchor import Anchor, lines_at
from rankloop.bias.likelihood import (
    COMPONENTS,
    DOCUMENTS_PER_COMPONENT,
    NODES,
    POOLED_DOCUMENTS,
    SHAPE_NODES,
    Likelihood,
    Parameters,
    component_weights,
    grid,
    grid_levels,
    pooled_shape,
    regrid,
    shaped_grid,
)
from rankloop.bias.newton import Strata, fit
from rankloop.statistics import CellTable
from rankloop.types import Lines
from tests.bias.counts_of import counts_of, simulated

POOLED = np.linspace(1.0, 2.0, COMPONENTS) / np.linspace(1.0, 2.0, COMPONENTS).sum()


def small() -> tuple[Likelihood, Parameters]:
    """Five documents in two strata; one was shown so often that it needs more nodes."""
    rng = np.random.default_rng(0)
    displays = np.array([[3, 0, 5], [1, 1, 1], [0, 4, 0], [200, 300, 100], [2, 0, 9]])
    shown = CellTable.of(counts_of(displays, rng.binomial(displays, 0.4)))
    prior = rng.dirichlet(np.full(COMPONENTS, 2.0), size=2)
    at = Parameters(np.array([0.3, 0.1, 0.05]), np.array([0.9, 0.6, 0.5]), prior, np.full(3, 1e-9))
    return Likelihood(shown, np.array([0, 1, 1, 0, 1]), 2, POOLED), at


def moved(at: Parameters, step: np.ndarray) -> Parameters:
    """Take a step given as one flat vector."""
    ends = 2 * len(at.low)
    return at.step(step[:ends], step[ends:].reshape(at.prior.shape))


def flat_gradient(likelihood: Likelihood, at: Parameters, weights: np.ndarray) -> np.ndarray:
    ends, components = likelihood.expect(at, weights).gradient(at)
    return np.concatenate([ends, components.ravel()])


def ends_of(at: Parameters, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The step in log-odds that changes the ends, to first order, by these amounts."""
    slopes = np.stack([at.low * (1.0 - at.low), at.high * (1.0 - at.high)], axis=1)
    return (np.stack([low, high], axis=1) / slopes).ravel()


def test_steps_that_only_rescale_relevance_are_left_out() -> None:
    _, at = small()
    for zero, one in ((3.0, 0.0), (0.0, -7.0), (-2.0, 5.0)):
        found = at.free_after(ends_of(at, at.alpha * zero, at.alpha * one))
        np.testing.assert_allclose(found, at.free, atol=1e-12)


def test_steps_change_the_anchored_lines_by_their_first_derivative() -> None:
    """Whatever is left out changes no anchored line, to first order."""
    _, at = small()
    rng, size = np.random.default_rng(1), 1e-6
    low, high = rng.normal(size=(2, 3)) * size
    anchor = Anchor(1, 3)
    start = np.stack(lines_at(Lines(*at.free), anchor))
    plain = Lines(at.alpha + high - low, at.low + low)
    found = Lines(*at.free_after(ends_of(at, low, high)))
    change, expected = (np.stack(lines_at(lines, anchor)) - start for lines in (found, plain))
    assert np.abs(expected).max() > size / 10
    np.testing.assert_allclose(change, expected, atol=100 * size**2)


def test_the_value_matches_a_direct_sum() -> None:
    likelihood, at = small()
    shown, expected = likelihood.shown, []
    for document in range(shown.n_documents):
        cells = slice(shown.starts[document], shown.starts[document + 1])
        nodes = grid(NODES[1] if document == 3 else NODES[0])
        chances = at.prior[likelihood.stratum[document]] @ nodes.hats
        for k, n, c in zip(shown.position[cells], shown.displays[cells], shown.clicks[cells], strict=True):
            p = at.low[k] + nodes.relevance * (at.high[k] - at.low[k])
            chances = chances * p**c * (1 - p) ** (n - c)
        expected.append(np.log(chances.sum()))
    weights = np.array([1.0, 0.0, 2.0, 1.0, 1.0])
    sums = likelihood.expect(at, weights)
    counted = weights > 0
    np.testing.assert_allclose(sums.by_document[counted], np.array(expected)[counted], rtol=1e-12)
    pseudo = ((POOLED_DOCUMENTS * POOLED + DOCUMENTS_PER_COMPONENT) * np.log(at.prior)).sum()
    assert sums.value == pytest.approx(weights @ np.array(expected) + pseudo, rel=1e-12)


def test_the_gradient_matches_finite_differences() -> None:
    likelihood, at = small()
    weights = np.array([1.0, 2.0, 0.0, 1.0, 3.0])
    gradient, size = flat_gradient(likelihood, at, weights), 1e-5
    for i, expected in enumerate(gradient):
        step = np.zeros(len(gradient))
        step[i] = size
        above, below = (likelihood.expect(moved(at, s * step), weights).value for s in (1, -1))
        # With pseudo-documents, components sum to more than the number of documents; the prior always sums to
        # 1.
        assert (above - below) / (2 * size) == pytest.approx(expected, abs=1e-4), i


def test_the_curvature_of_the_ends_matches_finite_differences_everywhere() -> None:
    likelihood, at = small()
    weights, size = np.array([1.0, 2.0, 1.0, 1.0, 3.0]), 1e-5
    found = likelihood.curvature(at, likelihood.expect(at, weights), weights)
    ends = 6
    for i, step in enumerate(size * np.eye(ends + 2 * COMPONENTS)):
        above, below = (flat_gradient(likelihood, moved(at, s * step), weights)[:ends] for s in (1, -1))
        expected = found.ends[i] if i < ends else found.border.reshape(-1, ends)[i - ends]
        np.testing.assert_allclose(-(above - below) / (2 * size), expected, atol=1e-4)


def test_the_curvature_matches_finite_differences_where_the_gradient_is_0() -> None:
    shown = CellTable.of(simulated("paper@3", queries=60, impressions=20_000, seed=3))
    likelihood = Likelihood(shown, np.arange(shown.n_documents) % 2, 2, POOLED)
    weights = np.ones(shown.n_documents)
    at = Parameters(
        np.array([0.6, 0.2, 0.1]),
        np.array([0.95, 0.8, 0.7]),
        np.full((2, COMPONENTS), 1 / COMPONENTS),
        np.full(3, 1e-9),
    )
    for _ in range(3000):
        at = likelihood.maximise(at, likelihood.expect(at, weights))
    sums = likelihood.expect(at, weights)
    assert np.abs(flat_gradient(likelihood, at, weights)).max() < 0.1
    found = likelihood.curvature(at, sums, weights)
    ends, size = 6, 1e-4
    slopes = []
    for step in size * np.eye(ends + 2 * COMPONENTS):
        above, below = (flat_gradient(likelihood, moved(at, s * step), weights) for s in (1, -1))
        slopes.append(-(above - below) / (2 * size))
    differences = np.array(slopes)
    tolerance = 1e-3 * np.abs(found.ends).max()
    np.testing.assert_allclose(found.ends, differences[:ends, :ends], atol=tolerance)
    border = found.border.reshape(2 * COMPONENTS, ends)
    np.testing.assert_allclose(border, differences[ends:, :ends], atol=tolerance)
    total = sums.components.sum(axis=1)
    for s in range(2):
        here = slice(ends + s * COMPONENTS, ends + (s + 1) * COMPONENTS)
        # The curvature ignores the constraint that the prior sums to 1.
        within = found.within[s] - total[s] * np.outer(at.prior[s], at.prior[s])
        np.testing.assert_allclose(within, differences[here, here], atol=tolerance)


def test_expectation_maximisation_never_lowers_the_likelihood() -> None:
    likelihood, at = small()
    weights, last = np.ones(5), -np.inf
    for _ in range(50):
        sums = likelihood.expect(at, weights)
        assert sums.value >= last - 1e-9
        at, last = likelihood.maximise(at, sums), sums.value
    np.testing.assert_allclose(at.prior.sum(axis=1), 1.0)


def test_a_document_with_weight_2_counts_as_two_documents() -> None:
    displays, clicks = np.array([[3, 4], [5, 2]]), np.array([[1, 2], [0, 1]])
    shown = CellTable.of(counts_of(displays, clicks))
    twice = CellTable.of(counts_of(displays[[0, 0, 1]], clicks[[0, 0, 1]]))
    at = Parameters(np.array([0.2, 0.1]), np.array([0.8, 0.6]), POOLED[None], np.full(2, 1e-9))
    one = Likelihood(shown, np.zeros(2, np.int64), 1, POOLED)
    other = Likelihood(twice, np.zeros(3, np.int64), 1, POOLED)
    weights = np.array([2.0, 1.0])
    a, b = one.expect(at, weights), other.expect(at, np.ones(3))
    assert a.value == pytest.approx(b.value, rel=1e-13)
    np.testing.assert_allclose(a.displays, b.displays)
    left, right = one.curvature(at, a, weights), other.curvature(at, b, np.ones(3))
    for name in ("ends", "border", "within"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), atol=1e-12)


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CellTable.of(simulated("paper@3", queries=1500, impressions=30_000, seed=0))
    assert shown.n_documents > 5_000  # enough for several threads
    values = []
    for threads in ("1", "3"):
        monkeypatch.setenv("RANKLOOP_THREADS", threads)
        strata = Strata.of(shown)
        likelihood = Likelihood(shown, strata.stratum(shown), strata.number, POOLED)
        at = Parameters(
            np.full(3, 0.1), np.full(3, 0.8), np.repeat(POOLED[None], strata.number, axis=0), np.full(3, 1e-9)
        )
        sums = likelihood.expect(at, np.ones(shown.n_documents))
        values.append(
            (sums, likelihood.curvature(at, sums, np.ones(shown.n_documents)), likelihood.mean_relevance(at))
        )
    (one, one_curve, one_mean), (other, other_curve, other_mean) = values
    assert one.value == other.value
    assert np.array_equal(one.clicks, other.clicks)
    assert np.array_equal(one_curve.border, other_curve.border)
    assert np.array_equal(one_mean, other_mean)


def test_every_grid_gives_the_integral_of_the_finest_grid() -> None:
    displays = np.array([[200, 30], [2000, 1500]])
    clicks = displays * 2 // 5
    at = Parameters(np.array([0.1, 0.05]), np.array([0.9, 0.7]), POOLED[None], np.full(2, 1e-9))
    shown = CellTable.of(counts_of(displays, clicks))
    assert grid_levels(shown.by_document(shown.displays)).tolist() == [0, 1]
    found = Likelihood(shown, np.zeros(2, np.int64), 1, POOLED).mean_relevance(at)
    fine = grid(NODES[-1])
    for document in range(2):
        log = np.log(POOLED @ fine.hats)
        for k in range(2):
            p = at.low[k] + fine.relevance * (at.high[k] - at.low[k])
            log = (
                log
                + clicks[document, k] * np.log(p)
                + (displays[document, k] - clicks[document, k]) * np.log(1 - p)
            )
        chances = np.exp(log - log.max())
        expected = (chances * fine.relevance).sum() / chances.sum()
        assert found[document] == pytest.approx(expected, abs=2e-3)


def test_mean_relevance_of_frequently_shown_documents_is_their_relevance() -> None:
    relevance = np.linspace(0.1, 0.9, 9)
    displays = np.full((9, 2), 40_000)
    chance = np.outer(relevance, [0.5, 0.4]) + np.array([0.3, 0.1])
    shown = CellTable.of(counts_of(displays, (displays * chance).round()))
    at = Parameters(np.array([0.3, 0.1]), np.array([0.8, 0.5]), POOLED[None], np.full(2, 1e-9))
    found = Likelihood(shown, np.zeros(9, np.int64), 1, POOLED).mean_relevance(at)
    np.testing.assert_allclose(found, relevance, atol=2e-3)


def test_fit_reaches_the_likelihood_of_expectation_maximisation() -> None:
    shown = CellTable.of(simulated("paper@3", queries=100, impressions=20_000, seed=5))
    fitted = fit(shown)
    assert fitted.converged
    at, weights = fitted.parameters, np.ones(shown.n_documents)
    for _ in range(200):
        at = fitted.likelihood.maximise(at, fitted.likelihood.expect(at, weights))
    assert fitted.likelihood.expect(at, weights).value - fitted.value < 0.05


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
    documents = 600
    grades = rng.choice([0.2, 0.7], documents)
    displays = np.full((documents, 2), 100)
    clicks = rng.binomial(displays, np.outer(grades, [0.5, 0.6]) + np.array([0.4, 0.1]))
    shown = CellTable.of(counts_of(displays, clicks, sizes=[6] * 100))
    shape = fit(shown).likelihood.shape
    assert shape is not None
    peaks = np.argsort(shape)[-12:]
    near = np.zeros(SHAPE_NODES, bool)
    for offset in range(-6, 7):
        near[np.clip(peaks + offset, 0, SHAPE_NODES - 1)] = True
    assert near.sum() < SHAPE_NODES / 2
    assert shape[near].sum() > 0.95
