"""Segments of flat arrays: sums, orders and work over all of them on all cores.

Segment q of an array is ``array[offsets[q]:offsets[q + 1]]``. Nothing here knows what a segment means.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.types import Float64, Int64

THREADS_VARIABLE = "RANKLOOP_THREADS"
# A chunk must outweigh the ~50 µs that handing it to a thread costs; rows cost about 1 µs each or more.
ROWS_PER_CHUNK = 2_000


def offsets_of(sizes: NDArray[Any]) -> Int64:
    """Offsets of segments that have these sizes.

    >>> offsets_of(np.array([2, 1]))
    array([0, 2, 3])
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def segment_index(offsets: Int64) -> Int64:
    """The number of the segment that each row belongs to.

    >>> segment_index(np.array([0, 2, 3]))
    array([0, 0, 1])
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def segment_sum(values: NDArray[Any], offsets: Int64) -> NDArray[Any]:
    """The sum of each segment (none may be empty).

    >>> segment_sum(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([3., 4.])
    """
    return np.add.reduceat(values, offsets[:-1], axis=0)


def segment_max(values: NDArray[Any], offsets: Int64) -> NDArray[Any]:
    """The largest value of each segment (none may be empty).

    >>> segment_max(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([2., 4.])
    """
    return np.maximum.reduceat(values, offsets[:-1], axis=0)


def segment_std(values: Float64, offsets: Int64) -> Float64:
    """The standard deviation of each segment (none may be empty).

    >>> segment_std(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([0.5, 0. ])
    """
    sizes = np.diff(offsets)
    # From the mean, not from the sum of squares: scores may be large and close together.
    centred = values - np.repeat(segment_sum(values, offsets) / sizes, sizes)
    result: Float64 = np.sqrt(segment_sum(centred**2, offsets) / sizes)
    return result


def descending(values: Float64, offsets: Int64) -> Int64:
    """Rows ordered from the highest value to the lowest within each segment; ties keep their order.

    >>> descending(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([1, 0, 2])
    """
    return np.lexsort((-values, segment_index(offsets)))


def ranks(values: Float64, offsets: Int64) -> Int64:
    """The rank, from 1, that each row has when its segment is ordered by descending value.

    >>> ranks(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([2, 1, 1])
    """
    order = descending(values, offsets)
    result = np.empty(len(values), np.int64)
    result[order] = np.arange(len(values)) - offsets[segment_index(offsets)] + 1
    return result


def threads() -> int:
    """How many threads work is spread over: ``RANKLOOP_THREADS``, or every core this process may use."""
    wanted = os.environ.get(THREADS_VARIABLE)
    if wanted is not None and wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="rankloop")


# Threads do not survive a fork: a child that waited for its parent's would wait for ever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)


def for_segments(kernel: Callable[..., None], offsets: Int64, *arguments: object) -> None:
    """Call ``kernel(first, last, offsets, *arguments)`` on ranges of segments that cover all, on all cores.

    The kernel must release the GIL, write only what belongs to its segments, and treat each segment by
    itself: then the result depends neither on the number of threads nor on where the ranges are cut.
    """
    n_segments, n_rows = len(offsets) - 1, int(offsets[-1])
    workers = threads()
    # Several chunks a thread even out segments that cost more than others.
    chunks = min(n_segments, n_rows // ROWS_PER_CHUNK, 4 * workers) if workers > 1 else 1
    if chunks <= 1:
        kernel(0, n_segments, offsets, *arguments)
        return
    cuts = np.searchsorted(offsets, np.linspace(0, n_rows, chunks + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], cuts, [n_segments]]))
    pool = _pool(workers)
    jobs = [pool.submit(kernel, int(a), int(b), offsets, *arguments) for a, b in pairwise(edges)]
    for job in jobs:
        job.result()
