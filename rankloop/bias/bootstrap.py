"""Bootstrap intervals: how an estimate varies when the log is resampled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

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
