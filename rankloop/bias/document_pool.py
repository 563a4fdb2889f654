"""Pool the displays of a document over all queries, if that does not confuse rank and relevance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rankloop.bias.bias_estimate import BiasEstimate
from rankloop.bias.rank_counts import RankCounts
from rankloop.errors import DataError
from rankloop.logs import LogCounts

# Pooling is checked if pairs were shown again this often; otherwise the check would be too noisy.
MIN_REPEATS = 100
# The smallest variance of the rank within pairs, relative to that within documents. A document that keeps its
# rank in a query, and has another in the next, was placed there by what the ranker knows about the query.
MIN_SHARE = 0.5


def estimate_from_documents(
    counts: LogCounts, estimate: Callable[[RankCounts], BiasEstimate], *, forced: bool = False
) -> BiasEstimate:
    """Estimate from the counts by document, with notes on what pooling assumes.

    Args:
        counts: the counts of the log.
        estimate: the estimate from counts by item.
        forced: whether to estimate even if pooling confuses rank and relevance; a note then says so.

    Raises:
        DataError: documents change rank between queries, but not within a query: the ranker places them by
            query, so the rank says how relevant they are to the query.
    """
    pooled = RankCounts.of(counts, unit="documents")
    pairs = RankCounts.of(counts)
    if pooled.n_items == pairs.n_items:
        return estimate(pooled)
    variance, repeats = _rank_variance(pairs)
    if repeats < MIN_REPEATS:
        found = estimate(pooled)
        again = f"only {repeats:,.0f} times" if repeats else "never"
        note = (
            "Documents are pooled over queries. It cannot be checked whether a document is equally relevant "
            f"to all queries that show it: pairs of query and document were {again} shown again. In a log of "
            "searches, where the ranker knows the query, ranks would look more different than they are; in a "
            "log without queries (recommendations, browse pages) this does not arise."
        )
        return replace(found, notes=(note, *found.notes))
    share = variance / max(_rank_variance(pooled)[0], 1e-12)
    note = (
        f"Documents are pooled over queries: the variance of a document's rank within a query is {share:.0%} "
        f"of that over all queries, so its rank depends little on the query."
    )
    if share < MIN_SHARE:
        note = (
            f"documents change rank between queries much more than within a query (the variance of the rank "
            f"within a query is {share:.0%} of that over all queries, and {MIN_SHARE:.0%} is needed), so the "
            f"ranker places them by query, and pooling them would mistake relevance for bias"
        )
        if not forced:
            raise DataError(note)
        note = f"Do not rely on this estimate: {note}."
    found = estimate(pooled)
    return replace(found, notes=(note, *found.notes))


def _rank_variance(shown: RankCounts) -> tuple[float, float]:
    """Variance of the rank within items, and how often items were shown again."""
    displays = shown.by_item(shown.displays)
    mean = shown.by_item(shown.displays * shown.rank) / displays
    squares = float((shown.displays * (shown.rank - mean[shown.item_of]) ** 2).sum())
    repeats = float((displays - 1.0).sum())
    return squares / max(repeats, 1.0), repeats
