"""The example of a comparison: the most frequent query whose first documents differ."""

from __future__ import annotations

import numpy as np

from rankloop.offline.comparison import RankingExample
from rankloop.types import Int64
from rankloop.value.valuation import PolicyRanking

OFFSETS = np.array([0, 3, 6])
QUERIES, DOCUMENTS = np.array(["boots", "hats"]), np.array(list("abcxyz"))


def policy(weights: list[float]) -> PolicyRanking:
    return PolicyRanking("p", "sorted", np.array(weights)[:, None], np.zeros((2, 1)), np.ones(2, bool))


def example(new: list[float], old: list[float], impressions: Int64) -> RankingExample | None:
    return RankingExample.of((policy(new), policy(old)), QUERIES, DOCUMENTS, OFFSETS, impressions)


def test_it_is_the_most_frequent_query_that_changes() -> None:
    old = [1.0, 0.6, 0.0, 1.0, 0.6, 0.5]
    new = [0.6, 1.0, 0.0, 0.5, 1.0, 0.6]
    assert example(new, old, np.array([5, 9])) == RankingExample(
        "hats", 9, before=("x", "y", "z"), after=("y", "z", "x")
    )
    # Documents that are never shown are not listed.
    assert example(new, old, np.array([9, 5])) == RankingExample("boots", 9, ("a", "b"), ("b", "a"))
    # The first query ranks alike.
    assert example([*old[:3], *new[3:]], old, np.array([9, 5])).query == "hats"  # type: ignore[union-attr]


def test_there_is_none_if_nothing_changes_or_nothing_came() -> None:
    old = [1.0, 0.6, 0.0, 1.0, 0.6, 0.5]
    assert example(old, old, np.array([5, 9])) is None
    assert example(old[::-1], old, np.array([0, 0])) is None
