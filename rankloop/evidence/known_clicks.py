"""Whether scores know the clicks of a log: they then predict them better than relevance itself could.

With r_dh the clicks on document d in half h of the users, beyond those usual at their positions, and
everything relative to its mean over the documents of a query,

    T = (Σ w s r)² / Σ w s² − Σ w r_1 r_2

Both halves share what is lasting about a document, and not their noise: Σ w r_1 r_2 is all that scores can
explain that do not know these clicks (Cauchy and Schwarz). Scores that were learned from them explain their
noise, too.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata

from rankloop.evidence.attraction import fold_of
from rankloop.evidence.score_test import NEGLIGIBLE, CellGroups
from rankloop.statistics.impression_table import ImpressionTable
from rankloop.types import Float64

# Scores know the clicks if T is so many standard errors above 0.
KNOWN = 4.0
# Fewer queries do not tell how much they differ.
LEAST_QUERIES = 20


def know_clicks(table: ImpressionTable, scores: Float64) -> bool:
    """Whether scores predict the clicks of a log better than any that do not know them could.

    Args:
        table: the impressions.
        scores: float64, documents by their numbers in the table; NaN where there is none.
    """
    return any(excess(table, values) > KNOWN for values in (scores, rankdata(scores, nan_policy="omit")))


def excess(table: ImpressionTable, scores: Float64) -> float:
    """T in standard errors, over queries; −∞ if too few queries tell."""
    rows, count = table.rows, len(scores)
    fold = fold_of(table.unit)[rows.impression_of]
    usual = CellGroups(rows.position).residual(rows.amount)
    place = rows.document * 2 + fold
    shown = np.bincount(place, minlength=2 * count).reshape(-1, 2)
    clicks = np.bincount(place, usual, 2 * count).reshape(-1, 2)
    used = np.flatnonzero((shown > 0).all(axis=1) & np.isfinite(scores))
    query_of = np.zeros(count, np.int64)
    query_of[rows.document] = rows.query[rows.impression_of]
    if not len(used):
        return -np.inf
    _, query = np.unique(query_of[used], return_inverse=True)
    weight = shown[used].min(axis=1).astype(np.float64)

    def centred(values: Float64) -> Float64:
        sums = np.bincount(query, weight * values) / np.bincount(query, weight)
        return values - sums[query]

    first, second = (centred(clicks[used, half] / shown[used, half]) for half in (0, 1))
    score = centred(scores[used])
    lasting, own, square = (
        np.bincount(query, weight * part)
        for part in (first * second, score * (first + second) / 2.0, score**2)
    )
    if len(lasting) < LEAST_QUERIES or square.sum() <= NEGLIGIBLE:
        return -np.inf
    slope = own.sum() / square.sum()
    by_query = 2.0 * slope * own - slope**2 * square - lasting
    return float(by_query.sum() / np.sqrt((by_query**2).sum()))
