"""The bias of a log: what its files add to the counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop.bias import BiasOptions
from rankloop.errors import DataError
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import open_log
from rankloop.offline.assumptions import document_features
from tests.offline.worlds_of_logs import simulated


def test_features_are_those_of_the_counted_documents(tmp_path: Path) -> None:
    world = simulated(tmp_path / "log")
    counts = world.log.count()
    read = document_features(world.log, counts)
    assert read is not None
    assert counts.query_ids.tolist() == world.split.query_ids.tolist()
    # The ids of this log are in ascending order, as those of its counts.
    np.testing.assert_array_equal(read(), world.split.features)


def test_a_log_gives_its_features_to_the_estimate(tmp_path: Path) -> None:
    """Eight queries are too few; the message says that their features were found."""
    world = simulated(tmp_path / "log")
    with pytest.raises(DataError, match="8 queries have documents with features"):
        world.log.estimate_bias(BiasOptions("features"))


def test_a_log_without_features_has_none(tmp_path: Path) -> None:
    world = simulated(tmp_path / "log")
    parts = [PolicyTraffic(name, world.scores[name], part) for name, part in world.gathered.items()]
    log = open_log(write_simulated(tmp_path / "bare", world.split, parts, features=False))
    assert document_features(log, log.count()) is None
    with pytest.raises(DataError, match="the log has no features"):
        log.estimate_bias(BiasOptions("features"))
