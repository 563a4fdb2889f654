"""Statistics as bytes and as files, without pickle; files are written without a second copy in memory."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.statistics.statistics import Exposure, PolicyStatistics, Statistics
from rankloop.storage.files import replace_file
from rankloop.storage.tensor_file import TensorFormat

FORMAT = TensorFormat(
    name="rankloop-statistics",
    version="2",
    noun="file of statistics",
    error=DataError,
    foreign="this is not a file of statistics: give one that save_statistics or statistics_to_bytes wrote",
    renewal="compute the statistics again",
)
KIND = "statistics"


def save_statistics(statistics: Statistics, path: str | os.PathLike[str]) -> Path:
    """Write statistics to a file, atomically; `load_statistics` reads them back."""
    with replace_file(path, read_back=FORMAT.verify) as file:
        _write(statistics, file)
    return Path(path)


def load_statistics(path: str | os.PathLike[str]) -> Statistics:
    """The statistics that `save_statistics` wrote.

    Raises:
        DataError: there is no such file, or it is damaged or not a file of statistics.
    """
    try:
        with Path(path).open("rb") as file:
            return _read(file)
    except OSError as error:
        raise DataError(f"{path}: cannot read the statistics: {error.strerror or error}") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def statistics_to_bytes(statistics: Statistics) -> bytes:
    """The statistics as bytes: the same bytes for the same content, on every machine.

    Example:
        >>> nothing = Statistics.empty([0, 2, 3], ranks=5)
        >>> statistics_from_bytes(statistics_to_bytes(nothing)).n_queries
        2
    """
    buffer = io.BytesIO()
    _write(statistics, buffer)
    return buffer.getvalue()


def statistics_from_bytes(data: bytes) -> Statistics:
    """The statistics that these bytes hold; `DataError` if they are damaged or something else."""
    return _read(io.BytesIO(data))


def _write(statistics: Statistics, file: BinaryIO) -> None:
    arrays: dict[str, NDArray[Any]] = {
        "offsets": statistics.offsets,
        "displays_by_position": statistics.displays_by_position,
        "clicks_by_position": statistics.clicks_by_position,
    }
    if statistics.weighted_displays is not None:
        arrays["weighted_displays"] = statistics.weighted_displays
    for number, gathered in enumerate(statistics.policies.values()):
        arrays |= {
            f"{number}.impressions_by_query": gathered.impressions_by_query,
            f"{number}.clicks": gathered.clicks,
            f"{number}.alpha": gathered.exposure.alpha,
            f"{number}.beta": gathered.exposure.beta,
            f"{number}.examination": gathered.exposure.examination,
        }
    spec = {"policies": list(statistics.policies), "log_impressions": statistics.log_impressions}
    FORMAT.write(file, KIND, spec, arrays)


def _read(file: BinaryIO) -> Statistics:
    content = FORMAT.read(file)
    spec, arrays = content.spec, content.tensors
    policies = {
        policy: PolicyStatistics(
            arrays[f"{number}.impressions_by_query"],
            arrays[f"{number}.clicks"],
            Exposure(arrays[f"{number}.alpha"], arrays[f"{number}.beta"], arrays[f"{number}.examination"]),
        )
        for number, policy in enumerate(spec["policies"])
    }
    return Statistics(
        arrays["offsets"],
        policies,
        arrays["displays_by_position"],
        arrays["clicks_by_position"],
        spec["log_impressions"],
        arrays.get("weighted_displays"),
    )
