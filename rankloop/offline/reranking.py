"""What policies would earn by re-ranking each impression's own documents among its own slots.

Without the candidates of a query, all that is known is what was displayed. Documents of one impression are
sorted by score (or drawn), the first of them goes to the impression's first slot, the second to the second:

    λ_d = 1/N_q Σ_i θ[slot that d gets in impression i]

Impressions are re-ranked where the rows are, one batch at a time; only sums per document leave the engine.
"""

from __future__ import annotations

from functools import partial

import ibis
import numpy as np
import pyarrow as pa
from ibis import _
from numpy.typing import NDArray

from rankloop.logs import LogCounts, LogFolder
from rankloop.logs.counter import as_text
from rankloop.logs.engines import Engine
from rankloop.logs.schema import IMPRESSIONS, ITEM
from rankloop.offline.earned_weights import RANK_WEIGHTS
from rankloop.offline.impression_sums import without_last_bits
from rankloop.ragged import segment_index
from rankloop.types import Float64

IMPRESSION = ("impression_id", "policy_id", "query_id")


def rerank_impressions(
    engine: Engine,
    log: LogFolder,
    counts: LogCounts,
    scores: Float64,
    vectors: Float64,
    *,
    ranking: str = "sorted",
    policy: str | None = None,
) -> Float64:
    """What each item's slots are worth per impression of its query, items × vectors.

    Args:
        engine: the engine that runs the expression.
        log: the log.
        counts: its counts: names and numbers of its queries and items.
        scores: float64, items; -inf for documents that are never shown, NaN for those of queries to leave
            out.
        vectors: float64, vectors × ranks; what each position is worth.
        ranking: ``sorted`` by score, ties in random order, or ``drawn`` from the scores.
        policy: re-rank the impressions of this policy alone; None for all impressions.
    """
    rows = engine.table(log.files(IMPRESSIONS)).select(
        "impression_id", **as_text("policy_id", *ITEM), position=_.position.cast("int64")
    )
    came = counts.query_counts.sum(axis=0)
    if policy is not None:
        rows = rows.filter(_.policy_id == policy)
        came = counts.query_counts[counts.policy_ids.index(policy)]
    pages = (
        rows.join(engine.given(_scored(counts, scores)), ITEM)
        .group_by(*IMPRESSION)
        # One list of structures, so that items, positions and scores stay together.
        .agg(page=ibis.struct({"item": _.item, "position": _.position, "score": _.score}).collect())
        .select("page")
    )
    result = np.zeros((counts.n_items, len(vectors)))
    rerank = partial(rerank_batch, vectors=vectors, ranking=ranking)
    for batch in engine.mapped(pages, rerank, _schema(len(vectors))):
        items = batch.column("item").to_numpy()
        values = np.stack([batch.column(name).to_numpy() for name in batch.schema.names[1:]], axis=1)
        # Spark joins the results of several batches into one.
        np.add.at(result, items, values)
    per_query = np.maximum(came, 1)[segment_index(counts.offsets)]
    return without_last_bits(result / per_query[:, None])


def rerank_batch(batch: pa.RecordBatch, *, vectors: Float64, ranking: str) -> pa.RecordBatch:
    """Re-rank the impressions of a batch; the sums over it of what each item's slots are worth."""
    schema = _schema(len(vectors))
    lists = batch.column("page")
    flat = lists.flatten()
    if not len(flat):
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    offsets -= offsets[0]
    page = segment_index(offsets)
    items, positions, scores = (flat.field(name).to_numpy() for name in ("item", "position", "score"))
    # Engines collect in any order; afterwards the k-th row of a page is its k-th slot.
    order = np.lexsort((items, positions, page))
    items, positions, scores = items[order], positions[order], scores[order]
    earned = _earned(scores, positions, offsets, vectors, ranking)
    distinct, place = np.unique(items, return_inverse=True)
    sums = [np.bincount(place, column, len(distinct)) for column in earned.T]
    columns = [pa.array(distinct, pa.int32()), *(pa.array(column) for column in sums)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _earned(
    scores: Float64, positions: NDArray[np.int64], offsets: NDArray[np.int64], vectors: Float64, ranking: str
) -> Float64:
    """Rows × vectors; the k-th row of a page is its k-th slot."""
    ranks = vectors.shape[1]
    page = segment_index(offsets)
    slot = np.arange(len(scores)) - offsets[page]
    # A slot is never above its own rank, so that slots past the last rank are worth nothing.
    seen = (slot < ranks) & (positions <= ranks)
    worth = np.zeros((len(offsets) - 1, len(vectors), ranks))
    worth[page[seen], :, slot[seen]] = vectors[:, positions[seen] - 1].T
    return RANK_WEIGHTS[ranking](scores, offsets, worth)


def _scored(counts: LogCounts, scores: Float64) -> pa.Table:
    items = np.flatnonzero(~np.isnan(scores))
    query = segment_index(counts.offsets)[items]
    return pa.table(
        {
            "query_id": pa.array(counts.query_ids[query].tolist(), pa.string()),
            "doc_id": pa.array(counts.doc_ids[items].tolist(), pa.string()),
            "item": pa.array(items, pa.int32()),
            "score": scores[items],
        }
    )


def _schema(vectors: int) -> pa.Schema:
    return pa.schema(
        [("item", pa.int32()), *((f"worth_{number}", pa.float64()) for number in range(vectors))]
    )
