"""What the ranks of documents are worth, if they are sorted by score or drawn from scores."""

from __future__ import annotations

import numpy as np

from rankloop.policies import expected_rank_weights, rank_marginals, sorted_rank_weights
from rankloop.ragged import segment_index
from rankloop.types import Float64, Int64


def drawn_rank_weights(scores: Float64, offsets: Int64, weights: Float64) -> Float64:
    """What each item's rank is worth in expectation if rankings are drawn from the scores (Plackett–Luce).

    Arguments are those of `sorted_rank_weights`.
    """
    if weights.ndim < 3:
        return expected_rank_weights(scores, offsets, weights)
    marginals = rank_marginals(scores, offsets, weights.shape[2])
    result: Float64 = np.einsum("dk,dvk->dv", marginals, weights[segment_index(offsets)])
    return result


RANK_WEIGHTS = {"sorted": sorted_rank_weights, "drawn": drawn_rank_weights}
