"""Metrics of a whole split: means over its queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from rankloop.errors import DataError
from rankloop.evaluation.base import Metric, metric
from rankloop.types import Float64, Split


def ranking_metrics(
    scores: ArrayLike, split: Split, metrics: Iterable[str | Metric] = ("ndcg@5",)
) -> dict[str, float]:
    """The mean of each metric when the documents are ranked by descending score.

    Args:
        scores: one a document of the split; equal scores keep the order of the documents.
        split: the queries, with labels.
        metrics: names or metrics.

    Returns:
        One number by the canonical name of each metric. Queries that a metric skips do not count.

    Example:
        >>> split = Split.build(np.zeros((3, 1)), labels=[0, 1, 1], sizes=[2, 1])
        >>> ranking_metrics([2.0, 1.0, 1.0], split, ["mrr", "precision@2"])
        {'mrr': 0.75, 'precision@2': 0.5}
    """
    return _means(lambda m: m.of_ranking(scores, split.labels, split.offsets), metrics)


def policy_metrics(
    scores: ArrayLike, split: Split, metrics: Iterable[str | Metric] = ("ndcg@5",)
) -> dict[str, float]:
    """The mean of each metric's exact expectation under the Plackett–Luce policy with these scores.

    Args:
        scores: one log-weight a document of the split.
        split: the queries, with labels.
        metrics: names or metrics.

    Returns:
        One number by the canonical name of each metric. Queries that a metric skips do not count.

    Example:
        >>> split = Split.build(np.zeros((3, 1)), labels=[0, 1, 1], sizes=[2, 1])
        >>> round(policy_metrics([2.0, 1.0, 1.0], split, ["arp"])["arp"], 4)
        1.3655
    """
    return _means(lambda m: m.of_policy(scores, split.labels, split.offsets), metrics)


def _means(values: Callable[[Metric], Float64], metrics: Iterable[str | Metric]) -> dict[str, float]:
    # One name is text, and text is an iterable of letters.
    several = (metrics,) if isinstance(metrics, str) else metrics
    chosen = [metric(m) if isinstance(m, str) else m for m in several]
    return {str(m): _mean(values(m), str(m)) for m in chosen}


def _mean(values: Float64, name: str) -> float:
    counted = values[~np.isnan(values)]
    if len(counted) == 0:
        raise DataError(
            f"{name!r} has no mean: none of the {len(values)} queries has a relevant document, and such "
            f"queries are skipped"
        )
    return float(counted.mean())
