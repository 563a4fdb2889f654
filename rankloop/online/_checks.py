"""Validate impressions before they are passed to kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankloop.clicks import Impressions
from rankloop.errors import DataError
from rankloop.policies.plackett_luce import check_scores
from rankloop.types import Float64, Int64, as_whole_numbers


def check_log(log: Impressions, offsets: Int64) -> Impressions:
    """Convert a log to the arrays that kernels expect; raise an error that names an invalid impression."""
    queries = as_whole_numbers(log.queries, "queries")
    # Kernels take them as int32; a number that does not fit is found before it is cast.
    rankings = as_whole_numbers(log.rankings, "rankings")
    clicks = np.ascontiguousarray(log.clicks, dtype=np.bool_)
    if queries.ndim != 1 or rankings.ndim != 2 or len(rankings) != len(queries):
        raise DataError(
            "a log needs one query and one ranking of document numbers per impression, "
            f"got shapes {queries.shape} and {rankings.shape}"
        )
    if clicks.shape != rankings.shape:
        raise DataError(
            f"clicks must have the shape of the rankings, got {clicks.shape} and {rankings.shape}"
        )
    n_queries = len(offsets) - 1
    _reject((queries < 0) | (queries >= n_queries), f"the query must be between 0 and {n_queries - 1}")
    sizes = np.diff(offsets)[queries][:, None]
    _reject(((rankings < -1) | (rankings >= sizes)).any(axis=1), "no such document in the query")
    _reject(((rankings[:, :-1] < 0) & (rankings[:, 1:] >= 0)).any(axis=1), "a document below an empty rank")
    in_order = np.sort(rankings, axis=1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    _reject(repeated.any(axis=1), "a document is shown twice")
    _reject((clicks & (rankings < 0)).any(axis=1), "a click at an empty rank")
    return Impressions(queries, rankings.astype(np.int32), clicks)


def check_impression(
    ranking: ArrayLike, clicks: ArrayLike, n_documents: int
) -> tuple[Int64, NDArray[np.bool_]]:
    """Validate one ranking and its clicks, and strip empty ranks."""
    shown = np.asarray(ranking)
    if shown.ndim != 1 or (shown.size and shown.dtype.kind not in "iu"):
        raise DataError(f"a ranking must be a list of document numbers, got {ranking!r}")
    log = Impressions(np.zeros(1, np.int64), shown[None], np.asarray(clicks)[None])
    checked = check_log(log, np.array([0, n_documents]))
    length = int((shown >= 0).sum())
    return checked.rankings[0, :length].astype(np.int64), checked.clicks[0, :length]


def check_query_scores(scores: ArrayLike, ranking: Int64, n_documents: int) -> Float64:
    """Validate the scores of one query's documents; the documents in the ranking must have finite scores."""
    if np.shape(scores) != (n_documents,):
        raise DataError(f"{n_documents} documents need {n_documents} scores, got shape {np.shape(scores)}")
    flat = check_scores(scores, np.array([0, n_documents]))
    if (flat[ranking] == -np.inf).any():
        raise DataError("the ranking contains a document with the score -inf, which is never shown")
    return flat


def check_logging(logging: ArrayLike | None, offsets: Int64) -> Float64:
    """Validate the scores of the logging policy for all documents; empty for None, the learned policy."""
    if logging is None:
        return np.empty(0)
    array = np.asarray(logging)
    if array.dtype.kind not in "fiu" or array.shape != (offsets[-1],):
        raise DataError(
            f"logging must be the scores of all {offsets[-1]} documents under the logging policy, such as "
            f"queries.scores(model), or None; got {type(logging).__name__} of shape {array.shape}"
        )
    return check_scores(array, offsets)


def _reject(bad: ArrayLike, reason: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        raise DataError(f"impression number {rows[0]}: {reason} ({len(rows)} such impressions in total)")
