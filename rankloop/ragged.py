"""Operations on segments of flat arrays: sums, orders, and parallel work over all segments.

Segment q of an array is ``array[offsets[q]:offsets[q + 1]]``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.types import Float64, Int64

THREADS_VARIABLE = "RANKLOOP_THREADS"
# Passing a chunk to a thread costs about 50 µs, and a row costs 1 µs or more.
ROWS_PER_CHUNK = 2_000
# Signals are handled between chunks, so that none may take seconds.
ROWS_PER_LARGEST_CHUNK = 50_000


def offsets_of(sizes: NDArray[Any]) -> Int64:
    """Compute the offsets of segments with these sizes.

    >>> offsets_of(np.array([2, 1]))
    array([0, 2, 3])
    """
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def distinct(values: Int64) -> Int64:
    """The different numbers, in ascending order.

    As `np.unique`, which hashes numbers since NumPy 2.3: it takes a hundred times as long for millions.

    >>> distinct(np.array([3, 1, 3]))
    array([1, 3])
    """
    ordered = np.sort(values)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def segment_index(offsets: Int64) -> Int64:
    """Find the number of the segment that each row belongs to.

    >>> segment_index(np.array([0, 2, 3]))
    array([0, 0, 1])
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def segment_sum(values: NDArray[Any], offsets: Int64) -> NDArray[Any]:
    """Sum each segment; segments must not be empty.

    >>> segment_sum(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([3., 4.])
    """
    return np.add.reduceat(values, offsets[:-1], axis=0)


def segment_max(values: NDArray[Any], offsets: Int64) -> NDArray[Any]:
    """Find the largest value of each segment; segments must not be empty.

    >>> segment_max(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([2., 4.])
    """
    return np.maximum.reduceat(values, offsets[:-1], axis=0)


def segment_std(values: Float64, offsets: Int64) -> Float64:
    """Compute the standard deviation of each segment; segments must not be empty.

    >>> segment_std(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([0.5, 0. ])
    """
    sizes = np.diff(offsets)
    # Centred first, because the sum of squares loses precision for scores that are large and close together.
    centred = values - np.repeat(segment_sum(values, offsets) / sizes, sizes)
    result: Float64 = np.sqrt(segment_sum(centred**2, offsets) / sizes)
    return result


def descending(values: Float64, offsets: Int64) -> Int64:
    """Order rows from the highest value to the lowest within each segment; ties keep their order.

    >>> descending(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([1, 0, 2])
    """
    return np.lexsort((-values, segment_index(offsets)))


def ranks(values: Float64, offsets: Int64) -> Int64:
    """Compute the rank of each row, from 1, in the descending order of its segment.

    >>> ranks(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 3]))
    array([2, 1, 1])
    """
    order = descending(values, offsets)
    result = np.empty(len(values), np.int64)
    result[order] = np.arange(len(values)) - offsets[segment_index(offsets)] + 1
    return result


def threads() -> int:
    """Return the number of threads to use: ``RANKLOOP_THREADS``, or the cores available to this process."""
    wanted = os.environ.get(THREADS_VARIABLE)
    if wanted is not None and wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def openmp_threads() -> int:
    """Return the number of threads for libraries that use OpenMP: one in a child process made by a fork.

    OpenMP's threads do not survive a fork, and GNU's implementation waits for them for ever.
    """
    return 1 if _forked else threads()


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="rankloop")


# One element in a process that is the child of a fork.
_forked: list[bool] = []


def _after_fork() -> None:
    # Threads do not survive a fork. A child process that waited for its parent's threads would hang.
    _pool.cache_clear()
    _forked.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def for_segments(kernel: Callable[..., None], offsets: Int64, *arguments: object) -> None:
    """Call ``kernel(first, last, offsets, *arguments)`` on ranges that cover all segments, on all cores.

    The kernel must release the GIL, write only to its own segments, and process each segment independently.
    The result then depends neither on the number of threads nor on the ranges. Ctrl-C is noticed between two
    ranges.
    """
    # A copy, which no other thread changes while the kernel trusts it.
    offsets = offsets.copy()
    n_segments, n_rows = len(offsets) - 1, int(offsets[-1])
    workers = threads()
    # Several chunks per thread balance segments of different cost.
    chunks = min(n_rows // ROWS_PER_CHUNK, 4 * workers) if workers > 1 else 1
    chunks = min(n_segments, max(chunks, n_rows // ROWS_PER_LARGEST_CHUNK))
    if chunks <= 1:
        kernel(0, n_segments, offsets, *arguments)
        return
    cuts = np.searchsorted(offsets, np.linspace(0, n_rows, chunks + 1)[1:-1])
    edges = np.unique(np.concatenate([[0], cuts, [n_segments]]))

    def steps(first: int, last: int) -> Iterator[None]:
        kernel(first, last, offsets, *arguments)
        yield

    run_all([steps(int(a), int(b)) for a, b in pairwise(edges)])


def run_all(jobs: Sequence[Iterator[object]]) -> None:
    """Run iterators to their ends, on all cores.

    Compiled code cannot be interrupted. If the caller is, by Ctrl-C or by an error in one of the jobs, each
    job ends after the step that it is at, and the error is raised when none is running any more.
    """
    workers = threads()
    if workers == 1 or len(jobs) == 1:
        for job in jobs:
            for _ in job:
                pass
        return
    stopped = Event()

    def run(job: Iterator[object]) -> None:
        while not stopped.is_set() and next(job, stopped) is not stopped:
            pass

    pool = _pool(workers)
    running = [pool.submit(run, job) for job in jobs]
    try:
        for one in running:
            one.result()
    finally:
        stopped.set()
        wait(running)


def counts_by_share(total: int, shares: Sequence[float]) -> Int64:
    """Divide a total into integers in the ratio of the shares, each at least 1.

    Example:
        >>> counts_by_share(10, (2, 1)), counts_by_share(3, (98, 1, 1))
        (array([7, 3]), array([1, 1, 1]))
    """
    wanted = np.asarray(shares, dtype=np.float64)
    if wanted.ndim != 1 or not len(wanted) or not np.isfinite(wanted).all() or (wanted <= 0).any():
        raise DataError(f"shares must be positive numbers, one per part; got {shares!r}")
    if total < len(wanted):
        raise DataError(
            f"{total} queries cannot be split into {len(wanted)} parts of at least one query: use more "
            f"queries, or a folder with files for training, validation and test"
        )
    # Each part gets one query. The others are assigned by the largest remainder method.
    missing = np.maximum(wanted / wanted.sum() * total - 1, 0)
    exact = missing / missing.sum() * (total - len(wanted)) if missing.any() else missing
    counts = np.floor(exact).astype(np.int64)
    remainder = total - len(wanted) - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:remainder]] += 1
    result: Int64 = counts + 1
    return result
