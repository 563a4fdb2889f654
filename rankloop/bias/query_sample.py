"""A random sample of the queries of a log: a curve of twenty numbers does not need every query."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rankloop.bias.movement import Movement, count_movement
from rankloop.statistics.tables import CellTable

# Each pass over so many cells takes about a tenth of a second, and an estimate takes several hundred passes.
# Intervals of α are then about 0.04 wide at ten ranks.
MOST_CELLS = 400_000


class QuerySample(NamedTuple):
    """Some queries of a table, with all their documents.

    Attributes:
        table: displays and clicks of these queries.
        queries: how many there are.
        of: how many the whole table has.
    """

    table: CellTable
    queries: int
    of: int

    @property
    def share(self) -> float:
        """The share of the queries that was drawn."""
        return self.queries / self.of

    @property
    def notes(self) -> tuple[str, ...]:
        """The remark that every report must show; none if all queries are used."""
        if self.queries == self.of:
            return ()
        return (
            f"Estimated from {self.queries:,} of {self.of:,} queries, drawn at random: all would take much "
            f"longer, and the intervals, which hold for this sample, say how precise it is.",
        )


def sample_queries(
    table: CellTable, movement: Movement, rng: np.random.Generator, *, most_cells: int = MOST_CELLS
) -> QuerySample:
    """Draw queries at random until they have as many cells as an estimate can use in a minute or two.

    A sample that cannot compare all ranks that the whole log can is doubled until it can.

    Args:
        table: displays and clicks per document and rank.
        movement: how its documents moved.
        rng: draws the queries; it is not used if all of them are.
        most_cells: how many cells are used at most, about.
    """
    queries, query_of = np.unique(table.queries, return_inverse=True)
    whole = QuerySample(table, len(queries), len(queries))
    if len(table.position) <= most_cells:
        return whole
    drawn = rng.permutation(len(queries))
    cells = np.bincount(query_of, np.diff(table.starts), len(queries))[drawn].cumsum()
    while most_cells < cells[-1]:
        chosen = np.zeros(len(queries), np.bool_)
        chosen[drawn[: max(1, int(np.searchsorted(cells, most_cells, side="right")))]] = True
        sample = table.select(np.flatnonzero(chosen[query_of]))
        if count_movement(sample).positions >= movement.positions:
            return QuerySample(sample, int(chosen.sum()), len(queries))
        most_cells *= 2
    return whole
