"""Bootstrap intervals: how an estimate varies when the log is resampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from rankloop.bias.movement import Movement, count_movement
from rankloop.progress import Progress, report
from rankloop.statistics.intervals import FEW_UNITS, draw_units
from rankloop.statistics.tables import CellTable
from rankloop.types import Float64


def bootstrap(
    estimate: Callable[[CellTable, Float64], Float64],
    shown: CellTable,
    resamples: int,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Float64:
    """Repeat an estimate on resampled data.

    Queries are resampled with replacement. A few queries cannot tell how much queries differ (with one query,
    every resample would be the log itself). Below `FEW_UNITS`, the displays of every document at every rank
    are resampled instead, which varies the number of clicks and keeps the queries.

    Args:
        estimate: maps counts and document weights (float64, documents) to an array; called once per resample.
        shown: the documents. Only queries with at least one displayed document are resampled.
        resamples: number of resamples.
        rng: random generator.
        progress: receives the task ``resampling queries`` or ``resampling displays``.

    Returns:
        float64, resamples × shape of the estimate.
    """
    queries, query_of = np.unique(shown.queries, return_inverse=True)
    ones = np.ones(shown.n_documents)
    keeps_queries = not resamples_queries(shown)
    task = "resampling displays" if keeps_queries else "resampling queries"
    results = []
    for done in range(resamples):
        if keeps_queries:
            times = np.maximum(np.rint(shown.displays), np.ceil(shown.clicks))
            clicks = rng.binomial(times.astype(np.int64), shown.clicks / times).astype(np.float64)
            results.append(estimate(replace(shown, clicks=clicks), ones))
        else:
            results.append(estimate(shown, draw_units(len(queries), rng)[query_of]))
        report(progress, task, (done + 1) / resamples)
    return np.array(results)


def resamples_queries(shown: CellTable) -> bool:
    """Whether there are enough queries to resample them; otherwise their displays are resampled."""
    return len(np.unique(shown.queries)) >= FEW_UNITS


def few_clusters(shown: CellTable) -> list[str]:
    """The note that a report must show if there are too few queries to resample."""
    queries = len(np.unique(shown.queries))
    if queries >= FEW_UNITS:
        return []
    subject = "query is" if queries == 1 else "queries are"
    return [
        f"Only {queries} {subject} used, which is too few to resample queries (fewer than {FEW_UNITS}): "
        f"the intervals resample the displays of each document instead. They hold for these queries and do "
        f"not say how much other queries would differ."
    ]


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
