"""Results of runs, read back from their folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop.errors import RankloopError
from rankloop.experiments.results import find_results, read_result
from rankloop.experiments.spec import RunSpec
from tests.experiments import runs


def test_what_was_written_is_read(tmp_path: Path) -> None:
    run = read_result(runs.written(tmp_path / "a"))
    assert (run.name, run.facts, run.rows) == ("a", runs.facts(), runs.ROWS)
    assert run.timing["trained"] == 30.0


def test_what_users_were_shown_counts_by_impressions(tmp_path: Path) -> None:
    run = read_result(runs.written(tmp_path / "a"))
    expected = (100 * 0.5 + 900 * 0.375 + 9000 * 0.6875) / 10_000
    assert run.shown(2) == pytest.approx(expected, rel=1e-12)
    assert run.shown(1) == pytest.approx((100 * 0.5 + 900 * 0.375) / 1000, rel=1e-12)
    assert run.shown(0) == 0.5


def test_what_the_floor_serves_is_the_starting_policy(tmp_path: Path) -> None:
    spec = RunSpec(horizon=10_000, interventions=(100, 1000), floor=0.25)
    run = read_result(runs.written(tmp_path / "a", spec))
    logged = (100 * 0.5 + 900 * 0.375 + 9000 * 0.6875) / 10_000
    assert run.shown(2) == pytest.approx(0.75 * logged + 0.25 * 0.5, rel=1e-12)


def test_runs_are_found_within_folders_and_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    for seed, place in enumerate(("b/run", "a/run", "a/other")):
        runs.written(tmp_path / "all" / place, RunSpec(seed=seed))
    found = find_results([tmp_path / "all"])
    assert [run.name for run in found] == ["a/other", "a/run", "b/run"]
    assert [run.spec.seed for run in found] == [2, 1, 0]
    given = find_results([tmp_path / "all" / "b", tmp_path / "all" / "a" / "run"])
    assert [run.name for run in given] == ["b/run", "a/run"]
    assert [run.name for run in find_results([tmp_path / "all" / "a"])] == ["other", "run"]


def test_a_folder_named_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.written(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    assert len(find_results([Path("a"), tmp_path / "a", tmp_path])) == 1


def test_the_same_run_in_two_folders_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        runs.written(tmp_path / name)
    with pytest.raises(RankloopError, match=r"a and .*b hold the same run, which must not count twice"):
        find_results([tmp_path])


def test_no_run(tmp_path: Path) -> None:
    with pytest.raises(RankloopError, match="holds no run"):
        find_results([tmp_path])
    with pytest.raises(RankloopError, match="nowhere holds no run"):
        find_results([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("facts.json", None, r"facts\.json cannot be read: No such file"),
        ("timing.json", None, r"timing\.json cannot be read"),
        ("spec.json", "{", r"spec\.json is damaged: it is not valid JSON"),
        ("spec.json", "[]", r"spec\.json is damaged, or was written by another version"),
        ("spec.json", '{"horizon": -1}', r"spec\.json is damaged.*: horizon: "),
        (
            "spec.json",
            '{"estimator": "mine"}',
            r"estimator: unknown estimator 'mine'.* is not registered",
        ),
        ("facts.json", "{}", r"facts\.json is damaged.*: dataset: Field required"),
        ("results.jsonl", "not JSON\n", r"results\.jsonl is damaged"),
        ("results.jsonl", '{"impressions": 3}\n', r"results\.jsonl is damaged.*: learned: Field required"),
        ("results.jsonl", "", "the run has no results yet"),
        ("results.jsonl", None, "the run has no results yet"),
    ],
)
def test_missing_and_damaged_files_are_reported(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    folder = runs.written(tmp_path / "a")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(RankloopError, match=message):
        read_result(folder)
