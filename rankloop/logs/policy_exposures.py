"""Exposures of a log's policies: exact from the scores of all candidates, or estimated from displays.

Exact exposures are computed where the candidates are: each batch holds whole queries, so that workers need
not communicate with each other.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import ibis
import numpy as np
import pyarrow as pa
from ibis import _
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.logs.counter import LogCounter
from rankloop.logs.schema import CANDIDATES, QUERY_DOCUMENT
from rankloop.logs.slots import Placement
from rankloop.policies import expected_rank_weights
from rankloop.ragged import segment_index
from rankloop.statistics.counts import Counts
from rankloop.types import Bias, Float64, Int64

PARTS = ("alpha", "beta", "examination")


@dataclass(frozen=True, eq=False)
class CandidateExposures:
    """The exposures of one policy, where its candidates are known.

    Attributes:
        values: float64, 3 × documents; expected α, β and examination, 0 where the candidates are not known.
        known: bool, documents; whether the document is a candidate of the policy.
    """

    values: Float64
    known: NDArray[np.bool_]


class RankShares(NamedTuple):
    """The probabilities of some candidates of a policy at each rank.

    Attributes:
        policy: its id.
        documents: the numbers of the documents.
        shares: float64, documents × ranks.
    """

    policy: str
    documents: NDArray[np.int32]
    shares: Float64


def compute_exposures(
    counter: LogCounter, counts: Counts, bias: Bias, placements: Mapping[str, Placement] | None = None
) -> dict[str, CandidateExposures]:
    """The exact exposures of every policy of the log, by its id.

        alpha_d = Σ_j α_j · P(d at j)     and the same for β and examination

    Args:
        counter: counts the log.
        counts: its counts, by the contexts of the bias, if it has any.
        bias: α, β and examination by rank.
        placements: by policy, at which positions its ranks are. None if every impression has as many slots as
            there are documents and ranks, each at its own position.
    """
    by_rank = np.stack([getattr(bias, part) for part in PARTS])
    result = {
        policy: CandidateExposures(
            np.zeros((len(PARTS), counts.n_documents)), np.zeros(counts.n_documents, np.bool_)
        )
        for policy in counts.policy_ids
    }
    query_of = segment_index(counts.offsets)
    relative = None if bias.contexts is None else counts.mean_effects(bias.contexts)
    plain = placements is None and relative is None
    rows = 0
    for policy, documents, values in _expected(counter, by_rank if plain else np.eye(bias.positions)):
        own = result[policy]
        rows += len(documents)
        own.known[documents] = True
        if placements is not None:
            values = placements[policy].place(values, query_of[documents])
        if relative is not None:
            values = values * relative[query_of[documents]]
        own.values[:, documents] = values.T if plain else by_rank @ values.T
    if rows > sum(int(own.known.sum()) for own in result.values()):
        _refuse_repeated_candidates(counter)
    return result


def compute_rank_shares(counter: LogCounter, ranks: int) -> Iterator[RankShares]:
    """The exact probability of each candidate at each rank, in parts."""
    for policy, documents, values in _expected(counter, np.eye(ranks)):
        yield RankShares(policy, documents, values)


def _expected(counter: LogCounter, vectors: Float64) -> Iterator[tuple[str, NDArray[np.int32], Float64]]:
    """Policies, documents and the documents' expected rank weights, rows × vectors."""
    assert counter.candidates is not None
    _refuse_bad_scores(counter)
    logged = counter.candidates.filter(
        _.policy_id.isin(sorted(row["policy_id"] for row in counter.policy_times))
    )
    by_query = (
        logged.join(counter.documents, QUERY_DOCUMENT)
        .group_by("policy_id", "query_id")
        # One list of pairs, so that documents and scores stay together.
        .agg(scored=ibis.struct({"document": _.document, "score": _.score}).collect())
        .select("policy_id", "scored")
    )
    schema = _schema(len(vectors))
    for batch in counter.engine.mapped(by_query, partial(expose_batch, vectors=vectors), schema):
        policies = batch.column("policy_id").dictionary_encode()
        codes, documents = policies.indices.to_numpy(), batch.column("document").to_numpy()
        values = np.stack([batch.column(name).to_numpy() for name in schema.names[2:]], axis=1)
        for code, policy in enumerate(policies.dictionary.to_pylist()):
            yield policy, documents[codes == code], values[codes == code]


def _schema(vectors: int) -> pa.Schema:
    weights = ((f"weight_{number}", pa.float64()) for number in range(vectors))
    return pa.schema([("policy_id", pa.string()), ("document", pa.int32()), *weights])


def expose_batch(batch: pa.RecordBatch, *, vectors: Float64) -> pa.RecordBatch:
    """Compute the expected rank weights of every candidate of the queries in a batch."""
    schema = _schema(len(vectors))
    lists = batch.column("scored")
    flat = lists.flatten()
    if not len(flat):
        return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    offsets -= offsets[0]
    query = segment_index(offsets)
    documents = flat.field("document").to_numpy()
    # Engines collect in any order, and the last bits of sums depend on it.
    order = np.lexsort((documents, query))
    weights = expected_rank_weights(flat.field("score").to_numpy()[order], offsets, vectors)
    columns = [batch.column("policy_id").take(pa.array(query)), pa.array(documents[order])]
    columns += [pa.array(np.ascontiguousarray(column)) for column in weights.T]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def estimate_exposures(
    displays: Int64 | Float64, impressions_by_query: Int64, offsets: Int64, bias: Bias
) -> Float64:
    """Estimate the exposures of one policy from its displays: float64, 3 × documents.

        alpha_d = Σ_k α_k · n_dk / N_q     and the same for β and examination

    Args:
        displays: documents × ranks; n_dk, how often the policy showed d at rank k.
        impressions_by_query: queries; N_q, the number of impressions of d's query. Without any, exposures are
            0.
        offsets: queries + 1.
        bias: α, β and examination by rank.

    Example:
        >>> bias = Bias(alpha=np.array([0.8, 0.4]), beta=np.zeros(2), examination=np.ones(2))
        >>> estimate_exposures(np.array([[3, 1], [1, 3]]), np.array([4]), np.array([0, 2]), bias)[0]
        array([0.7, 0.5])
        >>> 0.8 * 3 / 4 + 0.4 * 1 / 4, 0.8 * 1 / 4 + 0.4 * 3 / 4
        (0.7000000000000001, 0.5)
    """
    came = np.repeat(impressions_by_query, np.diff(offsets))
    shares = displays / np.maximum(came, 1)[:, None]
    return np.stack([shares @ getattr(bias, part) for part in PARTS])


def _refuse_bad_scores(counter: LogCounter) -> None:
    table = counter.candidates
    assert table is not None
    where = counter.log.source(CANDIDATES)
    # Not with isinf, on which engines differ.
    too_large = (_.score > LARGEST_SCORE) | ((_.score < -LARGEST_SCORE) & (_.score >= -sys.float_info.max))
    nameless = ibis.or_(*(table[column].isnull() for column in ("policy_id", *QUERY_DOCUMENT)))
    bad = table.filter(nameless | _.score.isnull() | _.score.isnan() | too_large)
    for row in counter.rows(bad.order_by("policy_id", *QUERY_DOCUMENT).limit(1)):
        raise DataError(
            f"{where}: {_named(row)}: the score is {row['score']}; every candidate needs a policy, a query, "
            f"a document and a score within ±{LARGEST_SCORE:g}, or -inf if it can never be shown"
        )


def _refuse_repeated_candidates(counter: LogCounter) -> None:
    """Called only if there are some: finding them takes as long as computing exposures."""
    table = counter.candidates
    assert table is not None
    repeated = table.group_by("policy_id", *QUERY_DOCUMENT).agg(times=_.count()).filter(_.times > 1)
    for row in counter.rows(repeated.order_by("policy_id", *QUERY_DOCUMENT).limit(1)):
        raise DataError(
            f"{counter.log.source(CANDIDATES)}: {_named(row)}: {row['times']} rows; a policy has one score "
            f"per document of a query (a policy whose scores have changed needs another id)"
        )


def _named(row: dict[str, object]) -> str:
    return f"policy {row['policy_id']!r}, query {row['query_id']!r}, document {row['doc_id']!r}"
