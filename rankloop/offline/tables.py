"""Tables of scores that were computed elsewhere, and of a log's candidates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from rankloop.errors import DataError
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.logs.features import ItemNames, item_keys
from rankloop.logs.parquet_file import PARQUET_ERRORS, checked_batches, parquet_footer
from rankloop.logs.schema import CANDIDATES, COLUMNS, ITEM, check_columns
from rankloop.types import Float64, Int64

POLICY, SCORE = "policy_id", "score"
# The key of a Parquet file of scores under which the fingerprint of their log stands.
LOG_KEY = b"rankloop.log"
ROWS_PER_BATCH = 1_000_000
# The formats that rankings are written in.
RANKING_TEXTS = ("tsv", "jsonl", "trec")
RANKING_FORMATS = (*RANKING_TEXTS, "parquet")
# How the file name of a table ends.
TABLE_ENDINGS = (".parquet", ".csv", ".csv.gz")


class DocumentScores(NamedTuple):
    """Scores of documents; all arrays have the same length.

    Attributes:
        query_ids: text.
        doc_ids: text.
        scores: float64.
    """

    query_ids: pa.Array
    doc_ids: pa.Array
    scores: Float64


class ItemIndex:
    """Finds the numbers of a log's documents and queries by their ids.

    Example:
        >>> class ItemNames:
        ...     query_ids, doc_ids = np.array(["cat", "dog"]), np.array(["x", "y", "x"])
        ...     offsets = np.array([0, 2, 3])
        >>> index = ItemIndex(ItemNames())
        >>> index.items(pa.array(["dog", "cat", "cat"]), pa.array(["x", "y", "z"]))
        array([ 2,  1, -1])
        >>> index.queries(pa.array(["dog", "bird"]))
        array([ 1, -1])
    """

    def __init__(self, named: ItemNames) -> None:
        queries = np.repeat(named.query_ids, np.diff(named.offsets))
        self._items = item_keys(pa.array(queries.tolist()), pa.array(named.doc_ids.tolist()))
        self._queries = pa.array(named.query_ids.tolist())

    def items(self, query_ids: pa.Array, doc_ids: pa.Array) -> Int64:
        """The number of each document's item; -1 for a document that is not in the log."""
        return _numbers(pc.index_in(item_keys(query_ids, doc_ids), value_set=self._items))

    def queries(self, query_ids: pa.Array) -> Int64:
        """The number of each query; -1 for one that is not in the log."""
        return _numbers(pc.index_in(query_ids, value_set=self._queries))


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a table, by the end of its name.

    >>> is_table("scores.csv.gz"), is_table("new.rankloop")
    (True, False)
    """
    return Path(path).name.endswith(TABLE_ENDINGS)


def read_scores(path: str | os.PathLike[str]) -> DocumentScores:
    """Read a table of scores: query_id, doc_id, score."""
    place = Path(path)
    return _check(_to_scores(place, [_read(place)]), str(place))


def source_of_scores(path: str | os.PathLike[str]) -> str | None:
    """The fingerprint of the log that a table of scores was computed from; None if it is not known."""
    if not Path(path).name.endswith(".parquet"):
        return None
    try:
        found = parquet_footer(Path(path))[1].get(LOG_KEY)
    except PARQUET_ERRORS as error:
        raise DataError(f"{path}: the scores cannot be read ({error})") from error
    return None if found is None else found.decode(errors="replace")


def read_candidates(parts: Sequence[Path], policy: str) -> DocumentScores:
    """Read the scores that one policy of a log gave to its candidates."""
    tables = []
    for part in parts:
        table = _read(part)
        ids = table[POLICY].cast(pa.string())
        tables.append(table.filter(pc.equal(ids, policy)))
    return _check(_to_scores(parts[0], tables), f"{CANDIDATES} of policy {policy!r}")


def _read(path: Path) -> pa.Table:
    try:
        if path.name.endswith(".parquet"):
            schema, _, _ = parquet_footer(path)
            kept = pa.schema([field for field in schema if field.name in COLUMNS[CANDIDATES]])
            return pa.Table.from_batches(checked_batches(path, ROWS_PER_BATCH, kept.names), kept)
        # Ids are text: 007 is not 7.
        as_text = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(ITEM, pa.string()))
        table = pyarrow.csv.read_csv(path.absolute(), convert_options=as_text)
        # Arrow decodes the names of columns when they are asked for.
        return table.rename_columns(table.column_names)
    except PARQUET_ERRORS as error:
        raise DataError(f"{path}: the scores cannot be read ({error})") from error


def _to_scores(path: Path, tables: list[pa.Table]) -> DocumentScores:
    for table in tables:
        # A table of scores is a table of candidates of a single policy, which needs no name.
        schema = table.schema
        if POLICY not in schema.names:
            schema = schema.append(pa.field(POLICY, pa.string()))
        check_columns(schema, CANDIDATES, str(path))
    columns = [pa.concat_tables([t.select([name]) for t in tables])[name] for name in (*ITEM, SCORE)]
    query_ids, doc_ids = (column.cast(pa.string()).combine_chunks() for column in columns[:2])
    scores = columns[2].cast(pa.float64()).to_numpy().astype(np.float64)
    return DocumentScores(query_ids, doc_ids, scores)


def _check(scored: DocumentScores, where: str) -> DocumentScores:
    if scored.query_ids.null_count or scored.doc_ids.null_count:
        raise DataError(f"{where}: a row has no query_id or no doc_id; every row needs both")
    # Written so that NaN counts as bad.
    bad = np.flatnonzero(~((np.abs(scored.scores) <= LARGEST_SCORE) | (scored.scores == -np.inf)))
    if len(bad):
        raise DataError(
            f"{where}: {_pair(scored, bad[0])}: the score is {scored.scores[bad[0]]}; scores are finite and "
            f"within ±{LARGEST_SCORE:g}, or -inf for documents that are never shown ({len(bad)} bad scores "
            f"in total)"
        )
    repeated = find_repeated(scored.query_ids, scored.doc_ids)
    if repeated is not None:
        raise DataError(f"{where}: {_pair(scored, repeated)}: it has more than one score")
    return scored


def find_repeated(query_ids: pa.Array, doc_ids: pa.Array) -> int | None:
    """The first row whose query and document are those of an earlier row; None if all differ."""
    codes = item_keys(query_ids, doc_ids).dictionary_encode().indices.to_numpy()
    seen, first = np.unique(codes, return_index=True)
    if len(seen) == len(codes):
        return None
    again = np.ones(len(codes), np.bool_)
    again[first] = False
    return int(np.flatnonzero(again)[0])


def _pair(scored: DocumentScores, row: int) -> str:
    return f"query {scored.query_ids[int(row)].as_py()!r}, document {scored.doc_ids[int(row)].as_py()!r}"


def _numbers(found: pa.Array) -> Int64:
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]
