"""The contract of all values with a name."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

from rankloop.checks.contract import Clause, check_all, require
from rankloop.names import parse
from rankloop.registry import build, name_of


@Clause
def is_frozen(value: Any) -> None:
    """A value is a frozen dataclass: no attribute can be set."""
    for name in [field.name for field in fields(value)] or ["name"]:
        try:
            setattr(value, name, getattr(value, name))
        except (FrozenInstanceError, TypeError):
            continue
        require(False, f"{name!r} can be set: write @dataclass(frozen=True) above the class")


@Clause
def is_hashable(value: Any) -> None:
    """A value can be hashed, so that it can be a key."""
    hash(value)


@Clause
def reads_back(value: Any) -> None:
    """The name of a value reads back as an equal value of the same class, with an equal hash."""
    for text in (str(value), name_of(value, every_option=True)):
        again = build(type(value), parse(text))
        require(again == value, f"{text!r} reads back as {again!r}, which is not equal to {value!r}")
        require(hash(again) == hash(value), f"{text!r} reads back as an equal value with another hash")
        require(str(again) == str(value), f"{text!r} reads back as {str(again)!r}")


VALUE_CLAUSES: tuple[Clause[Any], ...] = (is_frozen, is_hashable, reads_back)


def check_value(value: object) -> None:
    """Check what all values with a name have in common: frozen, hashable, and a name that reads back.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.models.specs import MLPSpec
        >>> check_value(MLPSpec(hidden=(64, 32)))
    """
    check_all(value, VALUE_CLAUSES)
