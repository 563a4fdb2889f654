"""Frames of pandas, polars, Arrow and DuckDB: columns by their names, and results as frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rankloop import extras
from rankloop.errors import DataError, one_line
from rankloop.types import Float32

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# What frames can do and other values with columns cannot: give rows to Arrow, or name columns without rows.
FRAMES = ("__arrow_c_stream__", "__dataframe__", "collect_schema")
# As many names as an error lists.
MOST_LISTED = 8


class ArrowRows(Protocol):
    """What gives its rows to Arrow: frames of pandas, polars and pyarrow, relations of DuckDB, and others."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, as Arrow's PyCapsule interface has them."""


def is_frame(value: object) -> bool:
    """Whether a value is a table with named columns: of pandas, polars, pyarrow, DuckDB or ibis.

    >>> is_frame(np.zeros((2, 2)))
    False
    """
    kind = type(value)
    named = hasattr(kind, "columns") or hasattr(kind, "column_names")
    return named and any(hasattr(kind, name) for name in FRAMES)


def columns_of(frame: Any) -> list[str]:
    """The names of the columns of a frame."""
    return [str(name) for name in _open(frame).columns]


def feature_matrix(
    frame: Any, names: Sequence[str] | None, categories: Mapping[str, Sequence[str]] | None = None
) -> Float32:
    """Columns of a frame as a matrix, by their names: their order in the frame, and others, do not matter.

    Missing values become NaN, and so do categories that are not known.

    Args:
        frame: a frame; see `is_frame`.
        names: the columns, in the order of the matrix; None if they are not known.
        categories: of columns of text, the values that their places stand for.

    Returns:
        float32, rows × names.

    Raises:
        DataError: the names are not known, a column is missing, or it holds something other than numbers.

    Example:
        >>> import pyarrow
        >>> frame = pyarrow.table({"price": [3.0, None], "title": ["a", "b"], "age": [1, 2]})
        >>> feature_matrix(frame, ["age", "price"])
        array([[ 1.,  3.],
               [ 2., nan]], dtype=float32)
        >>> feature_matrix(frame, ["title"], {"title": ["b", "c"]})
        array([[nan],
               [ 0.]], dtype=float32)
    """
    if names is None:
        raise DataError(
            "the columns of a frame are matched by name, but the model does not know the names of its "
            "features: give it an array with the columns in the order in which it was trained"
        )
    opened = _open(frame)
    missing = [name for name in names if name not in opened.columns]
    if missing:
        raise DataError(
            f"the frame has no column {listed(missing)}, which the model takes; its columns are "
            f"{listed(opened.columns)}"
        )
    result = np.empty((len(opened), len(names)), np.float32)
    for place, name in enumerate(names):
        kind = opened.schema[name]
        if name in (categories or {}):
            result[:, place] = category_places(opened[name], (categories or {})[name])
            continue
        if not (kind.is_numeric() or str(kind) == "Boolean"):
            raise DataError(
                f"column {name!r} of the frame holds {kind}, and the model takes numbers there: give it as "
                f"it was in training"
            )
        result[:, place] = opened[name].to_numpy()
    return result


def category_places(column: Any, categories: Sequence[str]) -> Float32:
    """The place of each value of a column among the categories; NaN if it is missing or not among them."""
    pyarrow, compute = extras.load("pyarrow"), extras.load("pyarrow.compute")
    texts = _texts(column)
    if texts is None:
        raise DataError(
            f"column {column.name!r} of the frame holds {column.dtype}, and the model takes categories "
            f"there: give text, as in training"
        )
    places = compute.index_in(texts, value_set=pyarrow.array(categories, pyarrow.string()))
    result: Float32 = places.cast(pyarrow.float32()).to_numpy(zero_copy_only=False).astype(np.float32)
    return result


def text_categories(frame: Any) -> dict[str, tuple[str, ...]]:
    """The different values of each column of text of a frame, sorted.

    >>> import pyarrow
    >>> text_categories(pyarrow.table({"brand": ["b", None, "a"], "price": [1, 2, 3]}))
    {'brand': ('a', 'b')}
    """
    opened, result = _open(frame), {}
    for name in opened.columns:
        texts = None if opened.schema[name].is_numeric() else _texts(opened[name])
        if texts is not None:
            result[str(name)] = tuple(sorted(texts.unique().drop_null().to_pylist()))
    return result


def number_categories(frame: Any, categories: Mapping[str, Sequence[str]]) -> Any:
    """The same frame with the places of categories instead of text, as `category_places` has them.

    >>> import pyarrow
    >>> frame = pyarrow.table({"brand": ["b", "c"], "price": [1, 2]})
    >>> number_categories(frame, {"brand": ["a", "b"]}).to_pydict()
    {'brand': [1.0, nan], 'price': [1, 2]}
    """
    import narwhals

    opened = _open(frame)
    numbered = [
        narwhals.new_series(name, category_places(opened[name], values), backend=opened.implementation)
        for name, values in categories.items()
        if name in opened.columns
    ]
    return opened.with_columns(*numbered).to_native()


def _texts(column: Any) -> Any:
    """A column of text, or of categories, as Arrow's text; None if it holds something else."""
    pyarrow = extras.load("pyarrow")
    try:
        values = column.to_arrow()
    except (pyarrow.ArrowException, TypeError):
        return None
    kind = values.type.value_type if pyarrow.types.is_dictionary(values.type) else values.type
    kinds = pyarrow.types.is_string, pyarrow.types.is_large_string, pyarrow.types.is_string_view
    if not (pyarrow.types.is_dictionary(values.type) or any(is_kind(kind) for is_kind in kinds)):
        # A column without any value has no type.
        return values.cast(pyarrow.string()) if pyarrow.types.is_null(kind) else None
    return values.cast(kind).cast(pyarrow.string())


def arrow_table(frame: Any) -> pyarrow.Table:
    """The rows of a frame, or of a dictionary of columns, as an Arrow table.

    >>> arrow_table({"query": ["a", "b"], "position": [1, 2]}).num_rows
    2
    """
    if isinstance(frame, Tabular):
        return frame.to_arrow()
    pyarrow = extras.load("pyarrow")
    try:
        if isinstance(frame, dict):
            return pyarrow.table(frame)
        if isinstance(frame, pyarrow.Table):
            return frame
        # Other libraries with tables that give their rows to Arrow.
        if not is_frame(frame) and hasattr(frame, "__arrow_c_stream__"):
            return pyarrow.table(frame)
        opened = _open(frame)
        # The index of a frame of pandas is not a column.
        return opened.to_arrow().select(opened.columns)
    except pyarrow.ArrowException as error:
        raise DataError(f"the frame cannot be read as a table: {one_line(error)}") from error


def write_parquet(table: pyarrow.Table, path: Path) -> Path:
    """Write a table for programs that read files; text of few different values is written as text."""
    parquet = extras.load("pyarrow.parquet")
    pyarrow = extras.load("pyarrow")
    plain = [
        field.with_type(field.type.value_type) if pyarrow.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    try:
        parquet.write_table(table.cast(pyarrow.schema(plain)), path)
    except pyarrow.ArrowException as error:
        raise DataError(f"the frame cannot be written as Parquet: {one_line(error)}") from error
    return path


class Tabular:
    """A result that is a table, too: `to_arrow`, `to_pandas` and `to_polars`."""

    def to_arrow(self) -> pyarrow.Table:
        """The result as an Arrow table."""
        raise NotImplementedError

    def to_pandas(self) -> pandas.DataFrame:
        """The result as a frame of pandas."""
        _require("pandas")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The result as a frame of polars."""
        frame: polars.DataFrame = _require("polars").from_arrow(self.to_arrow())
        return frame


def _open(frame: Any) -> Any:
    # An import of 50 ms that only frames need.
    import narwhals

    try:
        opened = narwhals.from_native(frame)
    except TypeError as error:
        raise DataError(
            f"expected a frame of pandas, polars or pyarrow, a relation of DuckDB, or a dictionary of "
            f"columns, not {type(frame).__name__}"
        ) from error
    return opened.collect() if isinstance(opened, narwhals.LazyFrame) else opened


def _require(name: str) -> Any:
    try:
        return extras.load(name)
    except ModuleNotFoundError as error:
        raise DataError(f"{name} is not installed: pip install {name}, or use to_arrow()") from error


def listed(names: Sequence[str]) -> str:
    """Names for a message, without those beyond the first few.

    >>> listed(["price", "age"])
    "'price', 'age'"
    """
    shown = ", ".join(map(repr, names[:MOST_LISTED]))
    return shown if len(names) <= MOST_LISTED else f"{shown} and {len(names) - MOST_LISTED} more"
