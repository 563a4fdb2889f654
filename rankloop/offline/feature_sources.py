"""Where the features of documents to be ranked come from: logs, and tables of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from rankloop.errors import DataError
from rankloop.logs import LogReader
from rankloop.logs.feature_join import JoinedFeatures
from rankloop.logs.features import PathLike, as_feature_paths
from rankloop.logs.folder import open_folder
from rankloop.logs.schema import FEATURES, IMPRESSIONS, ITEM
from rankloop.offline.tables import TABLE_ENDINGS, is_table


def open_features(paths: PathLike | Sequence[PathLike]) -> JoinedFeatures:
    """The features of queries and documents in these places.

    Args:
        paths: the folder of a log, a table of query_id, doc_id and features (a file, or a folder of Parquet
            files), a table of doc_id and features, or one of the first two and the last. A log without
            features of its own tells which documents belong to which query.
    """
    places = as_feature_paths(paths)
    if not places:
        raise DataError("there is nothing to rank: give the folder of a log, or a table of features")
    files = [file for place in places for file in _files(place)]
    logs = [place for place in places if (place / f"{IMPRESSIONS}.parquet").exists()]
    if not files:
        raise DataError(
            f"{logs[0]}: the log has no {FEATURES}.parquet: give a table of features as well, or import the "
            f"log with --features"
        )
    return JoinedFeatures(files, _pairs(logs[0]) if logs else None)


def _files(place: Path) -> list[Path]:
    own = place / f"{FEATURES}.parquet"
    if (place / f"{IMPRESSIONS}.parquet").exists() and not own.exists():
        return []
    folder = own if own.exists() else place
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else [folder]
    if not files:
        raise DataError(f"{folder} has no features: expected {FEATURES}.parquet or other Parquet files in it")
    for file in files:
        if not file.exists():
            raise DataError(f"{file} does not exist: expected a log's folder, or a table of features")
        if not is_table(file):
            raise DataError(f"{file} is not a table: its name must end in {', '.join(TABLE_ENDINGS)}")
    return files


def _pairs(place: Path) -> Iterator[pa.RecordBatch]:
    """The queries and documents of a log."""
    folder = open_folder(place)
    counts = LogReader(folder.folder, folder.tables, folder.starts).count(1)
    queries = np.repeat(counts.query_ids, np.diff(counts.offsets))
    columns = [pa.array(ids.tolist(), pa.string()) for ids in (queries, counts.doc_ids)]
    yield pa.record_batch(columns, names=list(ITEM))
