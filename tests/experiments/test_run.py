"""A run as a folder: what is in it, and that a cut run goes on to the same end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rankloop.cli import app
from rankloop.errors import RankloopError
from rankloop.experiments import run as experiment
from rankloop.loop import Event

SPEC = experiment.RunSpec(data="synthetic(queries=60, features=5)", horizon=3000, interventions=3)


class Cut(Exception):  # noqa: N818
    """Somebody pulled the plug."""


def test_a_run_writes_its_spec_its_rows_and_its_curves(tmp_path: Path) -> None:
    rows = experiment.run(SPEC, tmp_path)
    assert [row["timesteps"] for row in rows] == [100, 311, 965, 3000]
    assert [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()] == rows
    assert json.loads((tmp_path / "spec.json").read_text())["estimator"] == "intervention-aware"
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("events", [1, 3, 4, 6])
def test_a_run_that_was_cut_goes_on_to_the_same_end(tmp_path: Path, events: int) -> None:
    whole = experiment.run(SPEC, tmp_path / "whole")
    left = events

    def cut(_event: Event) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Cut

    with pytest.raises(Cut):
        experiment.run(SPEC, tmp_path / "cut", cut)
    assert experiment.run(SPEC, tmp_path / "cut") == whole
    for name in ("results.jsonl", "checkpoint.rankloop"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_row_written_before_its_checkpoint_is_not_counted_twice(tmp_path: Path) -> None:
    whole = experiment.run(SPEC, tmp_path)
    states = [event.state for event in SPEC.loop().run()]
    # As if the plug had been pulled between the last row and its checkpoint.
    (tmp_path / "checkpoint.rankloop").write_bytes(states[-2].to_bytes())
    assert experiment.run(SPEC, tmp_path) == whole


def test_a_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    experiment.run(SPEC, tmp_path)
    before = (tmp_path / "results.jsonl").read_bytes()
    with pytest.raises(RankloopError, match="holds another run"):
        experiment.run(SPEC.model_copy(update={"seed": 1}), tmp_path)
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_the_command_runs_and_prints_rows(tmp_path: Path) -> None:
    arguments = ["run", SPEC.data, "--horizon", "2000", "--interventions", "1", "-o", str(tmp_path / "r")]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert [row["timesteps"] for row in json.loads(result.stdout)] == [100, 2000]
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 0
    assert "2,000" in again.stdout


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--estimator", "intervention-awear", "did you mean 'intervention-aware'"),
        ("--exploration", "soft(by=2)", "by must be above 0 and at most 1"),
        ("--learning", "fast", "--learning: Input should be 'robust' or 'paper'"),
        ("--floor", "1.5", "--floor: Input should be less than 1"),
        ("--users", "pepper@5", "did you mean 'paper'"),
        ("--users", "cascade@5", "have no α and β by rank"),
        ("--relevance", "linear(max_label=2)", "above the highest of the relevance"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, option: str, value: str, message: str) -> None:
    folder = tmp_path / "r"
    result = CliRunner().invoke(app, ["run", SPEC.data, "-o", str(folder), option, value])
    assert isinstance(result.exception, RankloopError)
    assert message in str(result.exception)
    assert not folder.exists()
