"""Frames of pandas, polars, Arrow and DuckDB: columns by their names, and results as frames."""

from __future__ import annotations

from collections.abc import Sequence
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


def feature_matrix(frame: Any, names: Sequence[str] | None) -> Float32:
    """Columns of a frame as a matrix, by their names: their order in the frame, and others, do not matter.

    Missing values become NaN.

    Args:
        frame: a frame; see `is_frame`.
        names: the columns, in the order of the matrix; None if they are not known.

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
        if not (kind.is_numeric() or str(kind) == "Boolean"):
            raise DataError(
                f"column {name!r} of the frame holds {kind}, and features are numbers: encode it as it was "
                f"in training"
            )
        result[:, place] = opened[name].to_numpy()
    return result


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
