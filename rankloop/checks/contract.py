"""Clauses of a contract, and the error that a value which breaks one raises."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import FrozenInstanceError, fields
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from rankloop.errors import RankloopError
from rankloop.names import parse
from rankloop.policies import sample_rankings
from rankloop.ragged import offsets_of
from rankloop.registry import build, name_of
from rankloop.statistics import Exposure, Statistics, of_impressions
from rankloop.types import Bias, Float64, Int64

T = TypeVar("T")


class ContractError(RankloopError):
    """A value breaks a clause of the contract of its kind.

    Attributes:
        clause: the name of the clause.
    """

    def __init__(self, subject: str, clause: str, statement: str, counterexample: str) -> None:
        super().__init__(f"{subject} breaks the contract. Clause {clause}: {statement} But {counterexample}")
        self.clause = clause


class BrokenError(Exception):
    """Raised inside a clause; its message is the counter-example."""


class Clause(Generic[T]):
    """One sentence of a contract and the function that checks it.

    Attributes:
        name: the name of the function.
        statement: the first line of its docstring.

    Example:
        >>> @Clause
        ... def positive(number):
        ...     '''A number is above 0.'''
        ...     require(number > 0, f"it is {number}")
        >>> positive(3)
        >>> positive(-3)
        Traceback (most recent call last):
            ...
        rankloop.checks.contract.ContractError: -3 breaks the contract. Clause positive: A number is above 0.
        But it is -3
    """

    def __init__(self, check: Callable[[T], None]) -> None:
        self.name = check.__name__
        self.statement = (check.__doc__ or "").strip().partition("\n")[0]
        self._check = check

    def __call__(self, subject: T) -> None:
        """Check one value.

        Raises:
            ContractError: the value breaks the clause, or raises another error.
        """
        try:
            # Infinite and undefined results are found by the clauses, with the place where they occur.
            with np.errstate(all="ignore"):
                self._check(subject)
        except BrokenError as broken:
            raise ContractError(_describe(subject), self.name, self.statement, str(broken)) from None
        except Exception as error:
            counterexample = f"it raises {type(error).__name__}: {error}"
            raise ContractError(_describe(subject), self.name, self.statement, counterexample) from error

    def __repr__(self) -> str:
        return self.name


def check_all(subject: T, clauses: Iterable[Clause[T]]) -> None:
    """Check the clauses one after the other; the first that is broken raises."""
    for clause in clauses:
        clause(subject)


def require(holds: object, counterexample: str) -> None:
    """Fail the clause unless the condition holds."""
    if not holds:
        raise BrokenError(counterexample)


def require_same(
    actual: ArrayLike, expected: ArrayLike, what: str, *, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Fail the clause unless two arrays agree, NaN included; names the first place where they differ."""
    a, b = np.asarray(actual), np.asarray(expected)
    require(a.shape == b.shape, f"{what}: the shapes are {a.shape} and {b.shape}")
    different = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if different.any():
        at = tuple(int(i) for i in np.argwhere(different)[0])
        raise BrokenError(f"{what}: at {list(at)} there are {a[at]} and {b[at]}")


def require_refused(
    error: type[Exception], what: str, call: Callable[..., object], *arguments: object
) -> None:
    """Fail the clause unless the call with these arguments raises this error."""
    try:
        call(*arguments)
    except error:
        return
    except Exception as other:
        found = f"{type(other).__name__}: {other}"
        raise BrokenError(f"{what}: {error.__name__} was expected, got {found}") from other
    raise BrokenError(f"{what}: {error.__name__} was expected, and nothing was raised")


def require_unchanged(arrays: dict[str, Any], before: dict[str, Any]) -> None:
    """Fail the clause if one of the inputs differs from the copy taken before the call."""
    for name, array in arrays.items():
        require_same(array, before[name], f"the call changes its input {name}")


def _describe(subject: object) -> str:
    try:
        return str(subject)
    except Exception:
        return object.__repr__(subject)


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


SIZES = np.array([3, 1, 8, 5, 2])
OFFSETS = offsets_of(SIZES)
# How likely anything shown is clicked in a random log.
CLICK_CHANCE = 0.4


def random_log(
    rng: np.random.Generator, bias: Bias, policy: str, scores: Float64, *, impressions: int = 400
) -> Statistics:
    """A random log of a policy; its clicks do not depend on relevance or rank."""
    queries = rng.integers(len(SIZES), size=impressions)
    drawn = sample_rankings(scores, OFFSETS, bias.positions, rng, samples=impressions)
    rankings = drawn[np.arange(impressions), queries]
    clicks = (rng.random(rankings.shape) < CLICK_CHANCE) & (rankings >= 0)
    exposure = Exposure.of_scores(scores, OFFSETS, bias)
    return of_impressions(policy, OFFSETS, exposure, queries=queries, rankings=rankings, clicks=clicks)


def random_queries(
    rng: np.random.Generator, sizes: list[int], max_label: float = 4.0
) -> tuple[Float64, Float64, Int64]:
    """Scores, labels (five grades from 0 to the highest) and offsets of queries with these sizes."""
    offsets = offsets_of(np.array(sizes))
    labels = rng.integers(0, 5, offsets[-1]) * (max_label / 4.0)
    return rng.normal(scale=1.5, size=offsets[-1]), labels, offsets


def rotate_within_queries(offsets: Int64) -> Int64:
    """A permutation that moves every document to the next place in its query, the last to the first."""
    parts = [np.roll(np.arange(a, b), 1) for a, b in pairwise(offsets)]
    return np.concatenate(parts).astype(np.int64)
