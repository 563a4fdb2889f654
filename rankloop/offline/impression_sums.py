"""Sums over the impressions of each query, from which variances are computed: one more pass over the log.

The contribution of impression t to an estimate is ``e_t = Σ_{d shown at k} g_d (c − p_dk)``, and its
importance is ``w_t = Σ_{d shown at k} g_d α_k``, with one g for each of two policies:

    rows          impressions joined with g, where g is not 0
    by impression e and w of both policies
    by query      Σ e, Σ e², Σ e e', Σ w, Σ w²
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from ibis import _

from rankloop.logs import LogCounts, LogFolder
from rankloop.logs.counter import as_text
from rankloop.logs.engines import Engine
from rankloop.logs.grading import CLICKS, Grading, share_of
from rankloop.logs.schema import IMPRESSIONS, ITEM
from rankloop.types import Bias, Float64

IMPRESSION = ("impression_id", "policy_id", "query")
# Engines add in any order, so the last bits differ; a variance does not need them.
DIGITS = 12
# The bits of a sum, out of 53, that hardly any order of additions changes (one in ten thousand does).
BITS = 36


@dataclass(frozen=True, eq=False)
class ImpressionSums:
    """Sums over the impressions of each query, for two policies.

    Attributes:
        first: float64, queries × 2; Σ e.
        squares: float64, queries × 2; Σ e².
        product: float64, queries; Σ e e'.
        importance: float64, queries × 2; Σ w.
        importance_squares: float64, queries × 2; Σ w².
    """

    first: Float64
    squares: Float64
    product: Float64
    importance: Float64
    importance_squares: Float64


def sum_impressions(
    engine: Engine,
    log: LogFolder,
    counts: LogCounts,
    factors: Float64,
    bias: Bias,
    relevance: Float64,
    *,
    grading: Grading = CLICKS,
) -> ImpressionSums:
    """Sum over the log's impressions.

    Args:
        engine: the engine that runs the expression.
        log: the log.
        counts: its counts: names and numbers of its queries and items.
        factors: float64, items × 2; g of each policy.
        bias: α and β by rank. Rows below its last rank are left out.
        relevance: float64, items; m, what is assumed about each item: ``p_k = α_k m_d + β_k``.
        grading: what displays are worth; c is their worth.
    """
    given = engine.given(_factors(counts, factors, relevance))
    return _sums(engine, log, given, counts.n_queries, bias, grading)


def _factors(counts: LogCounts, factors: Float64, relevance: Float64) -> pa.Table:
    items = np.flatnonzero(factors.any(axis=1))
    query = np.searchsorted(counts.offsets, items, side="right") - 1
    return pa.table(
        {
            "query_id": pa.array(counts.query_ids[query].tolist(), pa.string()),
            "doc_id": pa.array(counts.doc_ids[items].tolist(), pa.string()),
            "query": query.astype(np.int64),
            "g0": factors[items, 0],
            "g1": factors[items, 1],
            "m": relevance[items],
        }
    )


def _sums(
    engine: Engine, log: LogFolder, factors: object, n_queries: int, bias: Bias, grading: Grading
) -> ImpressionSums:
    by_rank = range(1, bias.ranks + 1)
    rows = (
        engine.table(log.files(IMPRESSIONS))
        .filter(_.position <= bias.ranks)
        .select("impression_id", "position", worth=share_of(grading), **as_text("policy_id", *ITEM))
        .join(factors, ITEM)
        .mutate(
            alpha=_.position.cases(*zip(by_rank, bias.alpha.tolist(), strict=True), else_=0.0),
            beta=_.position.cases(*zip(by_rank, bias.beta.tolist(), strict=True), else_=0.0),
        )
        .mutate(more=_.worth - (_.alpha * _.m + _.beta))
    )
    impressions = rows.group_by(*IMPRESSION).agg(
        e0=(_.g0 * _.more).sum(),
        e1=(_.g1 * _.more).sum(),
        w0=(_.g0 * _.alpha).sum(),
        w1=(_.g1 * _.alpha).sum(),
    )
    queries = impressions.group_by("query").agg(
        e0=_.e0.sum(),
        e1=_.e1.sum(),
        ee0=(_.e0 * _.e0).sum(),
        ee1=(_.e1 * _.e1).sum(),
        e01=(_.e0 * _.e1).sum(),
        w0=_.w0.sum(),
        w1=_.w1.sum(),
        ww0=(_.w0 * _.w0).sum(),
        ww1=(_.w1 * _.w1).sum(),
    )
    names = ("e0", "e1", "ee0", "ee1", "e01", "w0", "w1", "ww0", "ww1")
    table = np.zeros((n_queries, len(names)))
    for batch in engine.batches(queries):
        at = batch.column("query").to_numpy()
        for column, name in enumerate(names):
            table[at, column] = batch.column(name).to_numpy()
    table = without_last_bits(table)
    return ImpressionSums(table[:, :2], table[:, 2:4], table[:, 4], table[:, 5:7], table[:, 7:9])


def without_last_bits(values: Float64) -> Float64:
    """Values without the last bits of their mantissas, which depend on the order of additions."""
    mantissas, exponents = np.frexp(values)
    steps = 2.0**BITS
    return np.ldexp(np.round(mantissas * steps) / steps, exponents)
