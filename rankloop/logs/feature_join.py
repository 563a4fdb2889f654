"""Tables of features joined: those of queries and documents, and those of documents alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankloop.errors import DataError
from rankloop.logs.feature_names import Names, refuse_repeated
from rankloop.logs.feature_tables import DOCUMENT, NUMBERS_PER_BATCH, FeatureRows, FeatureTable
from rankloop.logs.features import PathLike, as_feature_paths, column_order, same_width
from rankloop.logs.schema import FEATURES, ITEM, feature_columns
from rankloop.logs.writer import LogWriter
from rankloop.types import Float32

VECTOR = "features"
# The ids of queries and documents, batch by batch.
Pairs = Iterable[pa.RecordBatch]


class DocumentFeatures:
    """The features of documents, whatever the query; held in memory.

    Args:
        table: a table without ``query_id``.
    """

    def __init__(self, table: FeatureTable) -> None:
        self.table = table
        rows = list(table.rows())
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
        self.documents = DocumentFeatures(documents[0]) if documents else None
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
            for rows in table.rows():
                yield table.path, rows if order is None else rows._replace(matrix=rows.matrix[:, order])
        if self.parts or self.documents is None:
            return
        step = max(1, NUMBERS_PER_BATCH // self.documents.matrix.shape[1])
        for batch in self.pairs or ():
            for start in range(0, len(batch), step):
                part = batch.slice(start, step)
                ids = {name: part.column(name).cast(pa.string()) for name in ITEM}
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
        writer.write(FEATURES, {**part.ids, **_columns(part.matrix, joined.names)})
        rows += len(part.matrix)
        yield pa.table(part.ids)
    if not rows:
        listed = ", ".join(map(str, files))
        if joined.without or not joined.parts:
            raise DataError(f"{listed}: no document of the log is in the table of documents")
        raise DataError(f"{listed}: the table has no rows of features")


def _columns(matrix: Float32, names: Names | None) -> dict[str, pa.Array]:
    if names is None:
        return {VECTOR: pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])}
    return {name: pa.array(np.ascontiguousarray(matrix[:, i])) for i, name in enumerate(names)}
