"""The features of a log's items, in the order of its statistics: what a model is fitted to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankloop.errors import DataError, one_line
from rankloop.logs.folder import LogFolder
from rankloop.logs.schema import FEATURES, ITEM, feature_columns
from rankloop.logs.writer import LogWriter
from rankloop.types import Float32, Int64, Split, Str

# Numbers held in memory at a time while a table is read, 4 bytes each.
NUMBERS_PER_BATCH = 16_000_000
ROWS_PER_BATCH = 100_000
VECTOR = "features"


class ItemNames(Protocol):
    """The names of a log's queries and items: `LogStatistics` and `LogCounts` have them."""

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


def split_of_log(log: LogFolder, named: ItemNames) -> Split:
    """The log's items with their features, in the order of its statistics; all labels are 0: a log has none.

    Args:
        log: a log with a table of features.
        named: the counts or statistics of the log.

    Raises:
        DataError: the log has no features, an item has none or two rows, or a feature is not finite.
    """
    if not log.has(FEATURES):
        raise DataError(f"{log.folder}: the log has no {FEATURES}.parquet, which a model needs")
    return Split(
        features=_features(log, named),
        labels=np.zeros(len(named.doc_ids)),
        offsets=named.offsets,
        query_ids=named.query_ids,
        doc_ids=named.doc_ids,
    )


def read_feature_names(log: LogFolder) -> tuple[str, ...] | None:
    """The names of the features; None if they are stored as vectors, or if there are none."""
    if not log.has(FEATURES):
        return None
    path = log.files(FEATURES)[0]
    schema = pq.read_schema(path)
    columns = feature_columns(schema, str(path))
    return None if pa.types.is_nested(schema.field(columns[0]).type) else tuple(columns)


def why_unusable(log: LogFolder, named: ItemNames) -> str | None:
    """Why the features of a log's items cannot be used, apart from missing ones; None if they can."""
    rows_of = np.zeros(len(named.doc_ids), np.int64)
    try:
        for places, _ in _matrices(log, named):
            np.add.at(rows_of, places, 1)
        _refuse(rows_of > 1, named, f"{log.source(FEATURES)}: more than one row for")
    except DataError as error:
        return str(error)
    return None


def copy_features(path: str | os.PathLike[str], writer: LogWriter) -> Iterator[pa.Table]:
    """Copy a table of features into a log that is being written, and yield the ids of each batch.

    The table is Parquet or CSV, with one column of vectors or one column per feature; columns become a
    vector, in their order.
    """
    rows, width = 0, None
    for batch, columns in feature_batches(Path(path)):
        if not len(batch):
            continue
        matrix = feature_matrix(batch, columns, path)
        width = _same_width(matrix, width, path)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), width)
        ids = {name: batch.column(name).cast(pa.string()) for name in ITEM}
        _refuse_nameless(ids, rows, path)
        writer.write(FEATURES, {**ids, VECTOR: vectors})
        rows += len(batch)
        yield pa.table(ids)
    if not rows:
        raise DataError(f"{path}: the table has no rows of features")


def _features(log: LogFolder, named: ItemNames) -> Float32:
    result: Float32 | None = None
    rows_of = np.zeros(len(named.doc_ids), np.int64)
    for places, matrix in _matrices(log, named):
        if result is None:
            result = np.zeros((len(rows_of), matrix.shape[1]), np.float32)
        np.add.at(rows_of, places, 1)
        result[places] = matrix
    _refuse(rows_of == 0, named, f"{log.source(FEATURES)}: no features for")
    _refuse(rows_of > 1, named, f"{log.source(FEATURES)}: more than one row for")
    assert result is not None
    return result


def _matrices(log: LogFolder, named: ItemNames) -> Iterator[tuple[Int64, Float32]]:
    """The features of the items, batch by batch, with the number of each item."""
    queries = np.repeat(named.query_ids, np.diff(named.offsets))
    keys = item_keys(pa.array(queries.tolist()), pa.array(named.doc_ids.tolist()))
    width = None
    for path in log.files(FEATURES):
        for batch, columns in feature_batches(path):
            items = pc.index_in(
                item_keys(*(batch.column(name).cast(pa.string()) for name in ITEM)), value_set=keys
            )
            wanted = items.is_valid()
            places = items.filter(wanted).to_numpy()
            if len(places):
                matrix = feature_matrix(batch.filter(wanted), columns, path)
                width = _same_width(matrix, width, path)
                yield places, matrix


def _same_width(matrix: Float32, width: int | None, path: object) -> int:
    if width is not None and matrix.shape[1] != width:
        raise DataError(f"{path}: {matrix.shape[1]} features, but other rows have {width}")
    return int(matrix.shape[1])


def _refuse_nameless(ids: dict[str, pa.Array], before: int, path: object) -> None:
    for name, column in ids.items():
        empty = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
        if len(empty):
            raise DataError(f"{path}, row {before + int(empty[0]) + 1}: no {name}; every row needs one")


def _refuse(bad: NDArray[np.bool_], named: ItemNames, what: str) -> None:
    items = np.flatnonzero(bad)
    if len(items):
        query = int(np.searchsorted(named.offsets, items[0], side="right")) - 1
        raise DataError(
            f"{what} query {str(named.query_ids[query])!r}, document {str(named.doc_ids[items[0]])!r} "
            f"({len(items)} of {len(bad)} documents in total): every document that was shown, or is a "
            f"candidate, needs exactly one row"
        )


def item_keys(queries: pa.Array, documents: pa.Array) -> pa.Array:
    """One string per pair; the length in front tells where the query's id ends."""
    lengths = pc.binary_length(queries).cast(pa.string())
    return pc.binary_join_element_wise(lengths, queries, documents, ":")


def feature_batches(path: Path) -> Iterator[tuple[pa.RecordBatch, list[str]]]:
    """The rows of a table of features, batch by batch, and the names of the columns that hold features."""
    is_csv = path.name.removesuffix(".gz").endswith(".csv")
    try:
        if is_csv:
            with _csv_reader(path) as reader:
                columns = feature_columns(reader.schema, str(path))
                yield from ((batch, columns) for batch in reader)
            return
        with pq.ParquetFile(path) as file:
            columns = feature_columns(file.schema_arrow, str(path))
            # The length of vectors is not known before they are read.
            rows = ROWS_PER_BATCH if len(columns) == 1 else max(1, NUMBERS_PER_BATCH // len(columns))
            yield from ((batch, columns) for batch in file.iter_batches(min(rows, ROWS_PER_BATCH)))
    except (pa.ArrowException, OSError) as error:
        kind = "CSV" if is_csv else "Parquet (the name of a CSV file must end in .csv)"
        raise DataError(f"{path}: the features cannot be read as {kind}: {one_line(error)}") from error


def _csv_reader(path: Path) -> Any:
    # Ids are text: 007 is not 7.
    types = dict.fromkeys(ITEM, pa.string())
    with pyarrow.csv.open_csv(
        path, convert_options=pyarrow.csv.ConvertOptions(column_types=types)
    ) as beginning:
        for field in beginning.schema:
            # Types are inferred from the first rows; later ones may hold fractions.
            if field.name not in ITEM and (pa.types.is_integer(field.type) or pa.types.is_null(field.type)):
                types[field.name] = pa.float64()
    return pyarrow.csv.open_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=types))


def feature_matrix(batch: pa.RecordBatch, columns: list[str], path: object) -> Float32:
    """The features of a batch, rows × features; refuses features that are not finite."""
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
            f"numbers (at least {len(bad)} are not): fill in missing values"
        )
    return matrix


def _vectors(column: pa.Array, batch: pa.RecordBatch, path: object) -> Float32:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    differing = np.flatnonzero(lengths != lengths[0])
    if len(differing):
        row = int(differing[0])
        raise DataError(
            f"{path}: {_pair(batch, row)}: a vector of {lengths[row]} features, but others have {lengths[0]}"
        )
    return _numbers(column.flatten()).reshape(len(column), int(lengths[0]))


def _numbers(column: pa.Array) -> Float32:
    """Numbers as float32; missing values become NaN, and values that are too large infinite."""
    wide = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        narrow: Float32 = wide.astype(np.float32)
    return narrow


def _pair(batch: pa.RecordBatch, row: int) -> str:
    query, document = (batch.column(name)[int(row)].as_py() for name in ITEM)
    return f"query {query!r}, document {document!r}"
