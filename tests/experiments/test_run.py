"""A run as a folder: what is in it, and that an interrupted run resumes to the same end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rankloop
from rankloop.errors import RankloopError
from rankloop.experiments.results import read_rows, run_fingerprint
from rankloop.experiments.run import Run
from rankloop.experiments.setup import Setup
from rankloop.experiments.spec import RunSpec
from rankloop.loop import Evaluated
from rankloop.objectives import expected_metric
from rankloop.progress import Update
from rankloop.training import LEARNING
from tests.experiments.interruption import InterruptedRunError, interrupt_after

SPEC = RunSpec(data="synthetic(queries=60, features=5)", horizon=3000, interventions=3)
FILES = [
    "facts.json", "learned.rankloop", "oracle.rankloop", "results.jsonl", "spec.json", "start.rankloop",
    "timing.json",
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    Run(SPEC, folder).resume()
    return folder


@pytest.fixture(scope="module")
def built() -> Setup:
    return Setup.build(SPEC)


def test_everything_is_in_the_folder(whole: Path, built: Setup) -> None:
    assert sorted(path.name for path in whole.iterdir()) == FILES
    run = Run(SPEC, whole)
    assert run.started
    assert run.finished
    kept = run.result
    assert (kept.version, kept.spec, kept.facts) == (rankloop.__version__, SPEC, built.facts)
    assert [row.impressions for row in kept.rows] == [100, 311, 965, 3000]
    assert set(kept.timing) == {"prepared", "gathered", "trained", "evaluated", "deployed"}
    assert rankloop.load(whole / "start.rankloop").fingerprint == built.start.fingerprint


def test_rows_are_what_the_loop_says(whole: Path, built: Setup) -> None:
    events = [event for event in built.loop(SPEC).run() if isinstance(event, Evaluated)]
    rows = read_rows(whole)
    for row, event in zip(rows, events, strict=True):
        assert (row.impressions, row.learned, row.logging) == (
            event.impressions,
            event.learned,
            event.logging,
        )
        assert row.scale == event.state.scale
        assert list(row.support.values()) == list(event.support.values())
        assert row.estimate == (None if np.isnan(event.estimate) else event.estimate)
        assert row.kept_start == (event.state.learned.fingerprint == built.start.fingerprint)
    assert (rows[0].logging, rows[0].scale) == (built.facts.start, 1.0)
    # Before anything was deployed, the starting policy logs.
    assert rows[0].support == built.facts.peakedness.support
    learned = rankloop.load(whole / "learned.rankloop")
    assert learned.fingerprint == events[-1].state.learned.fingerprint


def test_the_truth_is_the_metric_that_the_estimate_estimates(whole: Path, built: Setup) -> None:
    validation = built.environment.collection.validation
    learned = rankloop.load(whole / "learned.rankloop")
    theta = LEARNING[SPEC.learning].rank_weights(built.environment.users.bias)
    true = expected_metric(
        learned.scores(validation.features), validation.offsets, validation.labels / 4, theta
    )
    last = read_rows(whole)[-1]
    assert last.truth == pytest.approx(true.value / validation.n_queries, rel=1e-12)
    assert last.estimate is not None
    assert last.estimate_error is not None
    # Within six standard errors, clipping aside, unless one of the two is of something else.
    assert abs(last.estimate - last.truth) < 6 * last.estimate_error


@pytest.mark.parametrize("events", [1, 3, 4, 6])
def test_an_interrupted_run_resumes_to_the_same_end(whole: Path, tmp_path: Path, events: int) -> None:
    run = Run(SPEC, tmp_path)
    with pytest.raises(InterruptedRunError):
        run.resume(progress=interrupt_after(events))
    assert not run.finished
    assert (tmp_path / "checkpoint.rankloop").exists()
    assert list(run.resume().rows) == read_rows(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    # The times differ, and nothing else does.
    for name in set(FILES) - {"timing.json"}:
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def test_a_row_written_before_its_checkpoint_is_not_counted_twice(whole: Path, tmp_path: Path) -> None:
    run = Run(SPEC, tmp_path)
    setup = run.set_up()
    states = [event.state for event in setup.loop(SPEC).run()]
    run.resume(setup)
    # As if the process had been killed between writing the last row and writing its checkpoint.
    (tmp_path / "learned.rankloop").unlink()
    (tmp_path / "checkpoint.rankloop").write_bytes(states[-2].to_bytes(run_fingerprint(tmp_path)))
    assert list(run.resume(setup).rows) == read_rows(whole)


def test_time_adds_up_over_all_calls(tmp_path: Path) -> None:
    run = Run(SPEC, tmp_path)
    with pytest.raises(InterruptedRunError):
        run.resume(progress=interrupt_after(2))
    before = read_run_timing(tmp_path)
    assert set(before) == {"prepared", "gathered", "trained"}
    run.resume()
    after = read_run_timing(tmp_path)
    assert after["prepared"] == before["prepared"]
    assert after["trained"] > before["trained"]
    run.resume()
    assert read_run_timing(tmp_path) == after


def read_run_timing(folder: Path) -> dict[str, float]:
    content: dict[str, float] = json.loads((folder / "timing.json").read_text())
    return content


def test_a_setup_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Run(SPEC, tmp_path).set_up()
    monkeypatch.setattr("rankloop.experiments.setup.starting_policy", None)
    again = Run(SPEC, tmp_path).set_up()
    assert (again.facts, again.start.fingerprint) == (first.facts, first.start.fingerprint)


def test_a_stored_start_that_has_changed_since_does_not_change_the_run(tmp_path: Path) -> None:
    path = tmp_path / "start"
    spec = SPEC.model_copy(update={"start": str(path)})
    rankloop.save(rankloop.models.Linear(5, np.arange(6.0)), path)
    begun = Run(spec, tmp_path / "run").set_up()
    rankloop.save(rankloop.models.Linear(5, np.zeros(6)), path)
    assert Run(spec, tmp_path / "run").set_up().start.fingerprint == begun.start.fingerprint


def test_a_setup_may_be_shared(tmp_path: Path, built: Setup, whole: Path) -> None:
    result = Run(SPEC, tmp_path).resume(built)
    assert list(result.rows) == read_rows(whole)
    assert result.facts == built.facts


def test_a_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    Run(SPEC, tmp_path).set_up()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RankloopError, match=r"holds another run \(its seed is 0, not 1\): choose another"):
        Run(SPEC.model_copy(update={"seed": 1}), tmp_path).resume()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_unusable_folder_is_rejected_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RankloopError, match="cannot be written"):
        Run(SPEC.model_copy(update={"data": "nowhere"}), tmp_path / "file" / "run").set_up()


def test_progress_ends_at_one_and_every_evaluation_is_a_milestone(tmp_path: Path, built: Setup) -> None:
    updates: list[Update] = []
    result = Run(SPEC, tmp_path, "loop").resume(built, updates.append)
    shares = [update.share for update in updates if update.share is not None]
    assert {update.task for update in updates} == {"loop"}
    assert shares == sorted(set(shares))
    assert (shares[0], shares[-1]) == (1 / 15, 1.0)
    milestones = [update for update in updates if update.milestone]
    assert [update.note for update in milestones] == [
        f"{row.impressions:,}: learned {row.learned:.4f}, logging {row.logging:.4f}" for row in result.rows
    ]
    assert all(isinstance(update.detail, Evaluated) for update in milestones)


def test_the_progress_of_online_methods_is_by_impressions(tmp_path: Path, built: Setup) -> None:
    updates: list[Update] = []
    spec = RunSpec(data=SPEC.data, horizon=3000, method="pdgd", evaluations=(600,))
    Run(spec, tmp_path).resume(built, updates.append)
    assert {update.share for update in updates} == {0.2, 1.0}
