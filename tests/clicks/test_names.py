"""Parsing of the names of users."""

from __future__ import annotations

import pytest

from rankloop.clicks import AffineUsers, CascadeUsers, PaperUsers, PositionUsers, users
from rankloop.errors import RankloopError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("paper", PaperUsers(5)),
        ("paper@10", PaperUsers(10)),
        ("paper@5(rounded=on)", PaperUsers(5, rounded=True)),
        ("position@10(eta=1.0)", PositionUsers(10)),
        ("cascade@5(stop=0.7)", CascadeUsers(5)),
        ("cascade@5(noise=0)", CascadeUsers(5, noise=0)),
        ("affine(beta=0.5:0, alpha=0.5:1)", AffineUsers((0.5, 1.0), (0.5, 0.0))),
        ("affine(alpha=1e-3, beta=0)", AffineUsers((0.001,), (0.0,))),
    ],
)
def test_names_are_parsed(text: str, expected: object) -> None:
    assert users(text) == expected
    assert users(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("papr@5", "unknown users 'papr', did you mean 'paper'"),
        ("position", "'position' needs a cut-off: position@5"),
        ("cascade(stop=1)", "'cascade' needs a cut-off"),
        ("affine", r"'affine' needs a value for alpha and beta: affine\(alpha="),
        ("affine(alpha=0.5)", "needs a value for beta"),
        ("affine@2(alpha=0.5:1, beta=0:0)", "'affine' takes no cut-off"),
        ("affine(alpha=0.5:high, beta=0:0)", "option 'alpha' of .*expected a number, got 'high'"),
        ("affine(alpha=0.5, beta=0:0)", "the same number of ranks"),
        ("paper@5(stop=1)", "unknown option of 'paper' 'stop'"),
        ("paper@5(rounded=yes)", "expected 'on' or 'off'"),
        ("position@5(eta=-1)", "'eta' of the users 'position': expected a number from 0 to 20, got -1.0"),
        ("cascade@5(stop=1.5)", "'stop' of the users 'cascade': expected a number from 0 to 1, got 1.5"),
        ("cascade@5(noise=0.6)", "'noise' of the users 'cascade': expected a number from 0 to 0.5"),
        ("cascade@5(abandon=-0.1)", "'abandon' of the users 'cascade'"),
        ("cascade@0", "cut-off"),
    ],
)
def test_invalid_names_are_rejected(text: str, message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        users(text)
