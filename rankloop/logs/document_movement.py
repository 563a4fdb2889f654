"""How much the documents of a log moved between ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from rankloop.logs.counts import LogCounts
from rankloop.types import Int64


@dataclass(frozen=True)
class DocumentMovement:
    """How much documents moved between ranks, which is what tells position bias from relevance.

    Attributes:
        pairs: the number of documents of queries that were shown.
        pairs_moved: how many of them were shown at more than one rank.
        pair_clicks: about how many clicks compare ranks within such a pair: clicks at other ranks than its
            most frequent one.
        documents: the number of documents, whatever the query, that were shown.
        documents_moved: how many of them were shown at more than one rank.
        document_clicks: the same as ``pair_clicks``, for documents.
        ranks: the number of ranks that were counted.
    """

    pairs: int
    pairs_moved: int
    pair_clicks: int
    documents: int
    documents_moved: int
    document_clicks: int
    ranks: int

    @classmethod
    def of(cls, counts: LogCounts) -> Self:
        """How much the documents of a log moved."""
        _, documents = np.unique(counts.doc_ids, return_inverse=True)
        items = counts.cells.item.astype(np.int64)
        return cls(*_moved(counts, items), *_moved(counts, documents[items]), counts.ranks)


def _moved(counts: LogCounts, keys: Int64) -> tuple[int, int, int]:
    """How many keys were shown, how many at several ranks, and clicks at other ranks than the usual one."""
    cells, place = np.unique(keys * counts.ranks + counts.cells.rank, return_inverse=True)
    displays, clicks = (
        np.bincount(place, weights=counted, minlength=len(cells))
        for counted in (counts.cells.displays, counts.cells.clicks)
    )
    _, start = np.unique(cells // counts.ranks, return_index=True)
    sizes = np.diff(np.append(start, len(cells)))
    most = np.repeat(np.maximum.reduceat(displays, start), sizes) if len(cells) else displays
    # Of equally frequent ranks, only one is the usual one.
    beside = clicks.sum() - _clicks_at_usual(displays == most, clicks, start)
    return len(start), int((sizes > 1).sum()), int(beside)


def _clicks_at_usual(usual: np.ndarray, clicks: np.ndarray, start: Int64) -> float:
    if not len(start):
        return 0.0
    first = np.full(len(start), -1)
    owner = np.repeat(np.arange(len(start)), np.diff(np.append(start, len(usual))))
    places = np.flatnonzero(usual)[::-1]
    first[owner[places]] = places
    return float(clicks[first].sum())
