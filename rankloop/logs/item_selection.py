"""The statistics of some of a log's items, such as those that have features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankloop.logs.log_statistics import LogStatistics
from rankloop.ragged import offsets_of
from rankloop.statistics.exposure import Exposure
from rankloop.statistics.statistics import PolicyStatistics, Statistics


def keep_items(found: LogStatistics, kept: NDArray[np.bool_]) -> LogStatistics:
    """The statistics of some items; queries of which none is kept are left out.

    Exposures are those of the rankings that were shown, with all documents in them.

    Args:
        found: the statistics of a log.
        kept: bool, items; at least one is True.
    """
    whole = found.statistics
    sizes = np.add.reduceat(kept, whole.offsets[:-1], dtype=np.int64)
    queries = sizes > 0
    policies = {
        policy: PolicyStatistics(
            part.query_counts[queries],
            part.clicks[kept],
            Exposure(part.exposure.alpha[kept], part.exposure.beta[kept], part.exposure.examination[kept]),
        )
        for policy, part in whole.policies.items()
    }
    statistics = Statistics(
        offsets_of(sizes[queries]),
        policies,
        whole.displays_by_rank[kept],
        whole.clicks_by_rank[kept],
        whole.log_timesteps,
    )
    return replace(
        found, statistics=statistics, query_ids=found.query_ids[queries], doc_ids=found.doc_ids[kept]
    )
