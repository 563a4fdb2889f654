"""Hand calculations for the reciprocal rank of the first relevant document."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.evaluation import MRR

LABELS, OFFSETS = [0.0, 0.0, 2.0, 1.0, 5.0], [0, 4, 5]


def test_ranking() -> None:
    values = MRR().of_ranking([4.0, 3.0, 2.0, 1.0, 0.0], LABELS, OFFSETS)
    np.testing.assert_array_equal(values, [1 / 3, 1 / 1])


def test_nothing_past_the_cutoff() -> None:
    values = MRR(cutoff=2).of_ranking([4.0, 3.0, 2.0, 1.0, 0.0], LABELS, OFFSETS)
    np.testing.assert_array_equal(values, [0.0, 1.0])


def test_relevant_from() -> None:
    values = MRR(relevant_from=2).of_ranking([1.0, 4.0, 2.0, 3.0, 0.0], LABELS, OFFSETS)
    np.testing.assert_array_equal(values, [1 / 3, 1.0])


def test_policy_of_two_relevant_against_one() -> None:
    # Weights 2 and 3 are relevant, 5 is not: it comes first with probability 5 / 10.
    value = MRR().of_policy(np.log([2.0, 5.0, 3.0]), [1.0, 0.0, 1.0], [0, 3])
    assert value == pytest.approx(5 / 10 * 1 + 5 / 10 * 1 / 2, rel=1e-6)
    value = MRR(cutoff=1).of_policy(np.log([2.0, 5.0, 3.0]), [1.0, 0.0, 1.0], [0, 3])
    assert value == pytest.approx(5 / 10, rel=1e-6)


def test_policy_that_excludes_every_relevant_document() -> None:
    assert MRR().of_policy([-np.inf, 0.0], [1.0, 0.0], [0, 2]) == [0.0]
    assert MRR().of_ranking([-np.inf, 0.0], [1.0, 0.0], [0, 2]) == [0.0]


def test_relevant_scores_far_apart_do_not_overflow() -> None:
    value = MRR().of_policy([900.0, -900.0, 0.0], [1.0, 1.0, 0.0], [0, 3])
    assert value == pytest.approx(1.0, rel=1e-6)
