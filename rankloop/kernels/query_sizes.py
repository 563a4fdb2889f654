"""Sizes of queries, from the offsets at which their documents start."""

from __future__ import annotations

from rankloop.kernels.jit import kernel


@kernel
def longest_query(offsets):
    """The number of documents of the longest query; at least 1, so that scratch is never empty."""
    longest = 1
    for q in range(len(offsets) - 1):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest
