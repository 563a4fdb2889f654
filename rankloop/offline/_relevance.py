"""The relevance of every document of a log, corrected for bias: what a log without features can teach."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankloop.errors import RankloopError
from rankloop.logs import LogCounts, LogReader
from rankloop.offline.assumed_bias import BiasSource, assume_bias
from rankloop.offline.click_contrast import require_contrast
from rankloop.offline.tables import LOG_KEY
from rankloop.progress import Progress
from rankloop.storage.files import replace_file
from rankloop.types import Bias, Float64, Int64, Str

ENDINGS = (".parquet", ".csv")
# The mean of a rank counts the overall mean as so many examined displays.
EXAMINED_PER_RANK = 10.0


@dataclass(frozen=True, eq=False)
class Relevances:
    """The relevance of documents of queries; all arrays have the same length.

    Attributes:
        query_ids: the queries.
        doc_ids: the documents.
        displays: int64; how often the document was shown at the ranks of the bias.
        clicks: int64; how often it was clicked there.
        relevance: float64; corrected for bias, in the units of the bias.
        errors: float64; standard errors.
        mean: the mean relevance of what was shown.
        spread: the estimated standard deviation of relevance between documents that are shown at one rank.
        notes: caveats that every report must state.
        log: the fingerprint of the log.
    """

    query_ids: Str
    doc_ids: Str
    displays: Int64
    clicks: Int64
    relevance: Float64
    errors: Float64
    mean: float
    spread: float
    notes: tuple[str, ...]
    log: str

    def __len__(self) -> int:
        return len(self.doc_ids)

    def table(self) -> pa.Table:
        """A table that `rankloop evaluate --policy` takes: ``score`` is the relevance."""
        return pa.table(
            {
                "query_id": pa.array(self.query_ids.tolist(), pa.string()),
                "doc_id": pa.array(self.doc_ids.tolist(), pa.string()),
                "score": self.relevance,
                "standard_error": self.errors,
                "displays": self.displays,
                "clicks": self.clicks,
                "click_rate": self.clicks / np.maximum(self.displays, 1),
            }
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the table as Parquet or CSV, as the name ends; whole or not at all."""
        out = Path(path)
        if not out.name.endswith(ENDINGS):
            raise RankloopError(f"{out}: the name of a table of relevance ends in {' or '.join(ENDINGS)}")
        table = self.table()
        with replace_file(out) as file:
            if out.suffix == ".csv":
                pyarrow.csv.write_csv(table, file)
            else:
                known = {LOG_KEY: self.log.encode()}
                pq.write_table(table.replace_schema_metadata(known), file)
        return out


def relevance(
    log: LogReader,
    *,
    bias: BiasSource = None,
    shrink: bool = True,
    seed: int = 0,
    progress: Progress | None = None,
) -> Relevances:
    """Estimate the relevance of every document that was shown, corrected for position and trust bias.

    Given where a document was shown, its clicks have the mean ``Σ_k n_k (α_k R + β_k)``. So

        R̂ = m + (C − e) / a,      a = Σ_k n_k α_k,   e = Σ_k n_k (α_k m + β_k)

    is unbiased, whatever m. A document that was examined once is known badly, so by default the second term
    is multiplied by ``a²τ² / (a²τ² + v)``, with ``v = Σ_k n_k p_k (1 − p_k)`` and ``p_k = α_k m + β_k``: the
    best linear prediction if relevance varies by τ around m, which is estimated from the same clicks. Here m
    is the mean relevance of what is shown at the ranks where the document was shown: production knows
    something, too, and documents about which clicks say little are ordered as it does.

    Args:
        log: the log, as `rankloop.open_log` opens it.
        bias: how users click; see `rankloop.evaluate`. None to estimate it from the log.
        shrink: whether documents with few displays are drawn to the mean.
        seed: the random seed of the estimated bias.
        progress: called with what is being done.

    Reference: docs/offline.md; Robbins, An empirical Bayes approach to statistics, 1956.
    """
    assumed = assume_bias(log, bias, seed=seed, progress=progress)
    counts = log.count(assumed.bias.ranks)
    require_contrast(counts)
    found = estimate_relevance(counts, assumed.bias, shrink=shrink)
    query = np.repeat(np.arange(counts.n_queries), np.diff(counts.offsets))
    shown = found.displays > 0
    notes = list(assumed.notes)
    if not assumed.estimated:
        notes.append("The bias was assumed, not estimated from clicks: relevance is right only if it is.")
    if counts.left_out:
        notes.append(f"{counts.left_out:,} rows below rank {counts.ranks} are left out.")
    return Relevances(
        counts.query_ids[query[shown]],
        counts.doc_ids[shown],
        found.displays[shown],
        found.clicks[shown],
        found.relevance[shown],
        found.errors[shown],
        found.mean,
        found.spread,
        tuple(notes),
        counts.fingerprint,
    )


@dataclass(frozen=True, eq=False)
class ItemRelevance:
    """The relevance of all items of some counts; see `Relevances`."""

    displays: Int64
    clicks: Int64
    relevance: Float64
    errors: Float64
    mean: float
    spread: float


def estimate_relevance(counts: LogCounts, bias: Bias, *, shrink: bool = True) -> ItemRelevance:
    """Estimate the relevance of all items; items that were never examined have the mean.

    Example:
        >>> from rankloop.bias import simulated_counts
        >>> from rankloop.clicks import Counts
        >>> shown = np.array([[4, 0], [0, 4]])
        >>> part = Counts(np.array([4]), shown, shown // 4)   # each clicked once in four displays
        >>> users = Bias(alpha=[1.0, 0.5], beta=[0.0, 0.0], examination=[1.0, 0.5])
        >>> found = estimate_relevance(simulated_counts(np.array([0, 2]), {"a": part}), users, shrink=False)
        >>> found.relevance.tolist()                          # rank 2 is examined half as often
        [0.25, 0.5]
    """
    cells, items = counts.cells, counts.n_items
    inside = cells.rank < bias.ranks
    item, rank, shown, clicked = (
        part[inside] for part in (cells.item, cells.rank, cells.displays, cells.clicks)
    )

    def total(values: NDArray[Any]) -> Float64:
        return np.bincount(item, weights=values, minlength=items).astype(np.float64)

    displays, clicks = total(shown), total(clicked)
    examined, trusted = total(shown * bias.alpha[rank]), total(shown * bias.beta[rank])
    everything = examined.sum()
    mean = float((clicks.sum() - trusted.sum()) / everything) if everything > 0 else 0.0
    known = examined > 0
    safe = np.where(known, examined, 1.0)
    means = _by_rank(rank, shown, clicked, bias, mean)
    prior = np.where(known, total(shown * (bias.alpha * means)[rank]) / safe, mean)
    chance = np.clip(bias.alpha[rank] * prior[item] + bias.beta[rank], 0.0, 1.0)
    excess, noise = clicks - examined * prior - trusted, total(shown * chance * (1.0 - chance))
    squares = float((examined**2).sum())
    variance = max(float((excess**2 - noise).sum()) / squares, 0.0) if squares > 0 else 0.0
    weight = np.ones(items)
    if shrink:
        signal = examined**2 * variance
        weight = np.divide(signal, signal + noise, out=np.zeros(items), where=signal + noise > 0)
    # Written so that documents of equal counts have equal values, to the last bit.
    result = np.where(known, (1.0 - weight) * prior + weight * ((clicks - trusted) / safe), mean)
    # Without shrinking, the error of sampling; with it, that of the prediction.
    errors = np.sqrt(weight * noise) / safe
    errors = np.where(known, errors, np.sqrt(variance))
    return ItemRelevance(
        displays.astype(np.int64), clicks.astype(np.int64), result, errors, mean, float(np.sqrt(variance))
    )


def _by_rank(
    rank: NDArray[Any], shown: NDArray[Any], clicked: NDArray[Any], bias: Bias, mean: float
) -> Float64:
    """The mean relevance of what is shown at each rank, with a little of the overall mean."""
    displays, clicks = (
        np.bincount(rank, weights=counted, minlength=bias.ranks).astype(np.float64)
        for counted in (shown, clicked)
    )
    more: Float64 = clicks - bias.beta * displays + EXAMINED_PER_RANK * mean
    examined: Float64 = bias.alpha * displays + EXAMINED_PER_RANK
    return np.divide(more, examined)
