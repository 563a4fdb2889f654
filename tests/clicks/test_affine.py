"""The paper's users."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.clicks import AffineUsers, PaperUsers
from rankloop.errors import RankloopError

PRINTED_ALPHA = [0.35, 0.53, 0.55, 0.54, 0.52]
PRINTED_BETA = [0.65, 0.26, 0.15, 0.11, 0.08]


def test_the_closed_form_by_hand() -> None:
    bias = PaperUsers(3).bias
    looks = [1.0, 0.35 / 2 + 0.65 / 1.05, 0.35 / 3 + 0.65 / 1.1]
    plus = [1.0, 1 / 1.005, 1 / 1.01]
    minus = [0.65, 0.65 / 2, 0.65 / 3]
    np.testing.assert_allclose(bias.examination, looks, rtol=1e-13)
    np.testing.assert_allclose(bias.alpha, [looks[k] * (plus[k] - minus[k]) for k in range(3)], rtol=1e-13)
    np.testing.assert_allclose(bias.beta, [looks[k] * minus[k] for k in range(3)], rtol=1e-13)


def test_the_printed_values() -> None:
    bias = PaperUsers(5, rounded=True).bias
    assert bias.alpha.tolist() == PRINTED_ALPHA
    assert bias.beta.tolist() == PRINTED_BETA
    np.testing.assert_allclose(PaperUsers(5).bias.alpha, PRINTED_ALPHA, atol=0.005)
    np.testing.assert_allclose(PaperUsers(5).bias.beta, PRINTED_BETA, atol=0.005)


def test_ranks_do_not_depend_on_the_cutoff() -> None:
    np.testing.assert_array_equal(PaperUsers(5).bias.alpha, PaperUsers(50).bias.alpha[:5])


def test_trust_gives_alpha_and_beta() -> None:
    k = np.arange(1, 6)
    users = AffineUsers.from_trust(PaperUsers(5).bias.examination, 1 / (1 + 0.005 * (k - 1)), 0.65 / k)
    np.testing.assert_allclose(users.bias.alpha, PaperUsers(5).bias.alpha, rtol=1e-13)
    np.testing.assert_allclose(users.bias.beta, PaperUsers(5).bias.beta, rtol=1e-13)
    assert users.bias.examination.tolist() == PaperUsers(5).bias.examination.tolist()


def test_the_default_examination_is_alpha_plus_beta() -> None:
    assert AffineUsers((0.25, 0.5), (0.5, 0.125)).bias.examination.tolist() == [0.75, 0.625]
    assert AffineUsers((0.25, 0.5), (0.5, 0.125), (1.0, 0.875)).bias.examination.tolist() == [1.0, 0.875]


def test_users_with_the_same_values_are_equal() -> None:
    assert AffineUsers([1, 0], np.zeros(2)) == AffineUsers((1.0, 0.0), (0.0, 0.0))
    assert hash(AffineUsers([1, 0], np.zeros(2))) == hash(AffineUsers((1.0, 0.0), (0.0, 0.0)))
    assert AffineUsers([1, 0], [0, 0]) != AffineUsers([1, 0], [0, 0.5])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AffineUsers((0.5,), (0.1, 0.2)), "the same number of ranks, got 1 and 2"),
        (lambda: AffineUsers((0.5, 0.5), (0.1, 0.6)), r"must lie in \[0, 1\]"),
        (lambda: AffineUsers((0.5,), (-0.1,)), r"must lie in \[0, 1\]"),
        (lambda: AffineUsers((float("nan"),), (0.0,)), "alpha must be finite"),
        (lambda: AffineUsers((), ()), "alpha must be finite numbers, one per rank"),
        (
            lambda: AffineUsers(0.5, 0.1),
            "'alpha' of the users 'affine': expected numbers, one per rank, got 0.5",
        ),  # type: ignore[arg-type]
        (lambda: AffineUsers.from_trust([1.0], [1.0, 1.0], [0.0]), "the same number of ranks"),
        (lambda: PaperUsers(0), "the cut-off of users 'paper' must be an integer of at least 1, got 0"),
        (lambda: PaperUsers(2.5), "got 2.5"),  # type: ignore[arg-type]
    ],
)
def test_invalid_users_are_rejected(make: object, message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        make()  # type: ignore[operator]
