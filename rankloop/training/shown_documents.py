"""The documents of a log that were shown, with their features, their queries and their clicks by rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from rankloop.objectives import ClickCounts
from rankloop.ragged import segment_index
from rankloop.statistics import Statistics
from rankloop.types import Float32, Int64, Split


@dataclass(frozen=True, eq=False)
class ShownDocuments:
    """The documents that were shown: all that clicks tell about relevance.

    Documents that were never shown are left out: they have no clicks to learn from, and would fill the leaves
    of trees.

    Attributes:
        features: float32, documents × features.
        counts: how often each was shown and clicked, by rank.
        queries: int64, documents; the number of the query.
        n_queries: the number of queries, those without a shown document included.
    """

    features: Float32
    counts: ClickCounts
    queries: Int64
    n_queries: int

    @classmethod
    def of(cls, split: Split, statistics: Statistics) -> Self:
        """The shown documents of a split."""
        return cls.of_items(split.features, statistics)

    @classmethod
    def of_items(cls, features: Float32, statistics: Statistics) -> Self:
        """The shown ones of the items of some queries, which have these features."""
        counts = ClickCounts.of(statistics)
        shown = np.flatnonzero(np.diff(counts.cells))
        queries = segment_index(statistics.offsets)[shown]
        return cls(features[shown], counts.select(shown), queries, statistics.n_queries)

    def __len__(self) -> int:
        return len(self.features)

    def of_queries(self, chosen: NDArray[np.bool_]) -> Self:
        """The documents of some of the queries; the numbers of the queries stay as they are."""
        items = np.flatnonzero(chosen[self.queries])
        return type(self)(
            self.features[items], self.counts.select(items), self.queries[items], self.n_queries
        )
