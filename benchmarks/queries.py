"""Random queries that policies are measured on."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rankloop.types import Float64, Int64

# The mean number of documents in the Yahoo! collection, and the number of ranks in the paper.
DOCUMENTS, RANKS = 24, 5
GRADES = 5


@dataclass(frozen=True, eq=False)
class RandomQueries:
    """Queries of equal size, as flat arrays: standard normal scores, random grades 0 to 4 over 4."""

    scores: Float64
    grades: Float64
    offsets: Int64

    @classmethod
    def draw(cls, queries: int, documents: int, seed: int) -> RandomQueries:
        """Draw queries; the same seed gives the same queries."""
        rng = np.random.default_rng(seed)
        scores = rng.standard_normal(queries * documents)
        grades = rng.integers(GRADES, size=queries * documents) / (GRADES - 1)
        return cls(scores, grades, np.arange(queries + 1) * documents)

    def queries(self) -> list[tuple[Float64, Float64]]:
        """Return the scores and grades of each query."""
        return [(self.scores[a:b], self.grades[a:b]) for a, b in pairwise(self.offsets.tolist())]
