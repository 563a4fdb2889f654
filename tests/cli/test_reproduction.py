"""The command that makes the paper's experiments: what it says, writes and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rankloop.cli import app
from rankloop.errors import RankloopError
from rankloop.experiments.reproduce import FIGURES, PRESETS
from tests.experiments.reproduce.small import CURVES, TINY


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder in which the presets and the figures are small."""
    monkeypatch.setitem(PRESETS, "quick", TINY.model_copy(update={"runs": 1}))
    monkeypatch.setitem(FIGURES, "curves", CURVES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_says_what_it_will_do_does_it_and_says_what_came_of_it(tiny: Path) -> None:
    result = invoke("--only", "curves", "--runs", 2, "-o", "out")
    assert result.exit_code == 0, result.output
    said = result.stderr
    assert "curves: 3 learners × 2 runs = 6 runs on synthetic(queries=60, features=5)" in said
    assert "up to 1,000 impressions, on" in said
    assert said.index("6 runs on synthetic") < said.index("1 of 6 runs") < said.index("6 of 6 runs, 100%")
    assert "✓ aware-unbiased" in result.stdout
    assert "5 of 23 claims hold" in result.stdout
    assert "wrote out/claims.md and out/report.html" in result.stdout
    assert (tiny / "out" / "figures" / "curves.pdf").exists()
    again = invoke("--only", "curves", "--runs", 2, "-o", "out")
    assert "(6 of them finished before)" in again.stderr


def test_parts_are_made_by_seeds_and_merged(tiny: Path) -> None:
    for seed in (0, 1):
        result = invoke("--only", "curves", "--runs", 2, "--seeds", seed, "-o", f"part-{seed}")
        assert result.exit_code == 0, result.output
        assert "curves: 3 learners × 1 run = 3 runs on" in result.stderr
        assert f"runs not made: intervention-aware-0: seed {1 - seed};" in result.stdout
    merged = invoke("--merge", "part-0", "part-1", "-o", "both")
    assert merged.exit_code == 0, merged.output
    assert "5 of 23 claims hold" in merged.stdout
    assert "runs not made" not in merged.stdout
    assert (tiny / "both" / "figures" / "curves.pdf").exists()
    refused = invoke("--merge", "part-0", "part-1", "--only", "curves", "-o", "both")
    assert "--merge takes folders and --out, and no other option" in str(refused.exception)
    assert "only --merge takes several folders" in str(invoke("part-0", "part-1").exception)


@pytest.mark.usefixtures("tiny")
def test_parts_are_made_by_learners_and_merged() -> None:
    # Without --only: the figures that show the learner.
    result = invoke("--learner", "affine-4", "-o", "affine")
    assert result.exit_code == 0, result.output
    assert "curves: 1 learner × 1 run = 1 run on" in result.stderr
    assert "runs not made: intervention-aware-0: seed 0; pdgd-online: seed 0\n" in result.stdout
    options = ("--learner", "intervention-aware-0", "--learner", "pdgd-online", "-o", "others")
    others = invoke("--only", "curves", *options)
    assert "curves: 2 learners × 1 run = 2 runs on" in others.stderr
    merged = invoke("--merge", "affine", "others", "-o", "both")
    assert merged.exit_code == 0, merged.output
    assert "runs not made" not in merged.stdout
    refused = invoke("--merge", "affine", "others", "--learner", "affine-4", "-o", "both")
    assert "--merge takes folders and --out, and no other option" in str(refused.exception)


def test_what_needs_no_runs_needs_no_data(tiny: Path) -> None:
    result = invoke("nowhere", "--only", "example", "-o", "out")
    assert result.exit_code == 0, result.output
    assert "example: no runs are needed" in result.stderr
    assert (tiny / "out" / "figures" / "example.svg").exists()


def test_options_become_the_preset(tiny: Path) -> None:
    options = ["--horizon", 600, "--learning", "robust", "--relevance", "linear(max_label=5)"]
    result = invoke("synthetic(queries=50, features=4)", *options, "--only", "curves", "-o", "out")
    assert result.exit_code == 0, result.output
    page = (tiny / "out" / "claims.md").read_text()
    for told in (
        "--horizon 600",
        "--learning robust",
        "linear(max_label=5)",
        "synthetic(queries=50, features=4)",
    ):
        assert told in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--preset", "papre"), "unknown preset 'papre', did you mean 'paper'"),
        (("--only", "estimator"), "unknown figure 'estimator', did you mean 'estimators'"),
        (("--engine", "rey"), "unknown engine 'rey', did you mean 'ray'"),
        (("--learning", "papre"), "--learning: unknown learning 'papre'"),
        (("--relevance", "cubic"), "--relevance: unknown relevance 'cubic'"),
        (("nowhere",), "nowhere does not exist"),
        (("--learner", "pdgd-onlin"), "unknown learner 'pdgd-onlin', did you mean 'pdgd-online'"),
        (
            ("--only", "pdgd", "--learner", "affine-50"),
            "unknown learner 'affine-50'; there are: intervention-aware-0, pdgd-0",
        ),
        (("--seeds", "3-"), "seeds are written as 3-5 or 3,7"),
        (("--seeds", "1-2"), "--seeds 1-2 is beyond --runs 1, whose seeds are 0"),
        (("--fold", "2"), "generated data has no folds"),
    ],
)
def test_errors_are_raised_before_anything_is_written(
    tiny: Path, options: tuple[str, ...], message: str
) -> None:
    result = invoke(*options, "-o", "out")
    assert isinstance(result.exception, RankloopError)
    assert message in str(result.exception)
    assert not (tiny / "out").exists()


def test_a_folder_that_holds_another_is_left_alone(tiny: Path) -> None:
    assert invoke("--only", "example", "-o", "out").exit_code == 0
    result = invoke("--only", "example", "--horizon", 500, "-o", "out")
    assert isinstance(result.exception, RankloopError)
    assert "out holds another reproduction (its horizon is 1000, not 500)" in str(result.exception)
    assert (tiny / "out" / "claims.md").exists()


def test_stopped_it_says_that_it_can_be_resumed(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rankloop.experiments.reproduce.reproduction.judge", interrupted)
    result = invoke("--only", "example", "-o", "out")
    assert result.exit_code == 130
    assert "stopped; run the same command again to resume" in result.stderr
    assert not (tiny / "out" / "claims.md").exists()
