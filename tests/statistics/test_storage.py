"""Statistics as bytes and files: round trips, damage, foreign files."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from rankloop.errors import DataError
from rankloop.statistics import (
    Exposure,
    Statistics,
    load_statistics,
    save_statistics,
    statistics_from_bytes,
    statistics_to_bytes,
)
from rankloop.statistics.storage import FORMAT
from tests.statistics.equality import assert_same


def statistics() -> Statistics:
    def gathered(policy: str, alpha: float) -> Statistics:
        return Statistics.of_policy(
            policy,
            [0, 2, 3],
            Exposure(np.full(3, alpha), np.full(3, 0.1), np.array([0.5, 1 / 3, 1e-300])),
            impressions_by_query=[4, 1],
            displays_by_position=[[3, 1], [1, 3], [1, 0]],
            clicks_by_position=[[2, 0], [1, 1], [0, 0]],
        )

    total = Statistics.empty([0, 2, 3], 2)
    # More than ten policies, so that the order of their numbers is not that of their names.
    for number in range(12):
        total = total + gathered(f"policy é {11 - number}", 0.01 * (number + 1))
    return total


@pytest.mark.parametrize("part", [None, [1], [1, 0]])
def test_round_trip(part: list[int] | None) -> None:
    given = statistics() if part is None else statistics().select(part)
    assert_same(statistics_from_bytes(statistics_to_bytes(given)), given)


def test_files_round_trip_and_are_what_the_bytes_are(tmp_path: Path) -> None:
    path = save_statistics(statistics(), tmp_path / "new folder" / "log.safetensors")
    assert_same(load_statistics(path), statistics())
    assert path.read_bytes() == statistics_to_bytes(statistics())
    assert [child.name for child in path.parent.iterdir()] == ["log.safetensors"]


def test_saving_replaces_what_was_there(tmp_path: Path) -> None:
    path = save_statistics(statistics(), tmp_path / "log")
    save_statistics(statistics().select([0]), path)
    assert load_statistics(path).n_queries == 1


def test_what_was_loaded_adds(tmp_path: Path) -> None:
    loaded = load_statistics(save_statistics(statistics(), tmp_path / "log"))
    assert_same(loaded + statistics(), statistics() + statistics())


def test_it_is_a_safetensors_file() -> None:
    tensors = safetensors_numpy.load(statistics_to_bytes(statistics()))
    np.testing.assert_array_equal(tensors["11.alpha"], statistics().policies["policy é 0"].exposure.alpha)


def test_every_damaged_byte_is_noticed() -> None:
    data = statistics_to_bytes(statistics().select([0]))
    rng = np.random.default_rng(0)
    (header,) = struct.unpack("<Q", data[:8])
    # The length, a sample of the header, and a sample of the arrays.
    places = [*range(8), *rng.integers(8, header, 150), *rng.integers(8 + header, len(data), 150)]
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(DataError, match=r"damaged|not a file of statistics|has version"):
            statistics_from_bytes(bytes(damaged))


@pytest.mark.parametrize("cut", [0, 4, 8, 100, -1, -200])
def test_half_a_file_is_refused(cut: int) -> None:
    with pytest.raises(DataError, match=r"damaged|not a file of statistics"):
        statistics_from_bytes(statistics_to_bytes(statistics())[:cut])


def test_more_than_a_file_is_refused() -> None:
    with pytest.raises(DataError, match="damaged"):
        statistics_from_bytes(statistics_to_bytes(statistics()) + b"x")


@pytest.mark.parametrize(
    "data", [b"", b"tree\nversion=v4", b"\xff" * 40, safetensors_numpy.save({"a": np.zeros(2)})]
)
def test_foreign_files_are_refused(data: bytes) -> None:
    with pytest.raises(DataError, match="not a file of statistics"):
        statistics_from_bytes(data)


def test_a_newer_version_is_refused() -> None:
    newer = replace(FORMAT, version="3").to_bytes("statistics", {}, {})
    with pytest.raises(DataError, match="has version '3', but this program reads '2'"):
        statistics_from_bytes(newer)


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none: cannot read the statistics: No such file"):
        load_statistics(tmp_path / "none")
    (tmp_path / "foreign").write_bytes(b"something else altogether")
    with pytest.raises(DataError, match="foreign: this is not a file of statistics"):
        load_statistics(tmp_path / "foreign")
