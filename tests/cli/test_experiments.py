"""The commands on clicks: what `run` and `report` take, print and refuse."""

from __future__ import annotations

import json
import shlex
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import rankloop
from rankloop.cli import app, console
from rankloop.errors import RankloopError
from rankloop.experiments.results import read_result
from rankloop.experiments.spec import RunSpec
from rankloop.progress import Update
from tests.experiments import runs

TINY = "synthetic(queries=60, features=5)"
SHORT = [TINY, "--horizon", "1000"]
SMALL = [*SHORT, "--interventions", "1"]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_run_prints_its_rows_and_writes_its_page(tmp_path: Path) -> None:
    result = invoke("run", *SMALL, "-o", tmp_path / "r", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["impressions"] for row in rows] == [100, 1000]
    kept = read_result(tmp_path / "r")
    assert rows == [row.model_dump() for row in kept.rows]
    assert (tmp_path / "r" / "report.html").exists()
    again = invoke("run", *SMALL, "-o", tmp_path / "r")
    assert again.exit_code == 0
    assert f"{kept.rows[-1].learned:.4f}" in again.stdout
    assert "ndcg@5 on the test queries, click-likelihood" in again.stdout


def test_a_run_says_where_it_starts_and_how_far_it_is(tmp_path: Path) -> None:
    result = invoke("run", *SMALL, "-o", tmp_path / "r")
    facts = read_result(tmp_path / "r").facts
    assert f"starting policy: ndcg@5 {facts.start:.4f}; its favourite comes first with probability" in (
        result.stderr
    )
    assert f"{facts.peakedness.support['0.01']:.0%} below 0.01" in result.stderr
    assert f"oracle: ndcg@5 {facts.oracle:.4f}" in result.stderr
    assert "run: 1,000: learned 0." in result.stderr
    assert "starting policy" not in result.stdout


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        ([], False),
        (["--learning", "doubly-robust"], True),
        (["--evidence", "click-noise"], False),
        (["--learning", "paper"], False),
    ],
)
def test_few_held_out_queries_are_said_to_be_few(tmp_path: Path, options: list[str], warned: bool) -> None:
    result = invoke("run", *SMALL, *options, "--no-oracle", "-o", tmp_path / "r")
    assert result.exit_code == 0, result.output
    assert ("--evidence click-noise is slower, and safer" in result.stderr) == warned


def test_a_peaked_start_is_reported_and_a_temperature_softens_it(tmp_path: Path) -> None:
    model = rankloop.save(rankloop.models.Linear(5, np.full(6, 40, np.float32)), tmp_path / "sure")
    options = [*SMALL, "--start", model, "--no-oracle"]
    sure = invoke("run", *options, "-o", tmp_path / "a")
    assert "the starting policy is nearly deterministic." in sure.stderr
    assert "--temperature" in sure.stderr
    assert "oracle" not in sure.stderr
    soft = invoke("run", *options, "--temperature", "100", "-o", tmp_path / "b")
    assert soft.exit_code == 0
    assert "nearly deterministic" not in soft.stderr
    assert read_result(tmp_path / "b").facts.peakedness.top_first < 0.5


def test_a_run_that_is_stopped_says_that_it_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rankloop.experiments.run.share_done", interrupted)
        result = invoke("run", *SMALL, "-o", tmp_path / "r")
    assert result.exit_code == 130
    assert "stopped; run the same command again to resume" in result.stderr
    assert invoke("run", *SMALL, "-o", tmp_path / "r").exit_code == 0


def test_every_bar_of_the_demo_comes_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares: dict[str, float] = {}

    def keep(update: Update) -> None:
        shares[update.task] = update.share or 0.0

    monkeypatch.setattr(console, "progress", lambda: nullcontext(keep))
    assert invoke("demo", *SMALL, "-o", tmp_path / "demo").exit_code == 0
    assert [shares[name] for name in ("loop", "pdgd", "static")] == [1.0, 1.0, 1.0]


def test_options_become_the_spec(tmp_path: Path) -> None:
    spec = RunSpec(
        data=TINY,
        users="position@3",
        relevance="binary(relevant_from=2)",
        start="random",
        temperature=2.0,
        estimator="policy-aware(clip=0.05)",
        learning="paper",
        exploration="as-learned",
        caution=0.5,
        floor=0.125,
        horizon=500,
        interventions=(50,),
        evaluations=(20, 100),
        metric="mrr",
        oracle=False,
        supervised=True,
        seed=7,
    )
    changed = {name for name, value in spec.model_dump().items() if value != getattr(RunSpec(), name)}
    assert changed | {"evidence", "fold", "method", "production_queries", "supervision"} == set(
        RunSpec.model_fields
    )
    result = invoke(*shlex.split(spec.command(str(tmp_path / "r")))[1:])
    assert result.exit_code == 0, result.output
    assert read_result(tmp_path / "r").spec == spec
    few = invoke("run", *SMALL, "--production-queries", "5", "-o", tmp_path / "few")
    assert few.exit_code == 0, few.output
    assert read_result(tmp_path / "few").spec.production_queries == 5


def test_a_start_that_was_kept_is_explained(tmp_path: Path) -> None:
    robust = ("--learning", "doubly-robust", "--caution", "1000")
    kept = invoke("run", *SMALL, *robust, "-o", tmp_path / "robust")
    assert "6 held-out queries are few" in kept.stderr
    assert "on 6 held-out queries, no learned policy gained more than 1000 standard errors" in kept.stderr
    assert read_result(tmp_path / "robust").rows[-1].kept_start
    kept = invoke("run", *SMALL, "--caution", "1000", "-o", tmp_path / "kept")
    assert "no learned policy explains unseen clicks better by 1000 standard errors" in kept.stderr
    assert "held-out queries" not in kept.stderr
    assert read_result(tmp_path / "kept").rows[-1].kept_start
    moved = invoke("run", *SMALL, "--caution", "0", "--estimator", "naive", "-o", tmp_path / "moved")
    assert "was kept" not in moved.stderr
    assert not read_result(tmp_path / "moved").rows[-1].kept_start


@pytest.mark.parametrize("method", ["pdgd", "biased-pdgd", "coltr(candidates=4)"])
def test_online_methods_run_like_estimators(tmp_path: Path, method: str) -> None:
    result = invoke("run", *SHORT, "--method", method, "-o", tmp_path / "online")
    assert result.exit_code == 0, result.output
    online = read_result(tmp_path / "online")
    assert (online.spec.method, online.spec.estimator, online.spec.interventions) == (method, None, "all")
    assert len(online.rows) == len(online.spec.times) > 10
    again = invoke(*shlex.split(online.spec.command(str(tmp_path / "again")))[1:])
    assert again.exit_code == 0, again.output
    assert read_result(tmp_path / "again").rows == online.rows
    report = (tmp_path / "online" / "report.html").read_text()
    assert f"{method}, online" in report
    counterfactual = invoke(
        "run", *SHORT, "--method", method, "--interventions", "100,", "-o", tmp_path / "one"
    )
    assert counterfactual.exit_code == 0, counterfactual.output
    assert read_result(tmp_path / "one").spec.intervention_times == (100,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--method", "pdgd", "--estimator", "ips"), "the online method pdgd does not use estimator"),
        (("--method", "pdgd", "--floor", "0.1"), "the online method pdgd does not use floor"),
        (("--interventions", "all"), "interventions=all is for online methods"),
        (("--method", "pdgb"), "--method: unknown online method 'pdgb', did you mean 'pdgd'"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    result = invoke("run", *SHORT, *options, "-o", tmp_path / "r")
    assert isinstance(result.exception, RankloopError)
    assert message in str(result.exception)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        (
            "--estimator",
            "intervention-awear",
            "--estimator: unknown estimator .* did you mean 'intervention-aware'",
        ),
        ("--exploration", "soft(by=2)", "--exploration: soft: by must be above 0 and at most 1"),
        ("--learning", "papre", "--learning: unknown learning 'papre', did you mean 'paper'"),
        ("--floor", "1.5", "--floor: Input should be less than 1, got 1.5"),
        ("--temperature", "0", "--temperature: Input should be greater than 0, got 0.0"),
        ("--users", "pepper@5", "--users: unknown users 'pepper', did you mean 'paper'"),
        ("--users", "cascade@5", "have no α and β per rank"),
        ("--relevance", "cubic", "--relevance: unknown relevance 'cubic'"),
        ("--relevance", "linear(max_label=2)", "above the highest of the relevance"),
        ("--metric", "ndgc@5", "--metric: unknown metric 'ndgc', did you mean 'ndcg'"),
        (
            "--interventions",
            "many",
            "--interventions: expected a number, such as 20, or times",
        ),
        ("--interventions", "300,200", r"--interventions: the times must ascend .*, got \[300, 200\]"),
        ("--interventions", "300,1000", r"lie before the horizon \(1000\)"),
        ("--interventions", "-3", "--interventions: the number must not be negative, got -3"),
        ("--start", "nowhere", "nowhere does not exist: the start is production, random, or the path"),
        ("--start", "wide", "wide takes 9 features, the documents of synthetic-yahoo have 5"),
        ("--start", "damaged", "damaged: this is not a model file"),
        ("--production-queries", "41", "there are 40 training queries, 41 were requested"),
        ("--fold", "2", "generated data has no folds"),
    ],
)
def test_invalid_options_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, value: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rankloop.save(rankloop.models.Linear(9, np.zeros(10)), "wide")
    Path("damaged").write_text("no model")
    result = invoke("run", TINY, "--horizon", "1000", "-o", "r", option, value)
    assert isinstance(result.exception, RankloopError)
    with pytest.raises(RankloopError, match=message):
        raise result.exception
    assert not Path("r").exists()


def test_a_report_of_one_folder_stands_in_it(tmp_path: Path) -> None:
    for seed in range(2):
        runs.written(tmp_path / "all" / str(seed), RunSpec(horizon=10_000, interventions=2, seed=seed))
    result = invoke("report", tmp_path / "all")
    assert result.exit_code == 0, result.output
    assert "0.8125" in result.stdout
    assert f"wrote {tmp_path / 'all' / 'report.html'}" in result.stdout
    first = (tmp_path / "all" / "report.html").read_bytes()
    assert invoke("report", tmp_path / "all").exit_code == 0
    assert (tmp_path / "all" / "report.html").read_bytes() == first


def test_a_report_of_several_folders_stands_here_or_where_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs.written(Path("a"), RunSpec(horizon=10_000, interventions=2, learning="doubly-robust"))
    runs.written(Path("b"), RunSpec(horizon=10_000, interventions=2, estimator="naive"))
    result = invoke("report", "a", "b", "--json")
    lines = json.loads(result.stdout)
    assert [(line["run"], line["label"]) for line in lines] == [
        ("a", "doubly robust intervention-aware, 2 interventions"),
        ("b", "naive, 2 interventions"),
    ]
    assert lines[0]["learned"] == {"value": 0.8125, "half_width": 0.0}
    assert Path("report.html").exists()
    assert invoke("report", "a", "b", "-o", "deep/page.html").exit_code == 0
    assert Path("deep/page.html").read_bytes() == Path("report.html").read_bytes()


def test_impossible_reports_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        (["report", tmp_path / "nowhere"], "nowhere holds no run"),
        (["report", tmp_path / "empty"], "empty holds no run"),
        (["report", runs.written(tmp_path / "a"), "-o", tmp_path], "it is a folder; name a file in it"),
    ):
        result = invoke(*arguments)
        assert isinstance(result.exception, RankloopError)
        assert message in str(result.exception)
    assert not list(tmp_path.rglob("*.html"))
