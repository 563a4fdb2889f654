"""Rankings of any number of documents by a policy."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankloop.errors import DataError, RankloopError
from rankloop.offline.fit_result import Fit, load_policy
from rankloop.offline.tables import feature_parts, find_repeated, read_documents
from rankloop.progress import Progress, report
from rankloop.storage.files import write_whole
from rankloop.types import Float64, Int64, Model

PARQUET = ".parquet"
TAG = "rankloop"


@dataclass(frozen=True, eq=False)
class Rankings:
    """Documents as a policy ranks them: queries are ordered by id, and documents by rank.

    Attributes:
        query_ids: text, rows.
        doc_ids: text, rows.
        ranks: int64, rows; from 1.
        scores: float64, rows; what the documents of a query are sorted by, highest first.
    """

    query_ids: pa.Array
    doc_ids: pa.Array
    ranks: Int64
    scores: Float64

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def table(self) -> pa.Table:
        """The same as an Arrow table."""
        columns = {"query_id": self.query_ids, "doc_id": self.doc_ids, "rank": self.ranks}
        return pa.table({**columns, "score": self.scores})

    def trec(self, tag: str = TAG) -> str:
        """The same as a TREC run: ``query Q0 document rank score tag``, one row per line.

        Raises:
            DataError: an id contains white space, which separates columns in a run.
        """
        for name, ids in (("query", self.query_ids), ("document", self.doc_ids)):
            bad = pc.index(pc.match_substring_regex(ids, r"\s|^$"), True).as_py()
            if bad >= 0:
                raise DataError(
                    f"the id of {name} {ids[bad].as_py()!r} is empty or contains white space, which a TREC "
                    f"run cannot hold: write the rankings to a file whose name ends in {PARQUET}"
                )
        rows = zip(
            self.query_ids.to_pylist(),
            self.doc_ids.to_pylist(),
            self.ranks.tolist(),
            self.scores.tolist(),
            strict=True,
        )
        return "".join(f"{query} Q0 {doc} {rank} {score!r} {tag}\n" for query, doc, rank, score in rows)

    def save(self, path: str | os.PathLike[str], *, tag: str = TAG) -> Path:
        """Write Parquet if the path ends in ``.parquet``, else a TREC run; whole, or not at all."""
        if not Path(path).name.endswith(PARQUET):
            return write_whole(path, self.trec(tag).encode())
        buffer = io.BytesIO()
        pq.write_table(self.table, buffer, compression="zstd")
        return write_whole(path, buffer.getvalue())


def rank(
    policy: Fit | Model | str | os.PathLike[str],
    features: str | os.PathLike[str],
    *,
    top: int | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Rankings:
    """Score and rank documents; features are read and scored batch by batch, and are never all in memory.

    Documents of equal score are ranked by their ids. Drawn rankings come from the Plackett–Luce policy of the
    scores: sorting by ``score + g`` with independent Gumbel noise g draws from it exactly, and this sum is
    what `Rankings.scores` then holds.

    Args:
        policy: a fit, a model, or the path of either.
        features: a log's folder, or a table of query_id, doc_id and features as a log has one.
        top: how many documents to keep per query; None for all.
        rng: the generator to draw rankings with; None to sort by score.
        progress: called with the number of documents that have been scored so far.

    Raises:
        DataError: features are missing or not finite, or the model takes another number of them.
    """
    if top is not None and top < 1:
        raise RankloopError(f"top must be at least 1, got {top}")
    loaded = load_policy(policy) if isinstance(policy, str | os.PathLike) else policy
    model = loaded.model if isinstance(loaded, Fit) else loaded
    queries, documents, scores = [], [], []
    done = 0
    for part in feature_parts(features):
        for query_ids, doc_ids, matrix in read_documents(part):
            if matrix.shape[1] != model.n_features:
                raise DataError(
                    f"{part}: {matrix.shape[1]} features, but the policy takes {model.n_features}: give the "
                    f"features that it was fitted to"
                )
            queries.append(query_ids)
            documents.append(doc_ids)
            scores.append(model.scores(matrix))
            done += len(matrix)
            report(progress, "rank", note=f"{done:,} documents", detail=done)
    if not done:
        raise DataError(f"{features}: it contains no documents")
    return _sort(
        pa.concat_arrays(queries),
        pa.concat_arrays(documents),
        np.concatenate(scores),
        top=top,
        rng=rng,
    )


def _sort(
    query_ids: pa.Array,
    doc_ids: pa.Array,
    scores: Float64,
    *,
    top: int | None,
    rng: np.random.Generator | None,
) -> Rankings:
    table = pa.table({"query": query_ids, "doc": doc_ids, "score": scores})
    if query_ids.null_count or doc_ids.null_count:
        raise DataError("a row has no query_id or no doc_id; every row needs both")
    again = find_repeated(query_ids, doc_ids)
    if again is not None:
        raise DataError(
            f"query {query_ids[again].as_py()!r}, document {doc_ids[again].as_py()!r}: more than one row of "
            f"features; every document of a query has exactly one"
        )
    if rng is not None:
        # Independent of the order of the rows: the same seed draws the same rankings.
        table = table.sort_by([("query", "ascending"), ("doc", "ascending")])
        drawn = table["score"].to_numpy() + rng.gumbel(size=len(table))
        table = table.set_column(2, "score", pa.array(drawn))
    table = table.sort_by([("query", "ascending"), ("score", "descending"), ("doc", "ascending")])
    runs = table["query"].combine_chunks().dictionary_encode().indices.to_numpy()
    starts = np.flatnonzero(np.diff(runs, prepend=-1))
    ranks = np.arange(len(runs)) - np.repeat(starts, np.diff(np.append(starts, len(runs)))) + 1
    kept = np.ones(len(ranks), np.bool_) if top is None else ranks <= top
    table = table.filter(pa.array(kept))
    return Rankings(
        table["query"].combine_chunks(),
        table["doc"].combine_chunks(),
        ranks[kept],
        table["score"].to_numpy(),
    )
