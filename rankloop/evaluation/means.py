"""Mean metrics over the queries of a split."""

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
    """Compute the mean of each metric for the ranking by descending score.

    Args:
        scores: documents; equal scores keep document order.
        split: the queries, with labels.
        metrics: metrics or their names.

    Returns:
        The mean of each metric by its canonical name. Queries that a metric skips do not count.

    Example:
        >>> split = Split.build(np.zeros((3, 1)), labels=[0, 1, 1], sizes=[2, 1])
        >>> ranking_metrics([2.0, 1.0, 1.0], split, ["mrr", "precision@2"])
        {'mrr': 0.75, 'precision@2': 0.5}
    """
    return _means(lambda m: m.of_ranking(scores, split.labels, split.offsets), metrics)


def policy_metrics(
    scores: ArrayLike, split: Split, metrics: Iterable[str | Metric] = ("ndcg@5",)
) -> dict[str, float]:
    """Compute the mean of each metric's exact expectation under the Plackett–Luce policy.

    Arguments and result are those of `ranking_metrics`; the scores are log-weights of the policy.

    Example:
        >>> split = Split.build(np.zeros((3, 1)), labels=[0, 1, 1], sizes=[2, 1])
        >>> round(policy_metrics([2.0, 1.0, 1.0], split, ["arp"])["arp"], 4)
        1.3655
    """
    return _means(lambda m: m.of_policy(scores, split.labels, split.offsets), metrics)


def _means(values: Callable[[Metric], Float64], metrics: Iterable[str | Metric]) -> dict[str, float]:
    # A single name would otherwise be iterated letter by letter.
    listed = (metrics,) if isinstance(metrics, str) else metrics
    chosen = [metric(m) if isinstance(m, str) else m for m in listed]
    return {str(m): _mean(values(m), str(m)) for m in chosen}


def _mean(values: Float64, name: str) -> float:
    counted = values[~np.isnan(values)]
    if len(counted) == 0:
        raise DataError(
            f"{name!r} has no mean: none of the {len(values)} queries has a relevant document, and the "
            f"metric skips such queries"
        )
    return float(counted.mean())
