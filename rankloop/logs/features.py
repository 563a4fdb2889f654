"""The features of a log's documents, in the order of its statistics; features of several tables."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs.feature_tables import (
    DOCUMENT,
    NUMBERS_PER_BATCH,
    Categories,
    FeatureRows,
    FeatureTable,
    Names,
    all_categories,
    feature_name,
    match_features,
    refuse_repeated,
)
from rankloop.logs.folder import LogFolder
from rankloop.logs.schema import FEATURES, QUERY_DOCUMENT, document_keys, feature_columns
from rankloop.logs.writer import LogWriter
from rankloop.types import Float32, Int64, Split, Str

PathLike = str | os.PathLike[str]


class DocumentNames(Protocol):
    """The names of a log's queries and documents: `LogStatistics` and `Counts` have them."""

    @property
    def query_ids(self) -> Str:
        """The id of each query."""
        ...

    @property
    def doc_ids(self) -> Str:
        """The id of each document."""
        ...

    @property
    def offsets(self) -> Int64:
        """Where each query's documents begin."""
        ...


@dataclass(frozen=True, eq=False)
class LogFeatures:
    """The features of a log's documents.

    Attributes:
        values: float32, documents × features; NaN where a value is missing, and in the rows of documents
            without features.
        known: bool, documents; whether the document has features.
        names: the names of the features; None if they are stored as vectors.
        source: the table, for messages.
        categories: of features that are text, the values that their numbers stand for.
    """

    values: Float32
    known: NDArray[np.bool_]
    names: Names | None
    source: str
    categories: Categories = field(default_factory=dict)

    @property
    def categorical(self) -> tuple[int, ...]:
        """The columns that hold categories."""
        return tuple(place for place, name in enumerate(self.names or ()) if name in self.categories)

    @property
    def n_missing(self) -> int:
        """The number of missing values of documents that have features."""
        return int(np.isnan(self.values[self.known]).sum())

    def name_missing(self, named: DocumentNames) -> str:
        """The first missing value of a document that has features, in words."""
        document, column = map(int, np.argwhere(np.isnan(self.values) & self.known[:, None])[0])
        return (
            f"{self.source}: {_pair(named, document)}: feature {feature_name(self.names, column)} is missing"
        )


def read_features(log: LogFolder, named: DocumentNames) -> LogFeatures:
    """The features of a log's documents, in the order of its counts and statistics.

    Args:
        log: a log with a table of features.
        named: the counts or statistics of the log.

    Raises:
        DataError: the log has no features, a document has two rows, or a feature is infinite.
    """
    if not log.has(FEATURES):
        raise DataError(
            f"{log.folder}: the log has no {FEATURES}.parquet, which a model needs: import the log with "
            "--features TABLE, a table of query_id, doc_id and features, or of doc_id and features; or with "
            "--feature-columns auto, if the table of impressions has them"
        )
    values: Float32 | None = None
    rows_of = np.zeros(len(named.doc_ids), np.int64)
    categories = all_categories(map(FeatureTable, log.files(FEATURES)))
    for places, matrix in _matrices(log, named, categories):
        if values is None:
            values = np.full((len(rows_of), matrix.shape[1]), np.nan, np.float32)
        np.add.at(rows_of, places, 1)
        values[places] = matrix
    _refuse_repeated(rows_of, named, log)
    if values is None:
        raise DataError(
            f"{log.source(FEATURES)}: none of the log's {len(rows_of):,} documents has features (such as "
            f"{_pair(named, 0)}): the ids of queries and documents must be those of the log"
        )
    return LogFeatures(values, rows_of > 0, read_feature_names(log), log.source(FEATURES), categories)


def split_of_log(log: LogFolder, named: DocumentNames) -> Split:
    """The log's documents with their features, in the order of its statistics; all labels are 0.

    Raises:
        DataError: the log has no features, a document has none or two rows, or a value is missing or
            infinite.
    """
    features = read_features(log, named)
    without = np.flatnonzero(~features.known)
    if len(without):
        raise DataError(
            f"{features.source}: no features for {_pair(named, int(without[0]))} ({len(without)} of "
            f"{len(features.known)} documents in total): every document that was shown, or is a candidate, "
            f"needs exactly one row"
        )
    if features.n_missing:
        raise DataError(
            f"{features.name_missing(named)} ({features.n_missing:,} values are): fill in missing values"
        )
    return Split(
        features=features.values,
        labels=np.zeros(len(named.doc_ids)),
        offsets=named.offsets,
        query_ids=named.query_ids,
        doc_ids=named.doc_ids,
        categorical=features.categorical,
    )


def read_feature_names(log: LogFolder) -> Names | None:
    """The names of the features; None if they are stored as vectors, or if there are none.

    Files of one log may have different features, if some were added later: all of them count.
    """
    names: dict[str, None] = {}
    for path in log.files(FEATURES) if log.has(FEATURES) else ():
        own = FeatureTable(path).names
        if own is None:
            return None
        names |= dict.fromkeys(own)
    return tuple(names) or None


def why_unusable(log: LogFolder, named: DocumentNames) -> str | None:
    """Why the features of a log's documents cannot be used, apart from missing ones; None if they can."""
    rows_of = np.zeros(len(named.doc_ids), np.int64)
    try:
        for places, _ in _matrices(log, named):
            np.add.at(rows_of, places, 1)
        _refuse_repeated(rows_of, named, log)
    except DataError as error:
        return str(error)
    return None


def _matrices(
    log: LogFolder, named: DocumentNames, categories: Categories | None = None
) -> Iterator[tuple[Int64, Float32]]:
    """The features of the documents, batch by batch, with the number of each document.

    A feature that a file does not have is missing in all of its rows.
    """
    queries = np.repeat(named.query_ids, np.diff(named.offsets))
    known = document_keys(pa.array(queries.tolist()), pa.array(named.doc_ids.tolist()))
    names, width = read_feature_names(log), None
    for path in log.files(FEATURES):
        table = FeatureTable(path)
        # All ids before all features: Arrow hashes every known document for each search.
        found, at = pc.index_in(table.keys(), value_set=known).combine_chunks(), 0
        for rows in table.rows(categories):
            documents = found.slice(at, len(rows.matrix))
            at += len(documents)
            wanted = documents.is_valid()
            places = documents.filter(wanted).to_numpy()
            if len(places):
                matrix = _widened(rows.filter(wanted).matrix, table.names, names)
                width = same_width(matrix, width, path)
                yield places, matrix


def _widened(matrix: Float32, given: Names | None, wanted: Names | None) -> Float32:
    """The columns in the wanted order, with missing values for features that are not given."""
    if given is None or wanted is None or given == wanted:
        return matrix
    result = np.full((len(matrix), len(wanted)), np.nan, np.float32)
    result[:, [wanted.index(name) for name in given]] = matrix
    return result


def column_order(table: FeatureTable, wanted: Names | None, *, who: str) -> Int64 | None:
    """Where the wanted features are in a table; None if they are in order, or cannot be told by name."""
    if wanted is None or table.names is None:
        return None
    return match_features(table.names, wanted, where=table.path, who=who)


def same_width(matrix: Float32, width: int | None, path: object) -> int:
    """The number of features; refuses another number than that of other rows."""
    if width is not None and matrix.shape[1] != width:
        raise DataError(f"{path}: {matrix.shape[1]} features, but other rows have {width}")
    return int(matrix.shape[1])


def as_feature_paths(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """One path or several, as a list."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return [Path(path) for path in given]


def _refuse_repeated(rows_of: Int64, named: DocumentNames, log: LogFolder) -> None:
    documents = np.flatnonzero(rows_of > 1)
    if len(documents):
        raise DataError(
            f"{log.source(FEATURES)}: more than one row for {_pair(named, int(documents[0]))} "
            f"({len(documents)} of {len(rows_of)} documents in total): every document of a query has at most "
            "one row"
        )


def _pair(named: DocumentNames, document: int) -> str:
    query = int(np.searchsorted(named.offsets, document, side="right")) - 1
    return f"query {str(named.query_ids[query])!r}, document {str(named.doc_ids[document])!r}"


VECTOR = "features"
# The ids of queries and documents, batch by batch.
Pairs = Iterable[pa.RecordBatch]


class DocumentFeatures:
    """The features of documents, whatever the query; held in memory.

    Args:
        table: a table without ``query_id``.
        categories: the values of columns of text; None for those of the table.
    """

    def __init__(self, table: FeatureTable, categories: Categories | None = None) -> None:
        self.table = table
        rows = list(table.rows(categories))
        if not rows:
            raise DataError(f"{table.path}: the table has no rows of features")
        self.ids = pa.concat_arrays([part.ids[DOCUMENT] for part in rows])
        self.matrix: Float32 = np.concatenate([part.matrix for part in rows])
        codes = self.ids.dictionary_encode().indices.to_numpy()
        first = np.unique(codes, return_index=True)[1]
        if len(first) < len(codes):
            again = int(np.setdiff1d(np.arange(len(codes)), first)[0])
            raise DataError(
                f"{table.path}: more than one row for document {self.ids[again].as_py()!r}: a table without "
                f"query_id has one row per document"
            )

    def of(self, documents: pa.Array) -> tuple[pa.Array, Float32]:
        """Which documents have features, and the features of those."""
        found = pc.index_in(documents, value_set=self.ids)
        return found.is_valid(), self.matrix[found.drop_null().to_numpy()]


class JoinedFeatures:
    """The features of queries and documents, from one or two kinds of tables.

    Args:
        paths: files with query_id, doc_id and features, which are parts of one table, and at most one file
            with doc_id and features.
        pairs: the queries and documents to describe where no file has query_id.

    Attributes:
        names: the names of the features, those of queries and documents first; None for vectors.
        categories: of features that are text, the values that their numbers stand for.
        without: how many rows were left out so far because their document is not in the file of documents.
    """

    def __init__(self, paths: Sequence[Path], pairs: Pairs | None = None) -> None:
        tables = [FeatureTable(path) for path in paths]
        self.parts = [table for table in tables if not table.per_document]
        documents = [table for table in tables if table.per_document]
        if len(documents) > 1:
            raise DataError(
                f"{documents[1].path}: a second table of documents, besides {documents[0].path}: join them "
                f"into one"
            )
        if not self.parts and pairs is None:
            raise DataError(
                f"{documents[0].path}: the table has no query_id, so it does not tell which documents belong "
                f"to which query: give the log, or a table of query_id and doc_id, as well"
            )
        for table in () if documents else self.parts:
            feature_columns(table.schema, str(table.path))  # refuses a table of ids alone
        self.categories = all_categories(tables)
        self.documents = DocumentFeatures(documents[0], self.categories) if documents else None
        self.pairs, self.without = pairs, 0

    @cached_property
    def names(self) -> Names | None:
        """The names of the features; None for vectors."""
        tables = [*self.parts[:1], *([] if self.documents is None else [self.documents.table])]
        if len(tables) == 1:
            return tables[0].names
        for table in tables:
            if table.names is None:
                raise DataError(
                    f"{table.path}: vectors cannot be joined with another table, because their features have "
                    f"no names: give one column per feature"
                )
        names = tuple(name for table in tables for name in table.names or ())
        refuse_repeated(names, " and ".join(str(table.path) for table in tables))
        return names

    def rows(self) -> Iterator[FeatureRows]:
        """The rows of all queries and documents that have features, batch by batch."""
        _ = self.names  # refuses tables that cannot be joined
        width = None
        for path, rows in self._pair_rows():
            joined = rows if self.documents is None else self._join(rows, self.documents)
            if len(joined.matrix):
                width = same_width(joined.matrix, width, path)
                yield joined

    def _pair_rows(self) -> Iterator[tuple[object, FeatureRows]]:
        for table in self.parts:
            who = f"{self.parts[0].path.name}, a part of the same table"
            order = column_order(table, self.parts[0].names, who=who)
            for rows in table.rows(self.categories):
                yield table.path, rows if order is None else rows._replace(matrix=rows.matrix[:, order])
        if self.parts or self.documents is None:
            return
        step = max(1, NUMBERS_PER_BATCH // self.documents.matrix.shape[1])
        for batch in self.pairs or ():
            for start in range(0, len(batch), step):
                part = batch.slice(start, step)
                ids = {name: part.column(name).cast(pa.string()) for name in QUERY_DOCUMENT}
                yield self.documents.table.path, FeatureRows(ids, np.empty((len(part), 0), np.float32))

    def _join(self, rows: FeatureRows, documents: DocumentFeatures) -> FeatureRows:
        known, matrix = documents.of(rows.ids[DOCUMENT])
        self.without += len(known) - known.true_count
        kept = rows.filter(known)
        return kept._replace(matrix=np.hstack([kept.matrix, matrix]))


def copy_features(
    paths: PathLike | Sequence[PathLike], writer: LogWriter, pairs: Pairs | None = None
) -> Iterator[pa.Table]:
    """Copy tables of features into a log that is being written, and yield the ids of each batch.

    A table with ``doc_id`` and without ``query_id`` describes documents: its row is copied for every query
    that shows the document. Names are kept: the log has one column per feature, or vectors if the table has.

    Args:
        paths: Parquet or CSV files, as `JoinedFeatures` takes them.
        writer: the writer of the log.
        pairs: the queries and documents of the log.
    """
    files = as_feature_paths(paths)
    joined = JoinedFeatures(files, pairs)
    rows = 0
    for part in joined.rows():
        writer.write(FEATURES, {**part.ids, **feature_arrays(part.matrix, joined.names, joined.categories)})
        rows += len(part.matrix)
        yield pa.table(part.ids)
    if not rows:
        listed = ", ".join(map(str, files))
        if joined.without or not joined.parts:
            raise DataError(f"{listed}: no document of the log is in the table of documents")
        raise DataError(f"{listed}: the table has no rows of features")


def feature_arrays(matrix: Float32, names: Names | None, categories: Categories) -> dict[str, pa.Array]:
    """The columns of a table of features; categories become text again."""
    if names is None:
        return {VECTOR: pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])}
    return {
        name: _texts(matrix[:, i], categories[name])
        if name in categories
        else pa.array(np.ascontiguousarray(matrix[:, i]))
        for i, name in enumerate(names)
    }


def _texts(numbers: Float32, categories: Names) -> pa.Array:
    unknown = np.isnan(numbers)
    places = pa.array(np.where(unknown, 0, numbers).astype(np.int32), mask=unknown)
    return pa.array(categories, pa.string()).take(places)
