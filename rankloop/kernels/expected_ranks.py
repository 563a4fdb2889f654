"""Expected ranks of a Plackett–Luce policy, from the probability that one document is ahead of another."""

from __future__ import annotations

import numpy as np

from rankloop.kernels.jit import kernel


@kernel
def add_documents_ahead(first, last, offsets, scores, out):
    """Add the expected number of documents ahead of it to each document of the queries ``first … last``."""
    for q in range(first, last):
        for d in range(offsets[q], offsets[q + 1]):
            for j in range(offsets[q], d):
                # Of two excluded documents the earlier is ahead, like equal scores in a ranking.
                both_excluded = scores[d] == -np.inf and scores[j] == -np.inf
                ahead = 1.0 if both_excluded else 1.0 / (1.0 + np.exp(scores[d] - scores[j]))
                out[d] += ahead
                out[j] += 1.0 - ahead
