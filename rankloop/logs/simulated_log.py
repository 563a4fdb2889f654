"""Simulated impressions as a log, in the same files as real ones."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs.schema import CANDIDATES, FEATURES, IMPRESSIONS
from rankloop.logs.writer import LogWriter
from rankloop.policies.plackett_luce import check_scores
from rankloop.ragged import segment_index
from rankloop.types import Float64, Int64, Split

# Simulated impressions happen ten times per second, from the beginning of a year.
BEGINNING = np.datetime64("2020-01-01T00:00:00", "us")
BETWEEN = np.timedelta64(100_000, "us")


class ShownAndClicked(Protocol):
    """What `rankloop.clicks.gather_log` returns: queries, and documents shown and clicked by position."""

    @property
    def queries(self) -> Int64:
        """int64, impressions; the number of the query."""
        ...

    @property
    def rankings(self) -> NDArray[np.int32]:
        """int32, impressions × ranks; documents by their number within the query, -1 where there is none."""
        ...

    @property
    def clicks(self) -> NDArray[np.bool_]:
        """bool, impressions × ranks."""
        ...


@dataclass(frozen=True, eq=False)
class PolicyTraffic:
    """The impressions that one policy gathered.

    Attributes:
        policy: its id.
        scores: documents; what the policy draws its rankings from.
        impressions: what `rankloop.clicks.gather_log` returned.
    """

    policy: str
    scores: object
    impressions: ShownAndClicked


def write_simulated(
    folder: str | os.PathLike[str],
    split: Split,
    gathered: Iterable[PolicyTraffic],
    *,
    features: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write simulated impressions as a log, part by part.

    Documents without ids get their number within the query, from 0, as an id. Labels are not written: a
    real log has none.

    Args:
        folder: the folder of the log.
        split: the queries that were simulated.
        gathered: the traffic, in the order of time; a policy may appear again with the same scores.
        features: whether to write the table of features.
        overwrite: whether an existing log may be replaced.

    Example:
        >>> import tempfile
        >>> from rankloop.clicks import gather_log, users
        >>> split = Split.build(np.eye(3), [0, 1, 0], sizes=[2, 1])
        >>> scores = np.zeros(3)
        >>> log = gather_log(
        ...     scores, split.offsets, split.labels, users("position@2"), 10, np.random.default_rng(0)
        ... )
        >>> with tempfile.TemporaryDirectory() as place:
        ...     folder = write_simulated(Path(place) / "log", split, [PolicyTraffic("first", scores, log)])
        ...     sorted(child.name for child in folder.iterdir())
        ['candidates.parquet', 'checksums.json', 'features.parquet', 'impressions.parquet']
    """
    names = _Names(split)
    scores_of: dict[str, Float64] = {}
    with LogWriter(folder, overwrite=overwrite) as writer:
        writer.starts = True
        if features:
            matrix = pa.FixedSizeListArray.from_arrays(pa.array(split.features.ravel()), split.n_features)
            writer.write(FEATURES, {**names.of_all(), "features": matrix})
        written = 0
        for part in gathered:
            scores = check_scores(part.scores, split.offsets)
            if part.policy not in scores_of:
                scores_of[part.policy] = scores
                policy = pa.array([part.policy]).take(pa.array(np.zeros(split.n_documents, np.int32)))
                writer.write(CANDIDATES, {"policy_id": policy, **names.of_all(), "score": scores})
            elif not np.array_equal(scores_of[part.policy], scores):
                raise DataError(
                    f"policy {part.policy!r} has two sets of scores: give the second set another id"
                )
            writer.write(IMPRESSIONS, _rows(part, names, written))
            written += len(part.impressions.queries)
        if not written:
            raise DataError("there are no impressions to write: simulate at least one")
    return writer.folder


class _Names:
    """Ids of queries and documents, as dictionaries that rows refer to."""

    def __init__(self, split: Split) -> None:
        self.offsets = split.offsets
        self.query_ids = pa.array(split.query_ids.tolist())
        query = segment_index(split.offsets)
        positions = np.arange(split.n_documents) - split.offsets[query]
        doc_ids = positions.astype(np.str_) if split.doc_ids is None else split.doc_ids
        self.doc_ids = pa.array(doc_ids.tolist())
        self.query_of = query

    def of_all(self) -> dict[str, pa.Array]:
        return {
            "query_id": _coded(self.query_of, self.query_ids),
            "doc_id": self.doc_ids,
        }


def _rows(part: PolicyTraffic, names: _Names, first: int) -> dict[str, pa.Array]:
    queries, rankings = part.impressions.queries, part.impressions.rankings
    if len(queries) and (rankings[:, 0] < 0).any():
        raise DataError(f"policy {part.policy!r}: an impression that shows nothing cannot be logged")
    number, rank = np.nonzero(rankings >= 0)
    ids = pa.array(np.arange(first, first + len(queries))).cast(pa.string())
    times = BEGINNING + (first + number) * BETWEEN
    return {
        "impression_id": _coded(number, ids),
        "timestamp": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        "query_id": _coded(queries[number], names.query_ids),
        "policy_id": _coded(np.zeros(len(number)), pa.array([part.policy])),
        "position": pa.array((rank + 1).astype(np.int32)),
        "doc_id": _coded(names.offsets[queries[number]] + rankings[number, rank], names.doc_ids),
        "clicked": pa.array(part.impressions.clicks[number, rank]),
    }


def _coded(codes: NDArray[np.generic], values: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), values)
