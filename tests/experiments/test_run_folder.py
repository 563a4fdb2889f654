"""What is in the folder of a run belongs to that run, and to the data that it began with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import rankloop
from rankloop.errors import RankloopError
from rankloop.experiments.run import Run
from rankloop.experiments.setup import Setup
from rankloop.experiments.spec import RunSpec
from rankloop.progress import Update
from tests.experiments.interruption import InterruptedRunError, interrupt_after

SPEC = RunSpec(data="synthetic(queries=60, features=5)", horizon=2000, interventions=2, oracle=False)


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was interrupted after its second evaluation."""
    folder = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        # A checkpoint after every event, however long writing takes.
        patch.setattr("rankloop.experiments.run.WORK_PER_WRITE", 0.0)
        with pytest.raises(InterruptedRunError):
            Run(SPEC, folder).resume(progress=interrupt_after(7))
    return folder


@pytest.fixture
def folder(interrupted: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    return Path(shutil.copytree(interrupted, tmp_path / "run"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of another seed, interrupted at the same place."""
    folder = tmp_path_factory.mktemp("other")
    with pytest.raises(InterruptedRunError):
        Run(SPEC.model_copy(update={"seed": 1}), folder).resume(progress=interrupt_after(7))
    return folder


def test_two_processes_never_share_a_folder(tmp_path: Path) -> None:
    """Before: both ran, and the results of one seed were stored under the spec of another."""
    errors = []

    def start_another(_: Update) -> None:
        for seed in (0, 1):
            try:
                Run(SPEC.model_copy(update={"seed": seed}), tmp_path / "run").resume()
            except RankloopError as error:
                errors.append(str(error))

    Run(SPEC, tmp_path / "run").resume(progress=start_another)
    assert len(errors) > 2
    assert all("run is being written by process" in error for error in errors)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["checkpoint.rankloop", "results.jsonl", "facts.json", "start.rankloop"])
def test_files_of_another_run_are_refused(folder: Path, other: Path, name: str) -> None:
    """Before: a checkpoint was not bound to its spec, and the run went on from that of another seed."""
    shutil.copyfile(other / name, folder / name)
    with pytest.raises(RankloopError, match=r"belong|is not the starting policy|fingerprint"):
        Run(SPEC, folder).resume()


def test_a_run_whose_spec_was_edited_is_refused(folder: Path) -> None:
    content = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps({**content, "seed": 5}))
    with pytest.raises(RankloopError, match="or does not belong to the run in this folder"):
        _ = Run(SPEC, folder).result
    with pytest.raises(RankloopError, match=r"the checkpoint belongs to another run: .*; remove this file"):
        Run(SPEC.model_copy(update={"seed": 5}), folder).resume()


@pytest.mark.parametrize("rows", [0, 1])
def test_missing_results_are_noticed(folder: Path, rows: int) -> None:
    """Before: a run whose ``results.jsonl`` was lost went on without the rows that it had had."""
    path = folder / "results.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) > 1
    path.write_text("".join(lines[:rows]))
    with pytest.raises(RankloopError, match=r"the run had been evaluated at \[.*\] when it was interrupted"):
        Run(SPEC, folder).resume()
    path.unlink()
    with pytest.raises(RankloopError, match=r"but the rows are of \[\]: restore the file"):
        Run(SPEC, folder).resume()


def test_data_that_has_changed_is_noticed(tmp_path: Path) -> None:
    """Before: only the path of the data was compared."""
    data = tmp_path / "data"
    data.mkdir()
    rng = np.random.default_rng(0)

    def write(value: float) -> None:
        for part in ("train", "vali", "test"):
            lines = [
                f"{rng.integers(0, 3)} qid:{query} 1:{rng.random():.3f} 2:{value}"
                for query in range(12)
                for _ in range(4)
            ]
            (data / f"{part}.txt").write_text("\n".join(lines) + "\n")

    write(0.5)
    spec = SPEC.model_copy(update={"data": str(data), "horizon": 500})
    with pytest.raises(InterruptedRunError):
        Run(spec, tmp_path / "run").resume(progress=interrupt_after(4))
    write(0.25)
    with pytest.raises(RankloopError, match=r"has changed since this was begun .*: restore the data"):
        Run(spec, tmp_path / "run").resume()
    changed = Setup.build(spec)
    with pytest.raises(RankloopError, match="has changed since this was begun"):
        Run(spec, tmp_path / "run").resume(changed)


def test_what_kills_left_in_the_folder_is_removed(folder: Path) -> None:
    """Before: temporary files of killed runs stayed for ever."""
    (folder / ".results.jsonl.0123456789abcdef.rankloop-tmp").write_bytes(b"half a r")
    Run(SPEC, folder).resume()
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("name", ["spec.json", "facts.json", "results.jsonl", "timing.json"])
@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"9" * 10_000, b"\xff\xfe", b'{"a": NaN}', b"[]", b"null", b"\0"]
)
def test_damaged_files_are_named(folder: Path, name: str, content: bytes) -> None:
    """Before: deeply nested JSON, and text that is not UTF-8, ended in tracebacks."""
    (folder / name).write_bytes(content)
    with pytest.raises(RankloopError, match=name.replace(".", r"\.") + "|holds another run"):
        Run(SPEC, folder).resume()
    with pytest.raises(RankloopError, match=name.replace(".", r"\.")):
        _ = Run(SPEC, folder).result


def test_a_folder_that_was_moved_is_the_same_run(folder: Path, tmp_path: Path) -> None:
    moved = folder.rename(tmp_path / "elsewhere")
    whole = tmp_path / "whole"
    Run(SPEC, moved).resume()
    Run(SPEC, whole).resume()
    assert (moved / "results.jsonl").read_bytes() == (whole / "results.jsonl").read_bytes()
    assert rankloop.load(moved / "learned.rankloop").fingerprint == (
        rankloop.load(whole / "learned.rankloop").fingerprint
    )
