"""Several runs side by side."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rankloop.errors import RankloopError
from rankloop.experiments.parallel import run_together
from rankloop.experiments.results import read_rows
from rankloop.experiments.run import run
from rankloop.experiments.setup import Setup, build_setup
from rankloop.experiments.spec import RunSpec
from rankloop.loop import Event
from tests.experiments.cutting import CutError

SPEC = RunSpec(data="synthetic(queries=60, features=5)", horizon=2000, interventions=2)
SPECS = {"loop": SPEC, "naive": SPEC.model_copy(update={"estimator": "naive"})}


@pytest.fixture(scope="module")
def laid() -> Setup:
    return build_setup(SPEC)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_runs_side_by_side_are_what_they_are_alone(
    tmp_path: Path, laid: Setup, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKLOOP_THREADS", threads)
    seen: dict[str, int] = dict.fromkeys(SPECS, 0)
    workers = set()

    def watch(name: str, _event: Event) -> None:
        seen[name] += 1
        workers.add(threading.current_thread().name)

    run_together(SPECS, tmp_path / "together", laid, watch)
    assert seen == {"loop": 11, "naive": 11}
    assert len(workers) == int(threads)
    for name, spec in SPECS.items():
        assert read_rows(tmp_path / "together" / name) == run(spec, tmp_path / name, shared=laid)


def slowly(begun: threading.Event) -> Callable[[str, Event], None]:
    """Watch runs so that there is time to stop them before their end: 11 events take seconds."""

    def watch(_name: str, _event: Event) -> None:
        begun.set()
        time.sleep(0.2)

    return watch


def test_if_one_fails_the_others_stop_and_can_be_gone_on_with(
    tmp_path: Path, laid: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKLOOP_THREADS", "2")
    begun = threading.Event()
    wait_a_little = slowly(begun)

    def watch(name: str, event: Event) -> None:
        if name == "naive":
            begun.wait(timeout=60)
            raise CutError
        wait_a_little(name, event)

    with pytest.raises(CutError):
        run_together(SPECS, tmp_path, laid, watch)
    assert [len(read_rows(tmp_path / name)) < 3 for name in SPECS] == [True, True]
    run_together(SPECS, tmp_path, laid)
    for name, spec in SPECS.items():
        assert read_rows(tmp_path / name) == run(spec, tmp_path / "alone" / name, shared=laid)


def test_an_interrupted_caller_does_not_wait_for_the_end(
    tmp_path: Path, laid: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKLOOP_THREADS", "2")
    begun = threading.Event()

    def interrupted(*_: object, **__: object) -> None:
        begun.wait(timeout=60)
        raise KeyboardInterrupt

    monkeypatch.setattr("rankloop.experiments.parallel.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_together(SPECS, tmp_path, laid, slowly(begun))
    assert [len(read_rows(tmp_path / name)) < 3 for name in SPECS] == [True, True]


def test_a_folder_that_holds_something_else_is_said_before_the_work(tmp_path: Path, laid: Setup) -> None:
    other = SPECS["naive"].model_copy(update={"seed": 1})
    run_together({"naive": other}, tmp_path, laid)
    with pytest.raises(RankloopError, match="naive holds another run"):
        run_together(SPECS, tmp_path, laid)
    assert read_rows(tmp_path / "loop") == []
