"""Agreement with the paper authors' code, impression by impression."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.online.pdgd import biased_pdgd_gradient, pdgd_gradient

# Both sides are float64. The authors' code divides probabilities, which loses up to four digits to
# cancellation in the smallest of them (1e-4).
TOLERANCE = {"rtol": 1e-10, "atol": 1e-14}


def test_the_golden_values_are_not_trivial(golden: dict[str, Any]) -> None:
    for name in ("pdgd", "biased_pdgd"):
        moved = [np.any(case["score_gradient"]) for case in golden[name]]
        assert sum(moved) >= 8


def test_pdgd(golden: dict[str, Any]) -> None:
    for case in golden["pdgd"]:
        gradient = pdgd_gradient(case["scores"], case["ranking"], case["clicks"])
        np.testing.assert_allclose(gradient, case["score_gradient"], **TOLERANCE)


def test_biased_pdgd(golden: dict[str, Any]) -> None:
    for case in golden["biased_pdgd"]:
        gradient = biased_pdgd_gradient(case["scores"], case["ranking"], case["clicks"])
        np.testing.assert_allclose(gradient, case["score_gradient"], **TOLERANCE)
