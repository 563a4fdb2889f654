"""Tables of features, Parquet or CSV, per query and document or per document; matched by name.

A column of text is a category: its values become the numbers of an ordered list of categories.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from rankloop.errors import DataError, one_line
from rankloop.logs.schema import (
    PARQUET_ERRORS,
    QUERY_DOCUMENT,
    checked_batches,
    document_keys,
    feature_columns,
    feature_ids,
    is_list,
    is_text,
    parquet_footer,
)
from rankloop.types import Float32, Int64

# Numbers held in memory at a time while a table is read, 4 bytes each.
NUMBERS_PER_BATCH = 16_000_000
ROWS_PER_BATCH = 100_000
QUERY, DOCUMENT = QUERY_DOCUMENT


class FeatureRows(NamedTuple):
    """Some rows of a table of features.

    Attributes:
        ids: by the name of the id, text.
        matrix: float32, rows × features; NaN where a value is missing. Of a category, its place in the list
            of categories; NaN if it is not there.
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
        if {*self.schema.names} == {*QUERY_DOCUMENT}:
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

    @cached_property
    def categories(self) -> Categories:
        """The different values of each column of text, sorted."""
        texts = [name for name in self.columns if is_text(self.schema.field(name).type)]
        if not texts:
            return {}
        values: dict[str, set[str]] = {name: set() for name in texts}
        for batch in self._batches(texts):
            for name in texts:
                values[name].update(pc.unique(batch.column(name).cast(pa.string())).drop_null().to_pylist())
        return {name: tuple(sorted(different)) for name, different in values.items()}

    def rows(self, categories: Categories | None = None) -> Iterator[FeatureRows]:
        """The rows, batch by batch; refuses rows without an id and features that are infinite.

        Args:
            categories: the values of columns of text, by whose places they are numbered; None for those of
                this file.
        """
        lists = self.categories if categories is None else categories
        for batch, ids in self._with_ids(self._batches()):
            yield FeatureRows(ids, self._matrix(batch, lists))

    def keys(self) -> pa.ChunkedArray:
        """The queries and documents of all rows, each as `document_keys` spells it."""
        ids = (found for _, found in self._with_ids(self._batches(self.ids)))
        parts = [document_keys(*(found[name] for name in QUERY_DOCUMENT)) for found in ids]
        return pa.chunked_array(parts, pa.string())

    def _with_ids(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[pa.RecordBatch, dict[str, pa.Array]]]:
        """Batches with their ids as text; empty ones are left out, and rows without an id refused."""
        before = 0
        for batch in batches:
            if not len(batch):
                continue
            ids = {name: batch.column(name).cast(pa.string()) for name in self.ids}
            for name, column in ids.items():
                empty = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
                if len(empty):
                    row = before + int(empty[0]) + 1
                    raise DataError(f"{self.path}, row {row}: no {name}; every row needs one")
            before += len(batch)
            yield batch, ids

    def _batches(self, wanted: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        columns = self.columns
        try:
            if self._is_csv:
                with _csv_reader(self.path) as reader:
                    yield from reader
                return
            # The length of vectors is not known before they are read.
            rows = ROWS_PER_BATCH if len(columns) <= 1 else max(1, NUMBERS_PER_BATCH // len(columns))
            yield from checked_batches(self.path, min(rows, ROWS_PER_BATCH), wanted)
        except PARQUET_ERRORS as error:
            raise self._unreadable(error) from error

    def _matrix(self, batch: pa.RecordBatch, categories: Categories) -> Float32:
        if self._holds_vectors:
            matrix = self._vectors(batch)
        else:
            matrix = np.empty((len(batch), len(self.columns)), np.float32)
            for i, name in enumerate(self.columns):
                column = batch.column(name)
                if name in categories:
                    column = self._places(column, name, categories[name])
                matrix[:, i] = _numbers(column)
        bad = np.argwhere(np.isinf(matrix))
        if len(bad):
            row, column = map(int, bad[0])
            raise DataError(
                f"{self.path}: {self._name_row(batch, row)}: feature {feature_name(self.names, column)} is "
                f"{matrix[row, column]}; features must be finite numbers of 32 bits ({len(bad)} are not)"
            )
        return matrix

    def _places(self, column: pa.Array, name: str, categories: Sequence[str]) -> pa.Array:
        if pa.types.is_null(column.type):
            return column
        if not is_text(column.type):
            raise DataError(
                f"{self.path}: the feature {name!r} holds {column.type}, but text elsewhere: give all parts "
                f"of a table the same types"
            )
        return pc.index_in(column.cast(pa.string()), value_set=pa.array(categories, pa.string()))

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
    types: dict[str, Any] = dict.fromkeys(QUERY_DOCUMENT, pa.string())
    with pyarrow.csv.open_csv(
        path, convert_options=pyarrow.csv.ConvertOptions(column_types=types)
    ) as beginning:
        for field in beginning.schema:
            # Types are inferred from the first rows; later ones may hold fractions.
            if field.name not in QUERY_DOCUMENT and (
                pa.types.is_integer(field.type) or pa.types.is_null(field.type)
            ):
                types[field.name] = pa.float64()
    return pyarrow.csv.open_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=types))


def _numbers(column: pa.Array) -> Float32:
    """Numbers as float32; missing values become NaN, and values that are too large infinite."""
    wide = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        narrow: Float32 = wide.astype(np.float32)
    return narrow


Names = tuple[str, ...]
# By the name of a feature, the values that it can have.
Categories = Mapping[str, Names]


def all_categories(tables: Iterable[FeatureTable]) -> Categories:
    """The categories of several tables together."""
    values: dict[str, set[str]] = {}
    for table in tables:
        for name, different in table.categories.items():
            values.setdefault(name, set()).update(different)
    return {name: tuple(sorted(different)) for name, different in values.items()}


def match_features(
    given: Names, wanted: Names, *, where: object, who: str, spare: bool = False
) -> Int64 | None:
    """Where each wanted feature is among the given ones; None if both are the same, in the same order.

    Args:
        given: the features of a table.
        wanted: the features that a model takes, in its order.
        where: the table, for messages.
        who: the model, for messages.
        spare: other features may be given, too; they are not used.

    Raises:
        DataError: a feature is missing, or there is one that the model does not know.

    Example:
        >>> match_features(("price", "age"), ("age", "price"), where="docs.csv", who="the policy")
        array([1, 0])
        >>> match_features(("price", "agee"), ("age", "price"), where="docs.csv", who="the policy")
        Traceback (most recent call last):
            ...
        rankloop.errors.DataError: docs.csv: the features are not those of the policy: 1 missing: 'age' (is it
        'agee'?); 1 unknown: 'agee'; give the features that it was fitted to, under the same names, in any
        order
    """
    if given == wanted:
        return None
    missing = [name for name in wanted if name not in set(given)]
    unknown = [name for name in given if name not in set(wanted)]
    if missing or (unknown and not spare):
        reasons = [
            f"{len(names):,} {what}: {', '.join(names)}"
            for what, names in (
                ("missing", [_suggest(name, unknown) for name in missing]),
                ("unknown", [repr(name) for name in unknown]),
            )
            if names
        ]
        raise DataError(
            f"{where}: the features are not those of {who}: {'; '.join(reasons)}; give the features that it "
            f"was fitted to, under the same names, in any order"
        )
    places = {name: place for place, name in enumerate(given)}
    return np.array([places[name] for name in wanted], dtype=np.int64)


def refuse_repeated(names: Sequence[str], where: object) -> None:
    """Refuse features of which two have the same name."""
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise DataError(
            f"{where}: more than one feature is named {', '.join(map(repr, repeated))}: features are matched "
            f"by name, so every one needs a name of its own"
        )


def _suggest(name: str, others: list[str]) -> str:
    close = difflib.get_close_matches(name, others, n=1)
    return f"{name!r} (is it {close[0]!r}?)" if close else repr(name)
