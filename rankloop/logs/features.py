"""The features of a log's items, in the order of its statistics: what a model is fitted to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs.feature_names import Names, match_features
from rankloop.logs.feature_tables import FeatureTable, feature_name
from rankloop.logs.folder import LogFolder
from rankloop.logs.schema import FEATURES, ITEM
from rankloop.types import Float32, Int64, Split, Str

PathLike = str | os.PathLike[str]


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


@dataclass(frozen=True, eq=False)
class LogFeatures:
    """The features of a log's items.

    Attributes:
        values: float32, items × features; NaN where a value is missing, and in the rows of items without
            features.
        known: bool, items; whether the item has features.
        names: the names of the features; None if they are stored as vectors.
        source: the table, for messages.
    """

    values: Float32
    known: NDArray[np.bool_]
    names: Names | None
    source: str

    @property
    def n_missing(self) -> int:
        """The number of missing values of items that have features."""
        return int(np.isnan(self.values[self.known]).sum())

    def name_missing(self, named: ItemNames) -> str:
        """The first missing value of an item that has features, in words."""
        item, column = map(int, np.argwhere(np.isnan(self.values) & self.known[:, None])[0])
        return f"{self.source}: {_pair(named, item)}: feature {feature_name(self.names, column)} is missing"


def read_features(log: LogFolder, named: ItemNames) -> LogFeatures:
    """The features of a log's items, in the order of its counts and statistics.

    Args:
        log: a log with a table of features.
        named: the counts or statistics of the log.

    Raises:
        DataError: the log has no features, an item has two rows, or a feature is infinite.
    """
    if not log.has(FEATURES):
        raise DataError(
            f"{log.folder}: the log has no {FEATURES}.parquet, which a model needs: import the log with "
            "--features TABLE, a table of query_id, doc_id and features, or of doc_id and features; or with "
            "--feature-columns auto, if the table of impressions has them"
        )
    values: Float32 | None = None
    rows_of = np.zeros(len(named.doc_ids), np.int64)
    for places, matrix in _matrices(log, named):
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
    return LogFeatures(values, rows_of > 0, read_feature_names(log), log.source(FEATURES))


def split_of_log(log: LogFolder, named: ItemNames) -> Split:
    """The log's items with their features, in the order of its statistics; all labels are 0: a log has none.

    Raises:
        DataError: the log has no features, an item has none or two rows, or a value is missing or infinite.
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


def why_unusable(log: LogFolder, named: ItemNames) -> str | None:
    """Why the features of a log's items cannot be used, apart from missing ones; None if they can."""
    rows_of = np.zeros(len(named.doc_ids), np.int64)
    try:
        for places, _ in _matrices(log, named):
            np.add.at(rows_of, places, 1)
        _refuse_repeated(rows_of, named, log)
    except DataError as error:
        return str(error)
    return None


def _matrices(log: LogFolder, named: ItemNames) -> Iterator[tuple[Int64, Float32]]:
    """The features of the items, batch by batch, with the number of each item.

    A feature that a file does not have is missing in all of its rows.
    """
    queries = np.repeat(named.query_ids, np.diff(named.offsets))
    keys = item_keys(pa.array(queries.tolist()), pa.array(named.doc_ids.tolist()))
    names, width = read_feature_names(log), None
    for path in log.files(FEATURES):
        table = FeatureTable(path)
        for rows in table.rows():
            items = pc.index_in(item_keys(*(rows.ids[name] for name in ITEM)), value_set=keys)
            wanted = items.is_valid()
            places = items.filter(wanted).to_numpy()
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


def item_keys(queries: pa.Array, documents: pa.Array) -> pa.Array:
    """One string per pair; the length in front tells where the query's id ends."""
    lengths = pc.binary_length(queries).cast(pa.string())
    return pc.binary_join_element_wise(lengths, queries, documents, ":")


def as_feature_paths(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """One path or several, as a list."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    return [Path(path) for path in given]


def _refuse_repeated(rows_of: Int64, named: ItemNames, log: LogFolder) -> None:
    items = np.flatnonzero(rows_of > 1)
    if len(items):
        raise DataError(
            f"{log.source(FEATURES)}: more than one row for {_pair(named, int(items[0]))} ({len(items)} of "
            f"{len(rows_of)} documents in total): every document of a query has at most one row"
        )


def _pair(named: ItemNames, item: int) -> str:
    query = int(np.searchsorted(named.offsets, item, side="right")) - 1
    return f"query {str(named.query_ids[query])!r}, document {str(named.doc_ids[item])!r}"
