"""Scores and rankings of a policy, for documents of any number."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankloop.errors import DataError, RankloopError
from rankloop.offline.tables import documents_of, feature_parts, first_repeated
from rankloop.storage.files import write_whole
from rankloop.types import Float64, Int64, Model

PARQUET = ".parquet"
TAG = "rankloop"


@dataclass(frozen=True, eq=False)
class Ranked:
    """Documents in the order in which a policy ranks them: queries by their ids, each from its first rank.

    Attributes:
        query_ids: text, rows.
        doc_ids: text, rows.
        ranks: int64, rows; from 1.
        scores: float64, rows; what the rows of a query are sorted by, highest first.
    """

    query_ids: pa.Array
    doc_ids: pa.Array
    ranks: Int64
    scores: Float64

    def __len__(self) -> int:
        return len(self.ranks)

    @property
    def table(self) -> pa.Table:
        """The same as a table of Arrow."""
        columns = {"query_id": self.query_ids, "doc_id": self.doc_ids, "rank": self.ranks}
        return pa.table({**columns, "score": self.scores})

    def trec(self, tag: str = TAG) -> str:
        """The same as a TREC run: ``query Q0 document rank score tag``, one row a line.

        Raises:
            DataError: an id holds a space, which ends a column there.
        """
        for name, ids in (("query", self.query_ids), ("document", self.doc_ids)):
            bad = pc.index(pc.match_substring_regex(ids, r"\s|^$"), True).as_py()
            if bad >= 0:
                raise DataError(
                    f"the {name} {ids[bad].as_py()!r} has a space in its id or none at all, and a TREC run "
                    f"cannot say so: write the rankings to a file that ends in {PARQUET}"
                )
        rows = zip(
            self.query_ids.to_pylist(),
            self.doc_ids.to_pylist(),
            self.ranks.tolist(),
            self.scores.tolist(),
            strict=True,
        )
        return "".join(f"{query} Q0 {doc} {rank} {score!r} {tag}\n" for query, doc, rank, score in rows)


def rank(
    model: Model,
    features: str | os.PathLike[str],
    *,
    top: int | None = None,
    draw: bool = False,
    rng: np.random.Generator | None = None,
    watch: Callable[[int], None] | None = None,
) -> Ranked:
    """Score documents and rank them; features are read and scored batch by batch, and never held whole.

    Documents of equal score are ranked by their ids. Drawn rankings come from the Plackett–Luce policy of the
    scores: sorting by ``score + g`` with independent Gumbel noise g draws from it exactly, and this sum is
    what `Ranked.scores` then holds.

    Args:
        model: the policy.
        features: a log's folder, or a table of query_id, doc_id and features as a log has one.
        top: how many documents of each query are kept; None: all.
        draw: whether rankings are drawn rather than sorted.
        rng: where the draw comes from.
        watch: told how many documents have been scored so far.

    Raises:
        DataError: no features, another number of them than the model takes, or one that is not finite.
    """
    if top is not None and top < 1:
        raise RankloopError(f"top counts documents from 1, got {top}")
    if draw and rng is None:
        raise RankloopError("drawn rankings need a generator: rng=np.random.default_rng(seed)")
    queries, documents, scores = [], [], []
    done = 0
    for part in feature_parts(features):
        for query_ids, doc_ids, matrix in documents_of(part):
            if matrix.shape[1] != model.n_features:
                raise DataError(
                    f"{part}: {matrix.shape[1]} features, but the policy takes {model.n_features}: give the "
                    f"features that it was fitted to"
                )
            queries.append(query_ids)
            documents.append(doc_ids)
            scores.append(model.scores(matrix))
            done += len(matrix)
            if watch is not None:
                watch(done)
    if not done:
        raise DataError(f"{features}: there are no documents in it")
    return _sorted(
        pa.concat_arrays(queries),
        pa.concat_arrays(documents),
        np.concatenate(scores),
        top=top,
        noise=rng if draw else None,
    )


def write_ranked(ranked: Ranked, path: str | os.PathLike[str], *, tag: str = TAG) -> Path:
    """Write rankings: Parquet if the path ends in ``.parquet``, else a TREC run. Whole, or not at all."""
    if not Path(path).name.endswith(PARQUET):
        return write_whole(path, ranked.trec(tag).encode())
    buffer = io.BytesIO()
    pq.write_table(ranked.table, buffer, compression="zstd")
    return write_whole(path, buffer.getvalue())


def _sorted(
    query_ids: pa.Array,
    doc_ids: pa.Array,
    scores: Float64,
    *,
    top: int | None,
    noise: np.random.Generator | None,
) -> Ranked:
    table = pa.table({"query": query_ids, "doc": doc_ids, "score": scores})
    if query_ids.null_count or doc_ids.null_count:
        raise DataError("a row has no query_id or no doc_id; every row needs both")
    again = first_repeated(query_ids, doc_ids)
    if again is not None:
        raise DataError(
            f"query {query_ids[again].as_py()!r}, document {doc_ids[again].as_py()!r}: more than one row of "
            f"features; every document of a query has one"
        )
    if noise is not None:
        # In an order that does not depend on the file's: the same seed draws the same rankings.
        table = table.sort_by([("query", "ascending"), ("doc", "ascending")])
        drawn = table["score"].to_numpy() + noise.gumbel(size=len(table))
        table = table.set_column(2, "score", pa.array(drawn))
    table = table.sort_by([("query", "ascending"), ("score", "descending"), ("doc", "ascending")])
    runs = table["query"].combine_chunks().dictionary_encode().indices.to_numpy()
    starts = np.flatnonzero(np.diff(runs, prepend=-1))
    ranks = np.arange(len(runs)) - np.repeat(starts, np.diff(np.append(starts, len(runs)))) + 1
    kept = np.ones(len(ranks), np.bool_) if top is None else ranks <= top
    table = table.filter(pa.array(kept))
    return Ranked(
        table["query"].combine_chunks(),
        table["doc"].combine_chunks(),
        ranks[kept],
        table["score"].to_numpy(),
    )
