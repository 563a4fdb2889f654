"""Tables of features: Parquet or CSV, per query and document, or per document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from rankloop.errors import DataError, one_line
from rankloop.logs.feature_names import Names, refuse_repeated
from rankloop.logs.parquet_file import PARQUET_ERRORS, checked_batches, parquet_footer
from rankloop.logs.schema import ITEM, feature_columns, feature_ids, is_list
from rankloop.types import Float32

# Numbers held in memory at a time while a table is read, 4 bytes each.
NUMBERS_PER_BATCH = 16_000_000
ROWS_PER_BATCH = 100_000
QUERY, DOCUMENT = ITEM


class FeatureRows(NamedTuple):
    """Some rows of a table of features.

    Attributes:
        ids: by the name of the id, text.
        matrix: float32, rows × features; NaN where a value is missing.
    """

    ids: dict[str, pa.Array]
    matrix: Float32

    def filter(self, wanted: pa.Array) -> FeatureRows:
        """The rows for which a mask is true."""
        kept = wanted.to_numpy(zero_copy_only=False)
        return FeatureRows({name: ids.filter(wanted) for name, ids in self.ids.items()}, self.matrix[kept])


@dataclass(frozen=True)
class FeatureTable:
    """One file of features.

    Attributes:
        path: the file; CSV if its name ends in ``.csv`` or ``.csv.gz``, else Parquet.
    """

    path: Path

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the file."""
        try:
            if self._is_csv:
                with _csv_reader(self.path) as reader:
                    return reader.schema
            return parquet_footer(self.path)[0]
        except PARQUET_ERRORS as error:
            raise self._unreadable(error) from error

    @cached_property
    def columns(self) -> list[str]:
        """The columns that hold features; none if the table only tells which documents queries have."""
        refuse_repeated(self.schema.names, self.path)
        if {*self.schema.names} == {*ITEM}:
            return []
        return feature_columns(self.schema, str(self.path))

    @property
    def names(self) -> Names | None:
        """The names of the features; None if they are one column of vectors."""
        return None if self._holds_vectors else tuple(self.columns)

    @property
    def ids(self) -> Names:
        """The ids of a row: query and document, or the document alone."""
        return feature_ids(self.schema, str(self.path))

    @property
    def per_document(self) -> bool:
        """Whether a row describes a document whatever the query."""
        return self.ids == (DOCUMENT,)

    def rows(self) -> Iterator[FeatureRows]:
        """The rows, batch by batch; refuses rows without an id and features that are infinite."""
        before = 0
        for batch in self._batches():
            if not len(batch):
                continue
            ids = {name: batch.column(name).cast(pa.string()) for name in self.ids}
            for name, column in ids.items():
                empty = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
                if len(empty):
                    row = before + int(empty[0]) + 1
                    raise DataError(f"{self.path}, row {row}: no {name}; every row needs one")
            before += len(batch)
            yield FeatureRows(ids, self._matrix(batch))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        columns = self.columns
        try:
            if self._is_csv:
                with _csv_reader(self.path) as reader:
                    yield from reader
                return
            # The length of vectors is not known before they are read.
            rows = ROWS_PER_BATCH if len(columns) <= 1 else max(1, NUMBERS_PER_BATCH // len(columns))
            yield from checked_batches(self.path, min(rows, ROWS_PER_BATCH))
        except PARQUET_ERRORS as error:
            raise self._unreadable(error) from error

    def _matrix(self, batch: pa.RecordBatch) -> Float32:
        if self._holds_vectors:
            matrix = self._vectors(batch)
        else:
            matrix = np.empty((len(batch), len(self.columns)), np.float32)
            for i, name in enumerate(self.columns):
                matrix[:, i] = _numbers(batch.column(name))
        bad = np.argwhere(np.isinf(matrix))
        if len(bad):
            row, column = map(int, bad[0])
            raise DataError(
                f"{self.path}: {self._name_row(batch, row)}: feature {feature_name(self.names, column)} is "
                f"{matrix[row, column]}; features must be finite numbers of 32 bits ({len(bad)} are not)"
            )
        return matrix

    def _vectors(self, batch: pa.RecordBatch) -> Float32:
        column = batch.column(self.columns[0])
        lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
        differing = np.flatnonzero(lengths != lengths[0])
        if len(differing):
            row = int(differing[0])
            raise DataError(
                f"{self.path}: {self._name_row(batch, row)}: a vector of {lengths[row]} features, but others "
                f"have {lengths[0]}"
            )
        return _numbers(column.flatten()).reshape(len(column), int(lengths[0]))

    def _name_row(self, batch: pa.RecordBatch, row: int) -> str:
        words = {QUERY: "query", DOCUMENT: "document"}
        return ", ".join(f"{words[name]} {batch.column(name)[row].as_py()!r}" for name in self.ids)

    @property
    def _holds_vectors(self) -> bool:
        return bool(self.columns) and is_list(self.schema.field(self.columns[0]).type)

    @property
    def _is_csv(self) -> bool:
        return self.path.name.removesuffix(".gz").endswith(".csv")

    def _unreadable(self, error: BaseException) -> DataError:
        kind = "CSV" if self._is_csv else "Parquet (the name of a CSV file must end in .csv)"
        return DataError(f"{self.path}: the features cannot be read as {kind}: {one_line(error)}")


def feature_name(names: Names | None, column: int) -> str:
    """A feature, as messages name it."""
    return f"number {column}" if names is None else repr(names[column])


def _csv_reader(path: Path) -> Any:
    # Ids are text: 007 is not 7.
    types: dict[str, Any] = dict.fromkeys(ITEM, pa.string())
    with pyarrow.csv.open_csv(
        path, convert_options=pyarrow.csv.ConvertOptions(column_types=types)
    ) as beginning:
        for field in beginning.schema:
            # Types are inferred from the first rows; later ones may hold fractions.
            if field.name not in ITEM and (pa.types.is_integer(field.type) or pa.types.is_null(field.type)):
                types[field.name] = pa.float64()
    return pyarrow.csv.open_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=types))


def _numbers(column: pa.Array) -> Float32:
    """Numbers as float32; missing values become NaN, and values that are too large infinite."""
    wide = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        narrow: Float32 = wide.astype(np.float32)
    return narrow
