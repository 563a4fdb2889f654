"""What the tests of every kind of check ask of values that break a clause."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from rankloop.checks import ContractError
from rankloop.checks.contract import Clause

T = TypeVar("T")


def assert_caught(
    clauses: Iterable[Clause[T]], name: str, subject: T, check: Callable[[], object]
) -> ContractError:
    """The clause of this name rejects the subject, and so does the public check."""
    (clause,) = (each for each in clauses if each.name == name)
    with pytest.raises(ContractError, match=f"breaks the contract. Clause {name}: .* But ") as caught:
        clause(subject)
    assert caught.value.clause == name
    with pytest.raises(ContractError):
        check()
    return caught.value
