"""A run as a folder: what is in it, and that a cut run goes on to the same end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rankloop
from rankloop.errors import RankloopError
from rankloop.experiments import setup as setup_of_runs
from rankloop.experiments.baselines import oracle
from rankloop.experiments.results import read_facts, read_rows, read_run
from rankloop.experiments.run import prepare, run, share_done
from rankloop.experiments.setup import Setup, build_setup
from rankloop.experiments.spec import RunSpec
from rankloop.loop import Evaluated, Event
from rankloop.objectives import expected_reward
from rankloop.training import LEARNING, Epoch
from tests.experiments.cutting import CutError, cut_after

SPEC = RunSpec(data="synthetic(queries=60, features=5)", horizon=3000, interventions=3)
FILES = [
    "checkpoint.rankloop", "facts.json", "learned.rankloop", "results.jsonl", "spec.json", "start.rankloop",
    "timing.json",
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never cut."""
    folder = tmp_path_factory.mktemp("whole")
    run(SPEC, folder)
    return folder


@pytest.fixture(scope="module")
def built() -> Setup:
    return build_setup(SPEC)


def test_everything_is_in_the_folder(whole: Path, built: Setup) -> None:
    assert sorted(path.name for path in whole.iterdir()) == FILES
    kept = read_run(whole)
    assert (kept.version, kept.spec, kept.facts) == (rankloop.__version__, SPEC, built.facts)
    assert [row.timesteps for row in kept.rows] == [100, 311, 965, 3000]
    assert set(kept.timing) == {"prepared", "gathered", "trained", "evaluated", "deployed"}
    assert rankloop.load(whole / "start.rankloop").fingerprint == built.start.fingerprint


def test_rows_are_what_the_loop_says(whole: Path, built: Setup) -> None:
    events = [event for event in built.loop(SPEC).run() if isinstance(event, Evaluated)]
    rows = read_rows(whole)
    for row, event in zip(rows, events, strict=True):
        assert (row.timesteps, row.learned, row.logging) == (event.timesteps, event.learned, event.logging)
        assert row.scale == event.state.scale
        assert list(row.support.values()) == list(event.support.values())
        assert row.estimate == (None if np.isnan(event.estimate) else event.estimate)
        assert row.kept_start == (event.state.learned.fingerprint == built.start.fingerprint)
    assert (rows[0].logging, rows[0].scale) == (built.facts.start, 1.0)
    # Before anything was deployed, the starting policy logs.
    assert rows[0].support == built.facts.peakedness.support
    learned = rankloop.load(whole / "learned.rankloop")
    assert learned.fingerprint == events[-1].state.learned.fingerprint


def test_the_truth_is_the_reward_that_the_estimate_estimates(whole: Path, built: Setup) -> None:
    validation = built.collection.validation
    learned = rankloop.load(whole / "learned.rankloop")
    theta = LEARNING[SPEC.learning].rank_weights(built.users.bias)
    true = expected_reward(
        learned.scores(validation.features), validation.offsets, validation.labels / 4, theta
    )
    last = read_rows(whole)[-1]
    assert last.truth == pytest.approx(true.value / validation.n_queries, rel=1e-12)
    assert last.estimate is not None
    assert last.estimate_error is not None
    # Within six standard errors, clipping aside, unless one of the two is of something else.
    assert abs(last.estimate - last.truth) < 6 * last.estimate_error


def test_facts(built: Setup) -> None:
    facts, data = built.facts, built.collection
    assert facts.queries == {"train": 40, "validation": 6, "test": 14}
    assert facts.documents["test"] == data.test.n_docs
    assert (facts.features, facts.dataset) == (5, "synthetic-yahoo")
    assert facts.alpha == tuple(built.users.bias.alpha)
    assert facts.beta == tuple(built.users.bias.beta)
    scores = built.start.scores(data.test.features)
    assert facts.start == rankloop.policy_metrics(scores, data.test, ["ndcg@5"])["ndcg@5"]
    uniform = rankloop.policy_metrics(np.zeros_like(scores), data.test, ["ndcg@5"])["ndcg@5"]
    assert facts.random == uniform < facts.start
    assert (facts.start_kind, facts.start_fingerprint) == ("mlp", built.start.fingerprint)
    learning = LEARNING[SPEC.learning]
    bound = oracle(
        built.start,
        data,
        built.users.relevance,
        learning.rank_weights(built.users.bias),
        settings=learning.settings,
        rng=np.random.default_rng(SPEC.seed),
    )
    scores = bound.scores(data.test.features)
    assert facts.full_information == rankloop.policy_metrics(scores, data.test, ["ndcg@5"])["ndcg@5"]


def test_the_loop_is_what_the_spec_says(built: Setup) -> None:
    spec = RunSpec(
        estimator="affine", learning="paper", exploration="as-learned", floor=0.25, horizon=500,
        interventions=(7, 50), metric="mrr", seed=9,
    )  # fmt: skip
    loop = built.loop(spec)
    assert (str(loop.estimator), str(loop.exploration)) == ("affine", "as-learned")
    assert loop.learning == LEARNING["paper"]
    careful = built.loop(spec.model_copy(update={"caution": 1.5})).learning.settings
    assert careful == replace(LEARNING["paper"].settings, caution=1.5)
    assert (loop.floor, loop.horizon, loop.interventions) == (0.25, 500, (7, 50))
    assert (loop.metric, loop.seed) == ("mrr", 9)
    assert (loop.dataset, loop.source, loop.start) == (built.collection, built.users, built.start)


def test_full_information_may_be_left_out_and_the_metric_chosen() -> None:
    seen: list[str] = []

    def watch(name: str, _epoch: Epoch) -> None:
        seen.append(name)

    spec = SPEC.model_copy(update={"full_information": False, "metric": "mrr", "start": "random"})
    built = build_setup(spec, watch)
    assert built.facts.full_information is None
    assert seen == []
    assert built.facts.start == pytest.approx(built.facts.random, abs=1e-12)
    assert built.facts.random != build_setup(spec.model_copy(update={"metric": "ndcg@5"})).facts.random
    build_setup(SPEC, watch)
    assert list(dict.fromkeys(seen)) == ["starting policy", "full information"]


@pytest.mark.parametrize("events", [1, 3, 4, 6])
def test_a_run_that_was_cut_goes_on_to_the_same_end(whole: Path, tmp_path: Path, events: int) -> None:
    with pytest.raises(CutError):
        run(SPEC, tmp_path, cut_after(events))
    assert run(SPEC, tmp_path) == read_rows(whole)
    # The times differ, and nothing else does.
    for name in set(FILES) - {"timing.json"}:
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def test_a_row_written_before_its_checkpoint_is_not_counted_twice(whole: Path, tmp_path: Path) -> None:
    states = [event.state for event in build_setup(SPEC).loop(SPEC).run()]
    run(SPEC, tmp_path)
    # As if the plug had been pulled between the last row and its checkpoint.
    (tmp_path / "checkpoint.rankloop").write_bytes(states[-2].to_bytes())
    assert run(SPEC, tmp_path) == read_rows(whole)


def test_time_adds_up_over_all_calls(tmp_path: Path) -> None:
    with pytest.raises(CutError):
        run(SPEC, tmp_path, cut_after(2))
    before = read_run_timing(tmp_path)
    assert set(before) == {"prepared", "gathered", "trained"}
    run(SPEC, tmp_path)
    after = read_run_timing(tmp_path)
    assert after["prepared"] == before["prepared"]
    assert after["trained"] > before["trained"]
    run(SPEC, tmp_path)
    assert read_run_timing(tmp_path) == after


def read_run_timing(folder: Path) -> dict[str, float]:
    content: dict[str, float] = json.loads((folder / "timing.json").read_text())
    return content


def test_what_was_prepared_is_not_prepared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = prepare(SPEC, tmp_path)
    monkeypatch.setattr(setup_of_runs, "starting_policy", None)
    again = prepare(SPEC, tmp_path)
    assert (again.facts, again.start.fingerprint) == (first.facts, first.start.fingerprint)


def test_a_stored_start_that_has_changed_since_does_not_change_the_run(tmp_path: Path) -> None:
    path = tmp_path / "start"
    spec = SPEC.model_copy(update={"start": str(path)})
    rankloop.save(rankloop.Linear(5, np.arange(6.0)), path)
    begun = prepare(spec, tmp_path / "run")
    rankloop.save(rankloop.Linear(5, np.zeros(6)), path)
    assert prepare(spec, tmp_path / "run").start.fingerprint == begun.start.fingerprint


def test_grounds_may_be_shared(tmp_path: Path, built: Setup, whole: Path) -> None:
    rows = run(SPEC, tmp_path, shared=built)
    assert rows == read_rows(whole)
    assert read_facts(tmp_path) == built.facts


def test_a_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    prepare(SPEC, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(RankloopError, match=r"holds another run \(its seed is 0, not 1\): choose another"):
        run(SPEC.model_copy(update={"seed": 1}), tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_is_said_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RankloopError, match="cannot be written"):
        prepare(SPEC.model_copy(update={"data": "nowhere"}), tmp_path / "file" / "run")


def test_the_share_done_ends_at_one() -> None:
    shares: list[float] = []

    def watch(event: Event) -> None:
        shares.append(share_done(SPEC, event))

    for event in build_setup(SPEC).loop(SPEC).run():
        watch(event)
    assert shares == sorted(set(shares))
    assert (shares[0], shares[-1]) == (1 / 15, 1.0)
