"""How a learned policy is softened before it logs."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.errors import RankloopError
from rankloop.exploration import AsLearned, Soft, Support, exploration
from rankloop.policies import expected_rank_weights

SCORES = 8.0 * np.random.default_rng(0).normal(size=40)


def exposed(scores: np.ndarray) -> np.ndarray:
    return expected_rank_weights(scores, np.array([0, 20, 40]), [1.0, 0.5])


@pytest.mark.parametrize("value", [AsLearned(), Soft(by=0.25), Support(share=0.75), Support()])
def test_names_read_back(value: object) -> None:
    assert exploration(str(value)) == value


def test_support_is_as_soft_as_it_takes_and_no_softer() -> None:
    scale = Support(share=0.8).scale(SCORES, exposed, clip=1e-3)
    assert 0.05 < scale < 1.0
    assert np.mean(exposed(scale * SCORES) >= 1e-3) >= 0.8
    assert np.mean(exposed((scale + 0.01) * SCORES) >= 1e-3) < 0.8


def test_support_leaves_alone_what_explores_enough() -> None:
    assert Support(share=0.8).scale(0.01 * SCORES, exposed, clip=1e-3) == 1.0


def test_support_that_cannot_be_had_gives_the_softest() -> None:
    assert Support(share=1.0, softest=0.1).scale(SCORES, exposed, clip=0.9) == pytest.approx(0.1, abs=1e-3)


@pytest.mark.parametrize("make", [lambda: Soft(by=0.0), lambda: Soft(by=1.5), lambda: Support(share=0.0)])
def test_what_cannot_be_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RankloopError, match="above 0 and at most 1"):
        make()


def test_an_unknown_name_suggests_a_known_one() -> None:
    with pytest.raises(RankloopError, match="did you mean 'soft'"):
        exploration("sofd")
