"""What else a list shows, and whether queries differ in their position curves: inputs of the self-test."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from rankloop.evidence.score_test import NEGLIGIBLE, CellGroups, combine
from rankloop.statistics.counts import ImpressionTable
from rankloop.types import Bias, Float64, Int64

# Attractiveness is shrunk to 1 as if each document had so many expected clicks more, which it got.
SHRINKAGE = 2.0
# Constants of a mixing function of 64 bits: consecutive numbers get folds as if by a fair coin.
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
# A rank whose clicks hardly depend on relevance says nothing about relevance.
LEAST_ALPHA = 0.01

# Reference: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.


def fold_of(unit: Int64) -> Int64:
    """The fold of each unit, 0 or 1: a hash of its number, the same for every order of the rows.

    >>> fold_of(np.arange(8))
    array([1, 1, 0, 1, 0, 0, 0, 1])
    """
    code = unit.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    code = (code ^ (code >> np.uint64(30))) * FIRST_FACTOR
    code = (code ^ (code >> np.uint64(27))) * SECOND_FACTOR
    return ((code ^ (code >> np.uint64(31))) & np.uint64(1)).astype(np.int64)


class Surroundings(NamedTuple):
    """What surrounds each row.

    Attributes:
        above: float64, rows; the attractiveness of the documents above, minus what it would be if the others
            were in random order: their total · k / (L − 1), with k documents above.
        others: float64, rows; the total attractiveness of all other documents of the list.
    """

    above: Float64
    others: Float64


def surroundings(table: ImpressionTable) -> Surroundings:
    """Compute what surrounds each row.

    Attractiveness is clicks over expected clicks, by document, from the units of the other fold: a row's own
    clicks are not in it.

    Args:
        table: the impressions.
    """
    rows = table.rows
    fold = fold_of(table.unit)[rows.impression_of]
    document = combine(rows.document)
    count = int(document.max(initial=-1)) + 1
    expected = CellGroups(fold, rows.position).mean(rows.amount)
    place = fold * count + document
    clicks, usual = (np.bincount(place, values, 2 * count) for values in (rows.amount, expected))
    attractiveness = (clicks + SHRINKAGE) / (usual + SHRINKAGE)
    mine = attractiveness[(1 - fold) * count + document]
    before = np.cumsum(mine) - mine
    impression, starts = rows.impression_of, rows.offsets[:-1]
    # Impressions without rows begin where another one begins, or at the end.
    start = np.append(before, before[-1:] + mine[-1:])[starts]
    total = np.bincount(impression, mine, len(rows))[impression]
    size = np.diff(rows.offsets)[impression]
    others = total - mine
    rank = np.arange(len(document)) - starts[impression]
    usual_above = others * rank / np.maximum(size - 1, 1)
    return Surroundings(before - start[impression] - usual_above, others)


class CurveContrasts(NamedTuple):
    """How much more relevant the documents of a query seem at a rank than at others, in two halves of users.

    Attributes:
        query: int64, contrasts.
        product: float64, contrasts; the product of both halves, each in standard errors.
        scale: float64, contrasts; the product of the precisions, so that ``Σ product / Σ scale`` is the mean
            square of the relative difference in clicks.
        clicks: how many clicks they come from.
    """

    query: Int64
    product: Float64
    scale: Float64
    clicks: float


def curve_contrasts(table: ImpressionTable, bias: Bias) -> CurveContrasts:
    """Compare relevance between ranks, query by query, in two halves of the units.

        D_qkh = Σ_d u_d ((c_dkh − β_k) / α_k − the same of d at other ranks) / Σ_d u_d

    u is the precision of the difference. If all queries have the position curve of the bias, D has mean 0,
    up to an error of the bias that all queries share, which is subtracted; D of both halves are independent.

    Args:
        table: the impressions.
        bias: how users click.
    """
    rows = table.rows
    known = np.append(bias.alpha >= LEAST_ALPHA, False)
    use = known[np.minimum(rows.position, bias.positions)]
    impression = rows.impression_of[use]
    position, clicked, half = rows.position[use], rows.amount[use], fold_of(table.unit)[impression]
    query = rows.query[impression]
    # In recommendation logs, one document has many queries.
    document = combine(rows.document[use], query)
    cells = CellGroups(document, half, position)
    first = _first_of(cells.index, len(cells.size))
    rate = np.bincount(cells.index, clicked) / cells.size
    k, h, q = position[first], half[first], query[first]
    # One click more and one row without a click more: no rank is certain.
    by_rank = (np.bincount(position, clicked, bias.positions) + 1.0) / (
        np.bincount(position, None, bias.positions) + 2
    )
    usual = by_rank[k]
    relevance = (rate - bias.beta[k]) / bias.alpha[k]
    weight = cells.size * bias.alpha[k] ** 2 / (usual * (1.0 - usual))
    documents = CellGroups(document[first], h)
    all_weight, all_sum = (
        np.bincount(documents.index, values)[documents.index] for values in (weight, weight * relevance)
    )
    rest = all_weight - weight
    # A document at one rank alone says nothing.
    compared = documents.size[documents.index] > 1
    apart = np.where(
        compared, relevance - (all_sum - weight * relevance) / np.where(compared, rest, 1.0), 0.0
    )
    precision = np.where(compared, weight * rest / all_weight, 0.0)
    pairs = CellGroups(q, k)
    places = _first_of(pairs.index, len(pairs.size))
    ranks = k[places]
    spots = pairs.index * 2 + h
    sums, total = (
        np.bincount(spots, values, 2 * len(places)).reshape(-1, 2)
        for values in (precision * apart, precision)
    )
    both = (total > 0.0).all(axis=1)
    sums, total, ranks = sums[both], total[both], ranks[both]
    shared, all_total = (
        np.stack([np.bincount(ranks, values[:, side], bias.positions) for side in (0, 1)], axis=1)[ranks]
        for values in (sums, total)
    )
    contrast = sums / total - shared / all_total
    root = np.sqrt(total[:, 0] * total[:, 1])
    per_click = by_rank[ranks] / bias.alpha[ranks]
    return CurveContrasts(
        q[places][both], root * contrast[:, 0] * contrast[:, 1], root * per_click**2, float(clicked.sum())
    )


def _first_of(index: Int64, count: int) -> NDArray[np.int64]:
    """A row of each group."""
    first = np.zeros(count, np.int64)
    first[index[::-1]] = np.arange(len(index))[::-1]
    return first


# Scores know the clicks if T is so many standard errors above 0.
KNOWN = 4.0
# Fewer queries do not tell how much they differ.
LEAST_QUERIES = 20


def know_clicks(table: ImpressionTable, scores: Float64, *, before: float | None = None) -> bool:
    """Whether scores predict the clicks of a log better than any that do not know them could.

    Args:
        table: the impressions.
        scores: float64, documents by their numbers in the table; NaN where there is none.
        before: only impressions before this time, in seconds since 1970; None for all.
    """
    return any(
        excess(table, values, before=before) > KNOWN
        for values in (scores, rankdata(scores, nan_policy="omit"))
    )


def excess(table: ImpressionTable, scores: Float64, *, before: float | None = None) -> float:
    """T in standard errors, over queries; −∞ if too few queries tell."""
    rows, count = table.rows, len(scores)
    impression = rows.impression_of
    chosen: NDArray[np.int64] | slice = slice(None)
    if before is not None:
        if table.time is None:
            return -np.inf
        chosen = np.flatnonzero(table.time[impression] < before)
    document, amount = rows.document[chosen], rows.amount[chosen]
    usual = CellGroups(rows.position[chosen]).residual(amount)
    place = document * 2 + fold_of(table.unit)[impression[chosen]]
    shown = np.bincount(place, minlength=2 * count).reshape(-1, 2)
    clicks = np.bincount(place, usual, 2 * count).reshape(-1, 2)
    used = np.flatnonzero((shown > 0).all(axis=1) & np.isfinite(scores))
    query_of = np.zeros(count, np.int64)
    query_of[document] = rows.query[impression[chosen]]
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
