"""The same reproduction on a Ray cluster of this machine."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from rankloop import extras
from rankloop.errors import RankloopError
from rankloop.experiments.reproduce import Plan, executors, plan
from rankloop.experiments.reproduce.executors import executor, ray
from rankloop.progress import Update
from tests.experiments.reproduce.small import CURVES, TINY, made

PRESET = TINY.model_copy(update={"horizon": 600})


def planned(folder: Path) -> Plan:
    return plan(PRESET, [CURVES], folder)


def ignore(_update: Update) -> None:
    pass


# Ray's own processes and sockets outlive the test that began them by a little.
QUIET = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on this machine: it takes longer to start than the tests need it."""
    running = pytest.importorskip("ray", reason='Ray is not installed: pip install "rankloop[ray]"')
    running.init(num_cpus=2, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
    yield
    running.shutdown()


@pytest.mark.extras
@pytest.mark.usefixtures("cluster")
@QUIET
def test_the_same_results_as_on_this_machine(tmp_path: Path) -> None:
    made(tmp_path / "local", CURVES, preset=PRESET)
    made(tmp_path / "ray", CURVES, preset=PRESET, executor=ray)
    for name in ("results.csv", "claims.json", "figures/curves.svg"):
        assert (tmp_path / "ray" / name).read_bytes() == (tmp_path / "local" / name).read_bytes(), name


@pytest.mark.extras
@pytest.mark.usefixtures("cluster")
@QUIET
def test_errors_on_the_cluster_are_raised_here(tmp_path: Path) -> None:
    (tmp_path / "setups").touch()
    with pytest.raises(RankloopError, match="setups"):
        ray(planned(tmp_path), ignore)


@pytest.mark.parametrize("running", [False, True])
def test_a_cluster_that_it_started_it_ends_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: bool
) -> None:
    fake = Mock(**{"is_initialized.return_value": running, "put.side_effect": ConnectionError})
    monkeypatch.setitem(sys.modules, "ray", fake)
    with pytest.raises(ConnectionError):
        ray(planned(tmp_path), ignore)
    assert (fake.init.called, fake.shutdown.called) == (not running, not running)


def test_without_the_extra_the_engine_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RankloopError, match=r'pip install "rankloop\[ray\]"'):
        executors.ray(planned(tmp_path), ignore)


def test_executors_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "require", Mock())
    assert executor("ray") is ray
    with pytest.raises(RankloopError, match="unknown engine 'rey', did you mean 'ray'"):
        executor("rey")
