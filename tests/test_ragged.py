"""Segments of flat arrays against a loop over them."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import count, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop import ragged

sizes_lists = st.lists(st.integers(1, 400), min_size=1, max_size=60)


def segments(values: Any, offsets: Any) -> list[Any]:
    return [values[a:b] for a, b in pairwise(offsets)]


@given(sizes_lists, st.integers(0, 99))
def test_sums_maxima_orders_and_ranks_are_those_of_each_segment(sizes: list[int], seed: int) -> None:
    offsets = ragged.offsets_of(np.array(sizes))
    # Few different values, so that there are ties.
    values = np.random.default_rng(seed).integers(-3, 4, offsets[-1]).astype(np.float64)
    parts = segments(values, offsets)
    assert ragged.segment_sum(values, offsets).tolist() == [part.sum() for part in parts]
    assert ragged.segment_max(values, offsets).tolist() == [part.max() for part in parts]
    assert ragged.segment_index(offsets).tolist() == [q for q, n in enumerate(sizes) for _ in range(n)]
    orders = [np.argsort(-part, kind="stable") for part in parts]
    expected = np.concatenate([start + order for start, order in zip(offsets, orders, strict=False)])
    np.testing.assert_array_equal(ragged.descending(values, offsets), expected)
    expected_ranks = np.concatenate([np.argsort(order) + 1 for order in orders])
    np.testing.assert_array_equal(ragged.ranks(values, offsets), expected_ranks)


def test_offsets_do_not_overflow_small_integers() -> None:
    offsets = ragged.offsets_of(np.array([200, 200], dtype=np.uint8))
    assert offsets.dtype == np.int64
    assert offsets.tolist() == [0, 200, 400]


@given(sizes_lists, st.integers(1, 5), st.integers(1, 500))
def test_every_segment_is_visited_once(sizes: list[int], threads: int, rows_per_chunk: int) -> None:
    offsets = ragged.offsets_of(np.array(sizes))
    visits = np.zeros(len(sizes), np.int64)
    ranges = []

    def kernel(first: int, last: int, given_offsets: Any, extra: str) -> None:
        assert given_offsets.tolist() == offsets.tolist()
        assert extra == "extra"
        ranges.append((first, last))
        visits[first:last] += 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ragged.THREADS_VARIABLE, str(threads))
        patch.setattr(ragged, "ROWS_PER_CHUNK", rows_per_chunk)
        ragged.for_segments(kernel, offsets, "extra")
    assert (visits == 1).all()
    assert all(first < last for first, last in ranges)
    assert len(ranges) == 1 or threads > 1


def test_no_segments_are_no_trouble() -> None:
    seen = []
    ragged.for_segments(lambda first, last, _offsets: seen.append((first, last)), np.array([0]))
    assert seen == [(0, 0)]


def test_work_is_spread_over_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ragged.THREADS_VARIABLE, "2")
    offsets = ragged.offsets_of(np.full(8, ragged.ROWS_PER_CHUNK))
    # Nobody passes unless two threads are in the kernel at once.
    together = threading.Barrier(2)
    passed = []

    def kernel(first: int, last: int, _offsets: Any) -> None:
        together.wait(timeout=60)
        passed.append((first, last))

    ragged.for_segments(kernel, offsets)
    assert sorted(passed) == [(q, q + 1) for q in range(8)]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_what_goes_wrong_in_a_kernel_is_raised(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ragged.THREADS_VARIABLE, threads)
    monkeypatch.setattr(ragged, "ROWS_PER_CHUNK", 1)
    offsets = ragged.offsets_of(np.ones(50, np.int64))

    def kernel(first: int, last: int, _offsets: Any) -> None:
        if first <= 49 < last:
            raise ZeroDivisionError("in the last segment")

    with pytest.raises(ZeroDivisionError, match="in the last segment"):
        ragged.for_segments(kernel, offsets)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_jobs_end_soon_after_an_interruption(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ragged.THREADS_VARIABLE, threads)
    taken = []

    def endless() -> Iterator[None]:
        for step in count():
            taken.append(step)
            if len(taken) == 20:
                raise KeyboardInterrupt
            yield

    with pytest.raises(KeyboardInterrupt):
        ragged.run_all([endless() for _ in range(8)])
    after = len(taken)
    time.sleep(0.05)
    assert len(taken) == after


def test_many_rows_are_divided_for_one_thread_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ragged.THREADS_VARIABLE, "1")
    monkeypatch.setattr(ragged, "ROWS_PER_LARGEST_CHUNK", 10)
    ranges = []
    ragged.for_segments(lambda first, last, _: ranges.append((first, last)), np.arange(0, 101, 5))
    assert ranges == [(first, first + 2) for first in range(0, 20, 2)]


def test_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ragged.THREADS_VARIABLE, "3")
    assert ragged.threads() == 3
    monkeypatch.delenv(ragged.THREADS_VARIABLE)
    every = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert ragged.threads() == every
    for nonsense in ("", "0", "-1", "many"):
        monkeypatch.setenv(ragged.THREADS_VARIABLE, nonsense)
        assert ragged.threads() == every


FORK = """
import multiprocessing, os
import numpy as np
os.environ["RANKLOOP_THREADS"] = "2"
from rankloop import ragged
offsets = ragged.offsets_of(np.full(10, ragged.ROWS_PER_CHUNK))
visit = lambda: ragged.for_segments(lambda first, last, _: None, offsets)
visit()
child = multiprocessing.get_context("fork").Process(target=visit)
child.start()
child.join(60)
stuck = child.is_alive()
child.kill()
raise SystemExit(1 if stuck else child.exitcode)
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    # Newer Pythons warn of any fork beside threads.
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
