"""Affine against position-based model: folds are held out, and unclear differences have no winner."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.bias import ModelComparison
from rankloop.bias.moved_documents import compare
from rankloop.bias.newton import fit
from rankloop.progress import Update
from rankloop.statistics import CellTable
from tests.bias.counts_of import counts_of, simulated


@pytest.mark.parametrize(
    ("gain", "error", "better"),
    [(0.001, 0.0004, "affine"), (-0.001, 0.0004, "position"), (0.001, 0.0006, None), (0.0, 0.0, None)],
)
def test_two_standard_errors_decide(gain: float, error: float, better: str | None) -> None:
    found = ModelComparison(-0.5 + gain, -0.5, gain, error)
    assert found.better == better
    assert ("do not distinguish" in found.decision) == (better is None)
    assert f"{1000 * gain:+.3g} ± {1000 * error:.2g} nats" in found.decision


def test_held_out_clicks_are_less_likely_than_fitted_clicks() -> None:
    """By about one nat per effective parameter."""
    shown = CellTable.of(simulated("paper@3", queries=40, impressions=4_000, seed=1))
    affine, position = fit(shown), fit(shown, position=True)
    updates: list[Update] = []
    found = compare(affine, position, np.random.default_rng(0), updates.append)
    assert found is not None
    displays = shown.displays.sum()
    for held_out, fitted in ((found.affine, affine), (found.position, position)):
        seen = fitted.likelihood.expect(fitted.parameters, np.ones(shown.n_documents)).by_document.sum()
        assert 1 < seen - held_out * displays < 40
    assert [update.share for update in updates] == pytest.approx(np.arange(1, 11) / 10)


def test_one_query_cannot_be_held_out() -> None:
    shown = CellTable.of(counts_of([[400, 300], [200, 500], [100, 100]], [[200, 100], [50, 100], [80, 60]]))
    affine, position = fit(shown), fit(shown, position=True)
    assert compare(affine, position, np.random.default_rng(0)) is None
