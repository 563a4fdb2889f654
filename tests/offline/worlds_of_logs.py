"""Small logs on disk to fit to and to evaluate on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.clicks import Impressions, bias_of, gather_log, users
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import Log, open_log
from rankloop.ragged import segment_index
from rankloop.types import Bias, Split

USERS = users("paper@3")
BIAS: Bias = bias_of(USERS)


@dataclass(frozen=True, eq=False)
class Simulated:
    """A log and what made it.

    Attributes:
        log: on disk.
        split: queries in the order of their ids.
        scores: by policy.
        gathered: by policy.
    """

    log: Log
    split: Split
    scores: dict[str, Any]
    gathered: dict[str, Impressions]

    @property
    def relevance(self) -> Any:
        return self.split.labels / 4


def simulated(
    folder: Path,
    *,
    queries: int = 8,
    impressions: int = 400,
    policies: tuple[str, ...] = ("production", "later"),
    seed: int = 0,
) -> Simulated:
    """A log of a few policies with different scores, with candidates and features."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 7, queries)
    n_documents = int(sizes.sum())
    labels = rng.integers(0, 5, n_documents)
    split = Split.build(
        np.column_stack([labels + rng.normal(size=n_documents), rng.normal(size=(n_documents, 2))]),
        labels,
        sizes,
        query_ids=[f"q{q:03d}" for q in range(queries)],
        doc_ids=np.concatenate([[f"d{d}" for d in range(size)] for size in sizes]),
    )
    scores, gathered = {}, {}
    for policy in policies:
        scores[policy] = rng.normal(size=n_documents)
        gathered[policy] = gather_log(
            scores[policy], split.offsets, labels / 4, USERS, impressions // len(policies), rng
        )
    parts = [PolicyTraffic(policy, scores[policy], gathered[policy]) for policy in policies]
    return Simulated(open_log(write_simulated(folder, split, parts)), split, scores, gathered)


def write_scores(
    path: Path, split: Split, scores: Any, more: dict[tuple[str, str], float] | None = None
) -> Path:
    """A table of scores, and of those of documents that the split does not have."""
    assert split.doc_ids is not None
    query = split.query_ids[segment_index(split.offsets)].tolist()
    rows = dict(
        zip(zip(query, split.doc_ids.tolist(), strict=True), np.asarray(scores).tolist(), strict=True)
    )
    rows |= more or {}
    columns = {
        "query_id": [query for query, _ in rows],
        "doc_id": [document for _, document in rows],
        "score": pa.array(list(rows.values()), pa.float64()),
    }
    pq.write_table(pa.table(columns), path)
    return path
