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
from rankloop.frames import Tabular
from rankloop.logs import LogReader
from rankloop.logs.sanity import count_clicks
from rankloop.offline.assumptions import BiasSource, assume_bias
from rankloop.offline.judgments import ENDINGS, FORMS, HIGHEST_GRADE, grade, write_judgments
from rankloop.offline.scores import LOG_KEY, read_scores
from rankloop.progress import Progress
from rankloop.statistics import CellTable
from rankloop.storage.files import replace_file, write_whole
from rankloop.types import Float64, Int64, Str
from rankloop.value.shrinkage import shrink_relevance

TABLES = (".parquet", ".csv")


@dataclass(frozen=True, eq=False)
class Relevances(Tabular):
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

    def __repr__(self) -> str:
        queries = len(np.unique(self.query_ids))
        return f"Relevances({len(self):,} documents of {queries:,} queries, mean relevance {self.mean:.3f})"

    def to_arrow(self) -> pa.Table:
        """A table that `rankloop evaluate --policy` takes: ``score`` is the relevance."""
        table = pa.table(
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
        return table.replace_schema_metadata({LOG_KEY: self.log.encode()})

    def judgments(self, form: str = "qrels", *, grades: int = HIGHEST_GRADE) -> str:
        """The relevance as judgments for a tool that evaluates search.

        Args:
            form: ``qrels`` (TREC), ``opensearch`` (the Search Relevance Workbench) or ``quepid``.
            grades: the grade of relevance 1; relevance below 0 has grade 0, above 1 this one.
        """
        table = self.to_arrow()
        return write_judgments(form, grade(table["query_id"], table["doc_id"], self.relevance, grades))

    def save(
        self, path: str | os.PathLike[str], form: str | None = None, *, grades: int = HIGHEST_GRADE
    ) -> Path:
        """Write a table or judgments, whole or not at all.

        Args:
            path: where to; ``.parquet`` and ``.csv`` are tables, ``.qrels`` and ``.json`` are judgments.
            form: ``qrels``, ``opensearch`` or ``quepid``; None to tell by how the path ends.
            grades: the grade of relevance 1 in judgments.
        """
        out = Path(path)
        chosen = form or ENDINGS.get(out.suffix)
        if chosen is not None:
            return write_whole(out, self.judgments(chosen, grades=grades).encode())
        if not out.name.endswith(TABLES):
            raise RankloopError(
                f"{out}: the name of a table of relevance ends in {' or '.join(TABLES)}, and that of "
                f"judgments in {' or '.join(ENDINGS)}; or give a format: {', '.join(FORMS)}"
            )
        table = self.to_arrow()
        with replace_file(out, read_back=read_scores) as file:
            if out.suffix == ".csv":
                pyarrow.csv.write_csv(table, file)
            else:
                pq.write_table(table, file)
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
    table, effects = CellTable.of(counts), assumed.bias.contexts
    weighted = table
    if effects is not None:
        weighted = CellTable.of(log.count(counts.positions, context_of=effects.of), effects=effects)
    found = shrink_relevance(weighted, assumed.bias, shrink=shrink)
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
