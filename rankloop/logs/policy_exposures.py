"""Exposures of a log's policies: exact from the scores of all candidates, or estimated from displays.

Exact exposures are computed where the candidates are: each batch holds whole queries, so that workers need
not communicate with each other.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

import ibis
import numpy as np
import pyarrow as pa
from ibis import _
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.logs.counter import LogCounter
from rankloop.logs.counts import LogCounts
from rankloop.logs.schema import CANDIDATES, ITEM
from rankloop.ragged import segment_index
from rankloop.statistics.exposure import Exposure
from rankloop.types import Bias, Float64, Int64

PARTS = ("alpha", "beta", "examination")
EXPOSURES = pa.schema(
    [("policy_id", pa.string()), ("item", pa.int32()), *((part, pa.float64()) for part in PARTS)]
)


@dataclass(frozen=True, eq=False)
class CandidateExposures:
    """The exposures of one policy, where its candidates are known.

    Attributes:
        values: float64, 3 × items; expected α, β and examination, 0 where the candidates are not known.
        known: bool, items; whether the item is a candidate of the policy.
    """

    values: Float64
    known: NDArray[np.bool_]


def compute_exposures(counter: LogCounter, counts: LogCounts, bias: Bias) -> dict[str, CandidateExposures]:
    """The exact exposures of every policy of the log, by its id."""
    assert counter.candidates is not None
    _refuse_bad_scores(counter)
    result = {
        policy: CandidateExposures(np.zeros((len(PARTS), counts.n_items)), np.zeros(counts.n_items, np.bool_))
        for policy in counts.policy_ids
    }
    logged = counter.candidates.filter(_.policy_id.isin(list(counts.policy_ids)))
    by_query = (
        logged.join(counter.items, ITEM)
        .group_by("policy_id", "query_id")
        # One list of pairs, so that items and scores stay together.
        .agg(scored=ibis.struct({"item": _.item, "score": _.score}).collect())
        .select("policy_id", "scored")
    )
    rows = 0
    for batch in counter.engine.mapped(by_query, partial(expose_batch, bias=bias), EXPOSURES):
        rows += len(batch)
        policies = batch.column("policy_id").dictionary_encode()
        codes, items = policies.indices.to_numpy(), batch.column("item").to_numpy()
        for code, policy in enumerate(policies.dictionary.to_pylist()):
            own, own_rows = result[policy], codes == code
            own.known[items[own_rows]] = True
            for values, part in zip(own.values, PARTS, strict=True):
                values[items[own_rows]] = batch.column(part).to_numpy()[own_rows]
    if rows > sum(int(own.known.sum()) for own in result.values()):
        _refuse_repeated_candidates(counter)
    return result


def expose_batch(batch: pa.RecordBatch, *, bias: Bias) -> pa.RecordBatch:
    """Compute the exposure of every candidate of the queries in a batch."""
    lists = batch.column("scored")
    flat = lists.flatten()
    if not len(flat):
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in EXPOSURES], schema=EXPOSURES)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    offsets -= offsets[0]
    query = segment_index(offsets)
    items = flat.field("item").to_numpy()
    # Engines collect in any order, and the last bits of sums depend on it.
    order = np.lexsort((items, query))
    exposure = Exposure.of_scores(flat.field("score").to_numpy()[order], offsets, bias)
    columns = [batch.column("policy_id").take(pa.array(query)), pa.array(items[order])]
    columns += [pa.array(getattr(exposure, part)) for part in PARTS]
    return pa.RecordBatch.from_arrays(columns, names=EXPOSURES.names)


def estimate_exposures(displays: Int64, query_counts: Int64, offsets: Int64, bias: Bias) -> Float64:
    """Estimate the exposures of one policy from its displays: float64, 3 × items.

        alpha_d = Σ_k α_k · n_dk / N_q     and the same for β and examination

    Args:
        displays: items × ranks; n_dk, how often the policy showed d at rank k.
        query_counts: queries; N_q, the number of impressions of d's query. Without any, exposures are 0.
        offsets: queries + 1.
        bias: α, β and examination by rank.

    Example:
        >>> bias = Bias(alpha=np.array([0.8, 0.4]), beta=np.zeros(2), examination=np.ones(2))
        >>> estimate_exposures(np.array([[3, 1], [1, 3]]), np.array([4]), np.array([0, 2]), bias)[0]
        array([0.7, 0.5])
        >>> 0.8 * 3 / 4 + 0.4 * 1 / 4, 0.8 * 1 / 4 + 0.4 * 3 / 4
        (0.7000000000000001, 0.5)
    """
    came = np.repeat(query_counts, np.diff(offsets))
    shares = displays / np.maximum(came, 1)[:, None]
    return np.stack([shares @ getattr(bias, part) for part in PARTS])


def _refuse_bad_scores(counter: LogCounter) -> None:
    table = counter.candidates
    assert table is not None
    where = counter.log.source(CANDIDATES)
    # Not with isinf, on which engines differ.
    too_large = (_.score > LARGEST_SCORE) | ((_.score < -LARGEST_SCORE) & (_.score >= -sys.float_info.max))
    nameless = ibis.or_(*(table[column].isnull() for column in ("policy_id", *ITEM)))
    bad = table.filter(nameless | _.score.isnull() | _.score.isnan() | too_large)
    for row in counter.rows(bad.order_by("policy_id", *ITEM).limit(1)):
        raise DataError(
            f"{where}: {_named(row)}: the score is {row['score']}; every candidate needs a policy, a query, "
            f"a document and a score within ±{LARGEST_SCORE:g}, or -inf if it can never be shown"
        )


def _refuse_repeated_candidates(counter: LogCounter) -> None:
    """Called only if there are some: finding them takes as long as computing exposures."""
    table = counter.candidates
    assert table is not None
    repeated = table.group_by("policy_id", *ITEM).agg(times=_.count()).filter(_.times > 1)
    for row in counter.rows(repeated.order_by("policy_id", *ITEM).limit(1)):
        raise DataError(
            f"{counter.log.source(CANDIDATES)}: {_named(row)}: {row['times']} rows; a policy has one score "
            f"per document of a query (a policy whose scores have changed needs another id)"
        )


def _named(row: dict[str, object]) -> str:
    return f"policy {row['policy_id']!r}, query {row['query_id']!r}, document {row['doc_id']!r}"
