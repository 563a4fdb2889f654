"""The relevance of every document of a log, corrected for bias: what a log without features can teach."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from rankloop.errors import RankloopError
from rankloop.logs import LogReader
from rankloop.offline.assumed_bias import BiasSource, assume_bias
from rankloop.offline.click_contrast import count_clicks
from rankloop.offline.scores import LOG_KEY, read_scores
from rankloop.progress import Progress
from rankloop.statistics import CellTable
from rankloop.storage.files import replace_file
from rankloop.types import Float64, Int64, Str
from rankloop.value.shrinkage import shrink_relevance

ENDINGS = (".parquet", ".csv")


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
        with replace_file(out, read_back=read_scores) as file:
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
    counts = count_clicks(log, assumed.bias)
    table = CellTable.of(counts)
    found = shrink_relevance(table, assumed.bias, shrink=shrink)
    notes = list(assumed.notes)
    if not assumed.estimated:
        notes.append("The bias was assumed, not estimated from clicks: relevance is right only if it is.")
    if counts.left_out:
        notes.append(f"{counts.left_out:,} rows below position {counts.positions} are left out.")
    return Relevances(
        counts.query_ids[table.queries],
        counts.doc_ids[table.documents],
        table.by_document(table.displays).astype(np.int64),
        table.by_document(table.clicks).astype(np.int64),
        found.relevance,
        found.errors,
        found.mean,
        found.spread,
        tuple(notes),
        counts.fingerprint,
    )
