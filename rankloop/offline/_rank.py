"""Rankings of any number of documents by a policy."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankloop.errors import DataError, RankloopError
from rankloop.frames import ArrowRows, Tabular, arrow_table, write_parquet
from rankloop.logs import LogReader
from rankloop.logs.features import JoinedFeatures, PathLike, as_feature_paths
from rankloop.logs.folder import open_folder
from rankloop.logs.schema import FEATURES, IMPRESSIONS, QUERY_DOCUMENT
from rankloop.offline.fit_result import Fit, load_policy
from rankloop.offline.judgments import check_trec_ids
from rankloop.offline.scores import (
    RANKING_FORMATS,
    RANKING_TEXTS,
    TABLE_ENDINGS,
    FeatureMatcher,
    find_repeated,
    is_table,
    read_scores,
    text_ids,
)
from rankloop.progress import Progress, report
from rankloop.storage.files import write_whole
from rankloop.storage.locks import scratch_folder
from rankloop.types import Float64, Int64, Model

# A folder, a file, or a frame.
FeatureSource = PathLike | ArrowRows
COLUMNS = ("query_id", "doc_id", "rank", "score")
TAG = "rankloop"
# The formats that can hold ids with white space.
OTHER_FORMATS = "another format (tsv, jsonl or parquet)"


@dataclass(frozen=True, eq=False)
class Rankings(Tabular):
    """Documents as a policy ranks them: queries are ordered by id, and documents by rank.

    Attributes:
        query_ids: text, rows.
        doc_ids: text, rows.
        ranks: int64, rows; from 1.
        scores: float64, rows; what the documents of a query are sorted by, highest first.
        notes: caveats, such as documents that were left out because they have no features.
    """

    query_ids: pa.Array
    doc_ids: pa.Array
    ranks: Int64
    scores: Float64
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ranks)

    def __repr__(self) -> str:
        return f"Rankings({len(self):,} documents of {len(pc.unique(self.query_ids)):,} queries)"

    def to_arrow(self) -> pa.Table:
        """The same as an Arrow table."""
        columns = (self.query_ids, self.doc_ids, self.ranks, self.scores)
        return pa.table(dict(zip(COLUMNS, columns, strict=True)))

    @property
    def _rows(self) -> Iterator[tuple[str, str, int, float]]:
        return zip(
            self.query_ids.to_pylist(),
            self.doc_ids.to_pylist(),
            self.ranks.tolist(),
            self.scores.tolist(),
            strict=True,
        )

    def tsv(self) -> str:
        """The same as text: a header, then one row per line, columns separated by tabs.

        An id that contains a tab, a line break or a quotation mark is quoted, as in CSV.
        """
        text = io.StringIO()
        writer = csv.writer(text, delimiter="\t", lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(self._rows)
        return text.getvalue()

    def jsonl(self) -> str:
        """The same as JSON lines: one object per document."""
        rows = (dict(zip(COLUMNS, row, strict=True)) for row in self._rows)
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def trec(self, tag: str = TAG) -> str:
        """The same as a TREC run: ``query Q0 document rank score tag``, one row per line.

        Raises:
            DataError: an id contains white space, which separates columns in a run.
        """
        check_trec_ids("query", self.query_ids, OTHER_FORMATS)
        check_trec_ids("document", self.doc_ids, OTHER_FORMATS)
        return "".join(
            f"{query} Q0 {document} {rank} {score!r} {tag}\n" for query, document, rank, score in self._rows
        )

    def text(self, form: str = "tsv", *, tag: str = TAG) -> str:
        """The same as ``tsv``, ``jsonl`` or ``trec``."""
        if form not in RANKING_TEXTS:
            raise RankloopError(f"as text, rankings are {', '.join(RANKING_TEXTS)}, not {form!r}")
        return self.trec(tag) if form == "trec" else self.jsonl() if form == "jsonl" else self.tsv()

    def save(self, path: str | os.PathLike[str], form: str | None = None, *, tag: str = TAG) -> Path:
        """Write a file, whole or not at all.

        Args:
            path: where to.
            form: ``tsv``, ``jsonl``, ``trec`` or ``parquet``; None to tell by how the path ends, and for TSV
                where it ends in another way.
            tag: the last column of a TREC run.
        """
        chosen = form or next(
            (form for form in RANKING_FORMATS if Path(path).name.endswith(f".{form}")), "tsv"
        )
        if chosen != "parquet":
            return write_whole(path, self.text(chosen, tag=tag).encode())
        buffer = io.BytesIO()
        pq.write_table(self.to_arrow(), buffer, compression="zstd")
        return write_whole(path, buffer.getvalue(), read_back=read_scores)


def rank(
    policy: Fit | Model | PathLike,
    features: FeatureSource | Sequence[FeatureSource],
    *,
    top: int | None = None,
    rng: np.random.Generator | None = None,
    progress: Progress | None = None,
) -> Rankings:
    """Score and rank documents; features are read and scored batch by batch, and are never all in memory.

    Features are matched by name, whatever the order of their columns. Documents of equal score are ranked by
    their ids, in the order of their characters' code points. Drawn rankings come from the Plackett–Luce
    policy of the scores: sorting by ``score + g`` with independent Gumbel noise g draws from it exactly, and
    this sum is what `Rankings.scores` then holds.

    Args:
        policy: a fit, a model, or the path of either; also the path of a model of another program
            (docs/export.md lists them).
        features: a log's folder, or a table of query_id, doc_id and features as a log has one; with a table
            of doc_id and features besides, or a log without features and such a table. Tables are files or
            frames.
        top: how many documents to keep per query; None for all.
        rng: the generator to draw rankings with; None to sort by score.
        progress: called with the number of documents that have been scored so far.

    Raises:
        DataError: features are missing or unknown to the policy, or have values that it cannot take.
    """
    if top is not None and top < 1:
        raise RankloopError(f"top must be at least 1, got {top}")
    with ExitStack() as stack:
        paths = [_path_of(each, stack) for each in _as_sources(features)]
        return _rank(policy, paths, top=top, rng=rng, progress=progress)


def _as_sources(features: FeatureSource | Sequence[FeatureSource]) -> list[FeatureSource]:
    return list(features) if isinstance(features, list | tuple) else [cast("FeatureSource", features)]


def _path_of(source: FeatureSource, stack: ExitStack) -> Path:
    """A table of features as a file: frames are written to one, which lasts as long as the stack."""
    if isinstance(source, str | os.PathLike):
        return Path(source)
    return write_parquet(
        text_ids(arrow_table(source)), stack.enter_context(scratch_folder()) / "frame.parquet"
    )


def _rank(
    policy: Fit | Model | PathLike,
    features: Sequence[Path],
    *,
    top: int | None,
    rng: np.random.Generator | None,
    progress: Progress | None,
) -> Rankings:
    loaded = load_policy(policy) if isinstance(policy, str | os.PathLike) else policy
    named = f"the policy {Path(policy).name}" if isinstance(policy, str | os.PathLike) else "the policy"
    matcher, source = FeatureMatcher(loaded, named), open_features(features)
    queries, documents, scores = [], [], []
    done = 0
    where = ", ".join(map(str, as_feature_paths(features)))
    for rows in source.rows():
        order = matcher.match(source.names, rows.matrix.shape[1], where, source.categories)
        queries.append(rows.ids["query_id"])
        documents.append(rows.ids["doc_id"])
        scores.append(matcher.scores(rows.matrix, order, where))
        done += len(rows.matrix)
        report(progress, "rank", note=f"{done:,} documents", detail=done)
    if not done:
        raise DataError(f"{where}: it contains no documents")
    notes = tuple(matcher.notes)
    if source.without:
        notes += (f"{source.without:,} documents of queries have no features and are not ranked.",)
    ranked = _sort(
        pa.concat_arrays(queries), pa.concat_arrays(documents), np.concatenate(scores), top=top, rng=rng
    )
    return replace(ranked, notes=notes)


def _sort(
    query_ids: pa.Array,
    doc_ids: pa.Array,
    scores: Float64,
    *,
    top: int | None,
    rng: np.random.Generator | None,
) -> Rankings:
    table = pa.table({"query": query_ids, "document": doc_ids, "score": scores})
    again = find_repeated(query_ids, doc_ids)
    if again is not None:
        raise DataError(
            f"query {query_ids[again].as_py()!r}, document {doc_ids[again].as_py()!r}: more than one row of "
            f"features; every document of a query has exactly one"
        )
    if rng is not None:
        # Independent of the order of the rows: the same seed draws the same rankings.
        table = table.sort_by([("query", "ascending"), ("document", "ascending")])
        drawn = table["score"].to_numpy() + rng.gumbel(size=len(table))
        table = table.set_column(2, "score", pa.array(drawn))
    table = table.sort_by([("query", "ascending"), ("score", "descending"), ("document", "ascending")])
    runs = table["query"].combine_chunks().dictionary_encode().indices.to_numpy()
    starts = np.flatnonzero(np.diff(runs, prepend=-1))
    ranks = np.arange(len(runs)) - np.repeat(starts, np.diff(np.append(starts, len(runs)))) + 1
    kept = np.ones(len(ranks), np.bool_) if top is None else ranks <= top
    table = table.filter(pa.array(kept))
    return Rankings(
        table["query"].combine_chunks(),
        table["document"].combine_chunks(),
        ranks[kept],
        table["score"].to_numpy(),
    )


def open_features(paths: PathLike | Sequence[PathLike]) -> JoinedFeatures:
    """The features of queries and documents in these places.

    Args:
        paths: the folder of a log, a table of query_id, doc_id and features (a file, or a folder of Parquet
            files), a table of doc_id and features, or one of the first two and the last. A log without
            features of its own tells which documents belong to which query.
    """
    places = as_feature_paths(paths)
    if not places:
        raise DataError("there is nothing to rank: give the folder of a log, or a table of features")
    files = [file for place in places for file in _files(place)]
    logs = [place for place in places if (place / f"{IMPRESSIONS}.parquet").exists()]
    if not files:
        raise DataError(
            f"{logs[0]}: the log has no {FEATURES}.parquet: give a table of features as well, or import the "
            f"log with --features"
        )
    return JoinedFeatures(files, _pairs(logs[0]) if logs else None)


def _files(place: Path) -> list[Path]:
    own = place / f"{FEATURES}.parquet"
    if (place / f"{IMPRESSIONS}.parquet").exists() and not own.exists():
        return []
    folder = own if own.exists() else place
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else [folder]
    if not files:
        raise DataError(f"{folder} has no features: expected {FEATURES}.parquet or other Parquet files in it")
    for file in files:
        if not file.exists():
            raise DataError(f"{file} does not exist: expected a log's folder, or a table of features")
        if not is_table(file):
            raise DataError(f"{file} is not a table: its name must end in {', '.join(TABLE_ENDINGS)}")
    return files


def _pairs(place: Path) -> Iterator[pa.RecordBatch]:
    """The queries and documents of a log."""
    folder = open_folder(place)
    counts = LogReader(folder.folder, folder.tables, folder.starts).count(1)
    queries = np.repeat(counts.query_ids, np.diff(counts.offsets))
    columns = [pa.array(ids.tolist(), pa.string()) for ids in (queries, counts.doc_ids)]
    yield pa.record_batch(columns, names=list(QUERY_DOCUMENT))
