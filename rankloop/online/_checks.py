"""What interactions must be like before a kernel may have them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankloop.clicks import Impressions
from rankloop.errors import DataError
from rankloop.policies.plackett_luce import check_scores
from rankloop.types import Float64, Int64


def check_log(log: Impressions, offsets: Int64) -> Impressions:
    """The same interactions as kernels take them; refused with their number if they do not fit."""
    queries = np.ascontiguousarray(log.queries, dtype=np.int64)
    rankings = np.ascontiguousarray(log.rankings, dtype=np.int32)
    clicks = np.ascontiguousarray(log.clicks, dtype=np.bool_)
    if queries.ndim != 1 or rankings.ndim != 2 or len(rankings) != len(queries):
        raise DataError(
            "an interaction is a query and its ranking, by the items' positions, "
            f"got shapes {queries.shape} and {rankings.shape}"
        )
    if clicks.shape != rankings.shape:
        raise DataError(f"one click or none a rank: got {clicks.shape} clicks for {rankings.shape} ranks")
    n_queries = len(offsets) - 1
    _refuse((queries < 0) | (queries >= n_queries), f"there are {n_queries} queries")
    sizes = np.diff(offsets)[queries][:, None]
    _refuse(((rankings < -1) | (rankings >= sizes)).any(axis=1), "no such item in the query")
    _refuse(((rankings[:, :-1] < 0) & (rankings[:, 1:] >= 0)).any(axis=1), "an item below an empty rank")
    in_order = np.sort(rankings, axis=1)
    repeated = (in_order[:, 1:] == in_order[:, :-1]) & (in_order[:, 1:] >= 0)
    _refuse(repeated.any(axis=1), "an item is shown twice")
    _refuse((clicks & (rankings < 0)).any(axis=1), "a click where nothing was shown")
    return Impressions(queries, rankings, clicks)


def check_interaction(ranking: ArrayLike, clicks: ArrayLike, n_items: int) -> tuple[Int64, NDArray[np.bool_]]:
    """One ranking and its clicks, without the ranks at which nothing was shown."""
    shown = np.asarray(ranking)
    if shown.ndim != 1 or (shown.size and shown.dtype.kind not in "iu"):
        raise DataError(f"a ranking is a list of the items' positions, got {ranking!r}")
    log = Impressions(np.zeros(1, np.int64), shown[None], np.asarray(clicks)[None])
    checked = check_log(log, np.array([0, n_items]))
    length = int((shown >= 0).sum())
    return checked.rankings[0, :length].astype(np.int64), checked.clicks[0, :length]


def check_query_scores(scores: ArrayLike, ranking: Int64, n_items: int) -> Float64:
    """The scores of one query's items; those in the ranking must be such that they can be shown."""
    if np.shape(scores) != (n_items,):
        raise DataError(f"{n_items} items need as many scores, got shape {np.shape(scores)}")
    flat = check_scores(scores, np.array([0, n_items]))
    if (flat[ranking] == -np.inf).any():
        raise DataError("an item with the score -inf is never shown, but it is in the ranking")
    return flat


def check_logging(logging: ArrayLike | None, offsets: Int64) -> Float64:
    """Scores of the policy that logs, of all items; empty for None, which is the learned policy itself."""
    if logging is None:
        return np.empty(0)
    array = np.asarray(logging)
    if array.dtype.kind not in "fiu" or array.shape != (offsets[-1],):
        raise DataError(
            f"logging: give the scores of all {offsets[-1]} documents under the policy that logs, such as "
            f"queries.scores(model), or None; got {type(logging).__name__} of shape {array.shape}"
        )
    return check_scores(array, offsets)


def _refuse(bad: ArrayLike, why: str) -> None:
    rows = np.flatnonzero(bad)
    if len(rows):
        raise DataError(f"interaction number {rows[0]}: {why} ({len(rows)} such interactions in all)")
