"""Features of a log's items, in the order of its statistics: what a model is fitted to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs.folder import Log
from rankloop.logs.schema import FEATURES, ITEM, feature_columns
from rankloop.logs.writer import LogWriter
from rankloop.types import Float32, Int64, Split, Str

# Numbers that are held at a time while a table is read, 4 bytes each.
NUMBERS_PER_BATCH = 16_000_000
ROWS_PER_BATCH = 100_000
VECTOR = "features"


class Named(Protocol):
    """What has the queries and items of a log: `LogStatistics` and `LogCounts`."""

    @property
    def query_ids(self) -> Str:
        """The id of each query."""
        ...

    @property
    def doc_ids(self) -> Str:
        """The id of each item."""
        ...

    @property
    def offsets(self) -> Int64:
        """Where each query's items begin."""
        ...


def split_of_log(log: Log, named: Named) -> Split:
    """The log's items with their features, row for row as in its statistics; labels are 0: there are none.

    Args:
        log: a log with a table of features.
        named: what `statistics_of_log` or `count` gave.

    Raises:
        DataError: there are no features, an item has none or two, or one is not a finite number.
    """
    if not log.has(FEATURES):
        raise DataError(
            f"{log.folder}: the log has no {FEATURES}.parquet, so there is nothing to fit a model to"
        )
    return Split(
        features=_features(log, named),
        labels=np.zeros(len(named.doc_ids)),
        offsets=named.offsets,
        query_ids=named.query_ids,
        doc_ids=named.doc_ids,
    )


def copy_features(path: str | os.PathLike[str], writer: LogWriter) -> int:
    """Copy a table of features into a log that is being written; the number of its rows.

    One vector or one column a feature, Parquet or CSV; columns become a vector, in their order.
    """
    rows = 0
    for batch, columns in _batches(Path(path)):
        matrix = _matrix(batch, columns, path)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])
        ids = {name: batch.column(name).cast(pa.string()) for name in ITEM}
        writer.write(FEATURES, {**ids, VECTOR: vectors})
        rows += len(batch)
    if not rows:
        raise DataError(f"{path}: there are no features in it")
    return rows


def _features(log: Log, named: Named) -> Float32:
    queries = np.repeat(named.query_ids, np.diff(named.offsets))
    keys = _keys(pa.array(queries.tolist()), pa.array(named.doc_ids.tolist()))
    result: Float32 | None = None
    rows_of = np.zeros(len(keys), np.int64)
    for path in _parts(log):
        for batch, columns in _batches(path):
            items = pc.index_in(
                _keys(*(batch.column(name).cast(pa.string()) for name in ITEM)), value_set=keys
            )
            wanted = items.is_valid()
            places = items.filter(wanted).to_numpy()
            if not len(places):
                continue
            matrix = _matrix(batch.filter(wanted), columns, path)
            if result is None:
                result = np.zeros((len(keys), matrix.shape[1]), np.float32)
            elif matrix.shape[1] != result.shape[1]:
                raise DataError(f"{path}: {matrix.shape[1]} features, where others have {result.shape[1]}")
            np.add.at(rows_of, places, 1)
            result[places] = matrix
    _refuse(rows_of == 0, named, f"{log.source(FEATURES)}: no features for")
    _refuse(rows_of > 1, named, f"{log.source(FEATURES)}: more than one row for")
    assert result is not None
    return result


def _refuse(bad: NDArray[np.bool_], named: Named, what: str) -> None:
    items = np.flatnonzero(bad)
    if len(items):
        query = int(np.searchsorted(named.offsets, items[0], side="right")) - 1
        raise DataError(
            f"{what} query {str(named.query_ids[query])!r}, document {str(named.doc_ids[items[0]])!r} "
            f"({len(items)} of {len(bad)} documents in all): every document that was shown, or is a "
            f"candidate, needs one row"
        )


def _keys(queries: pa.Array, documents: pa.Array) -> pa.Array:
    """One text a pair; the length in front tells where the query's id ends."""
    lengths = pc.binary_length(queries).cast(pa.string())
    return pc.binary_join_element_wise(lengths, queries, documents, ":")


def _parts(log: Log) -> list[Path]:
    path = log.folder / f"{FEATURES}.parquet"
    return sorted(path.glob("*.parquet")) if path.is_dir() else [path]


def _batches(path: Path) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    try:
        if path.name.removesuffix(".gz").endswith(".csv"):
            # An id is what is written: 007 is not 7.
            as_text = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(ITEM, pa.string()))
            with pyarrow.csv.open_csv(path, convert_options=as_text) as reader:
                columns = feature_columns(reader.schema, str(path))
                yield from ((batch, columns) for batch in reader)
            return
        with pq.ParquetFile(path) as file:
            columns = feature_columns(file.schema_arrow, str(path))
            # A vector's length is not known before it is read.
            rows = ROWS_PER_BATCH if len(columns) == 1 else max(1, NUMBERS_PER_BATCH // len(columns))
            yield from ((batch, columns) for batch in file.iter_batches(min(rows, ROWS_PER_BATCH)))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: the features cannot be read ({error})") from error


def _matrix(batch: pa.RecordBatch, columns: list[str], path: object) -> Float32:
    """The features of a batch, rows × features; all must be finite."""
    vector = len(columns) == 1 and not pa.types.is_primitive(batch.schema.field(columns[0]).type)
    if vector:
        matrix = _vectors(batch.column(columns[0]), batch, path)
    else:
        matrix = np.empty((len(batch), len(columns)), np.float32)
        for i, name in enumerate(columns):
            matrix[:, i] = _numbers(batch.column(name))
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, column = map(int, bad[0])
        which = f"number {column}" if vector else repr(columns[column])
        raise DataError(
            f"{path}: {_pair(batch, row)}: feature {which} is {matrix[row, column]}; features must be finite "
            f"numbers (at least {len(bad)} are not): fill in what is missing"
        )
    return matrix


def _vectors(column: pa.Array, batch: pa.RecordBatch, path: object) -> Float32:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    differing = np.flatnonzero(lengths != lengths[0])
    if len(differing):
        row = int(differing[0])
        raise DataError(
            f"{path}: {_pair(batch, row)}: a vector of {lengths[row]} features, where others have "
            f"{lengths[0]}"
        )
    return _numbers(column.flatten()).reshape(len(column), int(lengths[0]))


def _numbers(column: pa.Array) -> Float32:
    """Numbers as float32; what is missing becomes NaN, and what is too large infinite."""
    wide = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        narrow: Float32 = wide.astype(np.float32)
    return narrow


def _pair(batch: pa.RecordBatch, row: int) -> str:
    query, document = (batch.column(name)[int(row)].as_py() for name in ITEM)
    return f"query {query!r}, document {document!r}"
