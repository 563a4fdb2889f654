"""Several runs in parallel."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from rankloop.errors import RankloopError
from rankloop.experiments.parallel import resume_all
from rankloop.experiments.results import Row
from rankloop.experiments.run import Run
from rankloop.experiments.setup import Setup
from rankloop.experiments.spec import RunSpec
from rankloop.progress import Progress, Update
from tests.experiments.interruption import InterruptedRunError

SPEC = RunSpec(
    data="synthetic(queries=60, features=5)", horizon=2000, interventions=2, learning="doubly-robust"
)
SPECS = {"loop": SPEC, "naive": SPEC.model_copy(update={"estimator": "naive"})}


@pytest.fixture(scope="module")
def setup() -> Setup:
    return Setup.build(SPEC)


def runs(folder: Path) -> list[Run]:
    return [Run(spec, folder / name, name) for name, spec in SPECS.items()]


def expected(setup: Setup, folder: Path) -> list[list[Row]]:
    """The rows of the same runs, one after the other."""
    return [list(run.resume(setup).rows) for run in runs(folder)]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_parallel_runs_are_what_they_are_alone(
    tmp_path: Path, setup: Setup, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKLOOP_THREADS", threads)
    seen: dict[str, int] = dict.fromkeys(SPECS, 0)
    workers = set()

    def progress(update: Update) -> None:
        seen[update.task] += 1
        workers.add(threading.current_thread().name)

    resume_all(runs(tmp_path / "parallel"), setup, progress)
    assert seen == {"loop": 11, "naive": 11}
    assert len(workers) == int(threads)
    assert [run.rows for run in runs(tmp_path / "parallel")] == expected(setup, tmp_path / "alone")


def slow(begun: threading.Event) -> Progress:
    """Slow runs down, so that there is time to stop them before their end: 11 events take seconds."""

    def progress(_update: Update) -> None:
        begun.set()
        time.sleep(0.2)

    return progress


def test_if_one_fails_the_others_stop_and_can_be_resumed(
    tmp_path: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKLOOP_THREADS", "2")
    begun = threading.Event()
    slow_down = slow(begun)

    def progress(update: Update) -> None:
        if update.task == "naive":
            begun.wait(timeout=60)
            raise InterruptedRunError
        slow_down(update)

    with pytest.raises(InterruptedRunError):
        resume_all(runs(tmp_path), setup, progress)
    assert [len(run.rows) < 3 for run in runs(tmp_path)] == [True, True]
    resume_all(runs(tmp_path), setup)
    assert [run.rows for run in runs(tmp_path)] == expected(setup, tmp_path / "alone")


def test_an_interrupted_caller_does_not_wait_for_the_end(
    tmp_path: Path, setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKLOOP_THREADS", "2")
    begun = threading.Event()

    def interrupted(*_: object, **__: object) -> None:
        begun.wait(timeout=60)
        raise KeyboardInterrupt

    monkeypatch.setattr("rankloop.experiments.parallel.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        resume_all(runs(tmp_path), setup, slow(begun))
    assert [len(run.rows) < 3 for run in runs(tmp_path)] == [True, True]


def test_a_folder_that_holds_another_run_is_refused_before_the_work(tmp_path: Path, setup: Setup) -> None:
    loop, naive = runs(tmp_path)
    Run(naive.spec.model_copy(update={"seed": 1}), naive.folder).resume(setup)
    with pytest.raises(RankloopError, match="naive holds another run"):
        resume_all([loop, naive], setup)
    assert not loop.started
