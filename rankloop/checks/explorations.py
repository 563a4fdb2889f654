"""The contract of every exploration."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankloop.checks.contract import Clause, check_all, require, require_same, require_unchanged
from rankloop.checks.examples import OFFSETS, rotate_within_queries
from rankloop.checks.values import VALUE_CLAUSES
from rankloop.clicks import PaperUsers
from rankloop.loop import Exploration
from rankloop.statistics import Exposure
from rankloop.types import Float64

BIAS = PaperUsers(3).bias
CLIP = 1e-2
# Sums of scores in another order.
CLOSE = 1e-9


@Clause
def only_softens(exploration: Exploration) -> None:
    """The scale is a float above 0 and up to 1, for flat and for sharp scores."""
    for size in (0.0, 1e-3, 1.0, 30.0, 1e4):
        scale = _scale(exploration, size * _scores())
        require(isinstance(scale, float), f"the scale is a {type(scale).__name__}")
        require(0.0 < scale <= 1.0, f"scores with a standard deviation of {size:g} are scaled by {scale}")


@Clause
def explores_in_a_share(exploration: Exploration) -> None:
    """The share of impressions that explore is above 0, at most 1, and never grows."""
    shares = [exploration.explored(impressions) for impressions in (0, 1, 1_000, 10**6, 10**9)]
    require(all(0.0 < share <= 1.0 for share in shares), f"the shares are {shares}")
    require(shares == sorted(shares, reverse=True), f"the shares grow with the impressions: {shares}")


@Clause
def leaves_its_inputs_alone(exploration: Exploration) -> None:
    """Scores and offsets are not changed."""
    given: dict[str, Any] = {"scores": 30.0 * _scores(), "offsets": OFFSETS.copy()}
    before = {name: array.copy() for name, array in given.items()}
    exploration.scale(**given, exposed=_exposed, clip=CLIP)
    require_unchanged(given, before)


@Clause
def has_no_chance_and_no_memory(exploration: Exploration) -> None:
    """The same scores have the same scale, independently of earlier calls."""
    first = _scale(exploration, 30.0 * _scores())
    _scale(exploration, _scores())
    require_same(_scale(exploration, 30.0 * _scores()), first, "the second call on the same scores")


@Clause
def ignores_the_order_of_documents(exploration: Exploration) -> None:
    """The documents of a query may be listed in any order."""
    scores = 30.0 * _scores()
    moved = scores[rotate_within_queries(OFFSETS)]
    actual, expected = _scale(exploration, moved), _scale(exploration, scores)
    require_same(actual, expected, "the scale of documents in another order", rtol=CLOSE)


EXPLORATION_CLAUSES: tuple[Clause[Any], ...] = (
    *VALUE_CLAUSES,
    only_softens,
    explores_in_a_share,
    leaves_its_inputs_alone,
    has_no_chance_and_no_memory,
    ignores_the_order_of_documents,
)


def check_exploration(exploration: Exploration) -> None:
    """Check that an exploration keeps the contract of `rankloop.loop.Exploration`.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.loop import exploration
        >>> check_exploration(exploration("spread(to=2)"))
    """
    check_all(exploration, EXPLORATION_CLAUSES)


def _scores() -> Float64:
    return np.random.default_rng(0).normal(size=int(OFFSETS[-1]))


def _scale(exploration: Exploration, scores: Float64) -> float:
    return exploration.scale(scores, OFFSETS, _exposed, CLIP)


def _exposed(scores: Float64) -> Float64:
    return Exposure.of_scores(scores, OFFSETS, BIAS).alpha
