"""The commands on a log: what `fit`, `rank` and `evaluate` print and write, and what they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop.bias import load_bias, save_bias
from rankloop.bias.storage import read_bias
from rankloop.models import Linear
from rankloop.offline import EvaluationOptions, open_log
from rankloop.reports.fit import fit_document
from rankloop.reports.html import html_page
from tests.cli.commands import Run
from tests.logs.logs_of import Row, write_rows
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated

TREES = "lightgbm(min_documents=2, rounds=5)"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("cli") / "log", queries=40, impressions=4_000)


@pytest.fixture
def log(world: Simulated) -> str:
    return str(world.log.folder)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_fit_stores_a_policy_with_all_that_belongs_to_it(run: Run, log: str, tmp_path: Path) -> None:
    code, out, _ = run("fit", log, "--model", TREES, "--bias", "paper@3", "-o", "new", "--seed", "3")
    assert code == 0
    expected = open_log(log).fit(TREES, bias=BIAS, seed=3)
    assert sorted(files(tmp_path)) == [
        "new/bias.json", "new/fit.json", "new/judged.parquet", "new/model.rankloop", "new/report.html",
    ]  # fmt: skip
    stored = rankloop.load_fit("new")
    assert (stored.name, stored.to_dict()) == ("new", expected.to_dict())
    # The bias is a file of its own; the model is trees and nothing else, and ranks without it.
    np.testing.assert_array_equal(load_bias("new/bias.json").alpha, BIAS.alpha)
    assert Path("new/model.rankloop").read_bytes() == expected.model.to_bytes()
    assert stored.held_out_queries == expected.held_out_queries
    assert Path("new/report.html").read_text() == html_page(fit_document(expected))
    held = expected.held_out
    assert re.search(rf"│ sorted by the model’s scores +│ +{held.new.value:.4f} │", out)
    assert re.findall(r"^wrote (.+)$", out, re.MULTILINE) == sorted(files(tmp_path))


def test_fit_as_json_estimates_the_bias_by_default(run: Run, log: str) -> None:
    code, out, _ = run("fit", log, "--model", "linear", "--json")
    assert code == 0
    facts = json.loads(out)
    assert (facts["path"], facts["page"]) == ("policy", "policy/report.html")
    assert facts["model"] == "linear"
    estimated = load_bias("policy/bias.json")
    assert estimated.alpha.tolist() == facts["bias"]["alpha"]
    _, details = read_bias("policy/bias.json")
    assert details is not None
    assert len(details["resampled"]["alpha"]) == details["resamples"]
    assert json.loads(Path("policy/bias.json").read_text())["estimate"]["model"] == "affine"


def test_fit_with_another_estimator_and_fewer_ranks(run: Run, log: str) -> None:
    code, out, _ = run("fit", log, "--model", "linear", "--estimator", "ips", "--ranks", "2", "--json")
    assert code == 0
    facts = json.loads(out)
    assert facts["estimator"] == "ips"
    assert len(facts["bias"]["alpha"]) == 2


@pytest.mark.parametrize("stored", ["fit", "model"])
@pytest.mark.parametrize("model", ["linear", TREES])
def test_rank_a_run_to_standard_output_or_a_file(
    run: Run, log: str, world: Simulated, model: str, stored: str, tmp_path: Path
) -> None:
    found = world.log.fit(model, bias=BIAS)
    if stored == "fit":
        found.save("policy")
    else:
        rankloop.save(found.model, "policy")
    code, out, _ = run("rank", "policy", log, "--top", "2", "--format", "trec", "--tag", "mine")
    assert code == 0
    assert out == world.log.rank(found, top=2).trec("mine")
    lines = [line.split() for line in out.splitlines()]
    assert len(lines) == np.minimum(world.split.sizes, 2).sum()
    assert {(line[1], line[5]) for line in lines} == {("Q0", "mine")}
    assert run("rank", "policy", log, "--top", "2", "--tag", "mine", "-o", "run.trec").out == (
        f"wrote run.trec: {len(lines)} documents of 40 queries\n"
    )
    assert (tmp_path / "run.trec").read_text() == out
    assert run("rank", "policy", log, "--top", "2", "-o", "run.txt").code == 0
    assert (tmp_path / "run.txt").read_text() == world.log.rank(found, top=2).tsv()
    assert run("rank", "policy", f"{log}/features.parquet", "-o", "run.parquet").code == 0
    assert len(pq.read_table("run.parquet")) == world.split.n_documents
    first, again, other = (
        run("rank", "policy", log, "--draw", "--seed", seed).out for seed in ("1", "1", "2")
    )
    assert first == again != other


def test_rank_writes_text_queries_as_the_documentation_says(run: Run, tmp_path: Path) -> None:
    """`rankloop rank new.rankloop log --top 10`; before: "a TREC run cannot hold" the query 'red shoes'."""
    rows = [Row(number, "red shoes", "a", 1, "x\ty", True) for number in range(3)]
    features = {"query_id": ["red shoes"] * 2, "doc_id": ["x\ty", "ü"], "f": [0.5, 2.0]}
    pq.write_table(pa.table(features), write_rows(tmp_path / "log", rows) / "features.parquet")
    rankloop.save(Linear(1, np.array([1.0, 0.0]), feature_names=("f",)), "new.rankloop")
    code, out, _ = run("rank", "new.rankloop", "log", "--top", "10")
    assert code == 0
    assert out == 'query_id\tdoc_id\trank\tscore\nred shoes\tü\t1\t2.0\nred shoes\t"x\ty"\t2\t0.5\n'
    code, out, _ = run("rank", "new.rankloop", "log", "--top", "1", "--format", "jsonl")
    assert json.loads(out) == {"query_id": "red shoes", "doc_id": "ü", "rank": 1, "score": 2.0}
    code, _, err = run("rank", "new.rankloop", "log", "--format", "trec")
    assert code != 0
    assert "write another format" in " ".join(err.split())
    code, _, err = run("rank", "new.rankloop", "log", "--format", "xml")
    assert code != 0
    assert "--format is tsv, jsonl, trec or parquet, not 'xml'" in " ".join(err.split())


@pytest.mark.parametrize("name", ["held-out.json", "held-out.txt"])
def test_evaluate_says_what_python_says(run: Run, log: str, world: Simulated, name: str) -> None:
    found = world.log.fit("linear", bias=BIAS, judge="split")
    rankloop.save(found.model, "new")
    save_bias(BIAS, "bias.json")
    queries = found.held_out_queries
    Path(name).write_text(json.dumps(queries) if name.endswith("json") else "\n".join(queries))
    options = ["--policy", "new", "--against", "production", "--bias", "bias.json", "--metric", "clicks"]
    more = ["--ranking", "drawn", "--queries", name, "--support", "0.01", "--seed", "4"]
    code, out, _ = run("evaluate", log, *options, *more, "--json", "-o", "page.html")
    assert code == 0
    chosen = EvaluationOptions(ranking="drawn", support=0.01, seed=4)
    expected = world.log.evaluate(
        Path("new"), "production", bias=BIAS, metric="clicks", queries=queries, options=chosen
    )
    assert _rounded(out) == {**_rounded(json.dumps(expected.to_dict())), "page": "page.html"}
    assert Path("page.html").read_text().startswith("<!DOCTYPE html>")
    code, out, _ = run("evaluate", log, *options, *more)
    assert code == 0
    gain = expected.difference.estimate
    assert re.search(rf"│ difference +│ +{gain.value:.4f} │ {gain.low:.4f} to {gain.high:.4f} │", out)
    assert out.startswith(f"{expected.conclusion}\n")
    assert "\nnote: Only 8 queries are used" in out
    assert out.endswith("\nwrote evaluation.html\n")


def test_a_fitted_policy_is_judged_by_models_that_never_saw_a_query(run: Run, log: str) -> None:
    assert run("fit", log, "--bias", "paper@3", "--model", "linear", "-o", "new").code == 0
    code, out, _ = run("evaluate", log, "--policy", "new", "--against", "production", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["queries"] == 40
    assert any("Each of its 40 queries is ranked by one of 5 models" in note for note in found["notes"])


def test_a_fitted_policy_is_judged_on_the_queries_that_it_held_out(run: Run, log: str) -> None:
    fit = ["fit", log, "--bias", "paper@3", "--model", "linear", "--judge", "split", "-o", "new"]
    assert run(*fit).code == 0
    options = ["--policy", "new", "--against", "production", "--json"]
    code, out, _ = run("evaluate", log, *options)
    assert code == 0
    found = json.loads(out)
    note = "Estimated on the 8 queries of this log that new was not fitted to."
    assert (found["queries"], found["new"]["name"]) == (8, "new")
    assert {note, "The bias is the one that new was fitted with."} <= set(found["notes"])
    assert note in Path("evaluation.html").read_text()
    everything = json.loads(run("evaluate", log, *options, "--queries", "all").out)
    assert everything["queries"] == 40
    assert any("was fitted to clicks on all queries" in note for note in everything["notes"])


def test_evaluate_with_an_estimated_bias(run: Run, log: str) -> None:
    code, out, _ = run("evaluate", log, "--policy", "later", "--against", "production", "--json")
    assert code == 0
    found = json.loads(out)
    known = dict.fromkeys(("bias", "exploration", "queries", "complete"), "held")
    assert known.items() <= {one["name"]: one["state"] for one in found["assumptions"]}.items()
    assert found["decision"]["kind"] in ("better", "worse", "undecided")


def test_a_scheduler_can_require_a_decision(run: Run, log: str) -> None:
    """Every decision exited with 0; it still does, unless one is required."""
    same = ["--policy", "later", "--against", "later", "--bias", "paper@3"]
    for required, code in ((None, 0), ("same", 0), ("undecided", 0), ("leans-better", 11), ("better", 11)):
        found = run("evaluate", log, *same, *(["--require", required] if required else []))
        assert found.code == code
        assert found.out.startswith("Same: later and later rank in the same way")
    found = run("evaluate", log, *same, "--require", "good")
    assert found.code not in (0, 11)
    assert "a decision is one of worse, leans-worse" in found.err


NAMED = {"query_id": ["q", "q", "r", "r"], "doc_id": ["x", "y", "x", "y"]}
ALWAYS = [
    Row(f"{query}{number}", query, "sorts", rank + 1, document, number == rank)
    for query in "qr"
    for number in range(3)
    for rank, document in enumerate("xy")
]


def small_log(name: str, rows: list[Row], features: dict[str, Any]) -> None:
    write_rows(Path(name), rows)
    pq.write_table(pa.table(features), Path(name) / "features.parquet")


WRONG = [
    (["fit", "nowhere"], "nowhere is not a folder"),
    (["fit", "LOG", "--model", "mpl", "--bias", "paper@3"], "unknown model 'mpl', did you mean 'mlp'"),
    (["fit", "LOG", "--learning", "robots"], "unknown learning 'robots'"),
    (
        ["fit", "LOG", "--bias", "papr@3"],
        "the bias 'papr@3' is neither a file nor the name of simulated users",
    ),
    (["fit", "LOG", "--bias", "none.json"], "none.json: cannot read the bias"),
    (["fit", "LOG", "--bias", "file"], "file, line 1: the file is damaged or is not a bias file"),
    (["fit", "LOG", "--bias", "paper@3", "--ranks", "2"], "--ranks is for --bias estimate"),
    (
        ["fit", "LOG", "--bias", "paper@3", "-o", "folder"],
        "folder cannot be written: it is a folder with oth",
    ),
    (["fit", "LOG", "--bias", "paper@3", "-o", "file"], "file cannot be written: it is a file"),
    (["fit", "LOG", "--estimator", "afine"], "unknown estimator 'afine'"),
    (
        ["fit", "LOG", "--bias", "paper@3", "--validation", "2"],
        "the share of the queries to hold out is between 0 and 1",
    ),
    (["fit", "sorting"], r"the bias cannot be estimated from this log: .*[^.;]\. Or give one \(--bias"),
    (["fit", "empty", "--bias", "paper@3"], "the log is empty"),
    (["fit", "empty"], "the log is empty"),
    (["fit", "foreign", "--bias", "paper@3"], "none of the log's 4 documents has features"),
    (
        ["fit", "nan", "--bias", "paper@3", "--model", "linear"],
        "query 'r', document 'y': feature 'age' is missing",
    ),
    (["fit", "nan", "--bias", "paper@3", "--missing", "x"], "missing must be error, zero or mean, not 'x'"),
    (["rank", "nowhere", "LOG"], "nowhere: cannot read the model"),
    (["rank", "file", "LOG"], "file: this is not a model file"),
    (["rank", "wide", "LOG"], "3 features, but the policy wide takes 9"),
    (["rank", "stored", "nan"], "feature 'age' is missing in 1 rows"),
    (["rank", "stored", "elsewhere"], "elsewhere does not exist"),
    (["rank", "stored", "LOG", "-o", "folder"], "folder cannot be written"),
    (["evaluate", "LOG", "--policy", "wide", "--against", "later"], "3 features, but wide takes 9"),
    (["evaluate", "LOG", "--policy", "nobody", "--against", "later"], "'nobody' is neither a policy of the"),
    (["evaluate", "LOG", "--policy", "later", "--against", "later", "--queries", "none"], "cannot be read"),
    (
        ["evaluate", "LOG", "--policy", "later", "--against", "later", "--queries", "file"],
        "is not in the log",
    ),
    (
        ["evaluate", "LOG", "--policy", "later", "--against", "later", "--metric", "mrr"],
        "cannot be estimated",
    ),
    (["evaluate", "LOG", "--policy", "later", "--against", "later", "--ranking", "x"], "rankings are sorted"),
    (["evaluate", "LOG", "--policy", "later", "--against", "later", "-o", "folder"], "it is a folder"),
    (["evaluate", "empty", "--policy", "a", "--against", "b"], "the log is empty"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_what_is_wrong_is_said_in_one_line(
    run: Run, log: str, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "file").write_text("neither a model nor a bias")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("not a fit")
    rankloop.save(Linear(9, np.zeros(10)), "wide")
    rankloop.save(Linear(1, np.zeros(2)), "stored")
    ages = {"age": [1.0, 2.0, 3.0, 4.0]}
    small_log("sorting", ALWAYS, NAMED | ages)
    small_log("empty", [], NAMED | ages)
    small_log("foreign", ALWAYS, NAMED | ages | {"doc_id": ["v", "w"] * 2})
    small_log("nan", ALWAYS, NAMED | {"age": [1.0, 2.0, 3.0, np.nan]})
    before = files(tmp_path)
    if arguments[0] == "evaluate" and "--bias" not in arguments and arguments[1] != "empty":
        arguments = [*arguments, "--bias", "paper@3"]
    code, out, err = run(*(log if argument == "LOG" else argument for argument in arguments))
    said = [line for line in err.splitlines() if line.startswith("rankloop: ")]
    assert (code, out) == (2, "")
    assert len(said) == 1
    assert re.match(f"rankloop: .*{message}", said[0])
    assert "Traceback" not in err
    assert files(tmp_path) == before


def test_the_exit_code_of_a_pipeline_is_that_of_the_decision(run: Run, log: str) -> None:
    """There was no command to gate a deployment on: `evaluate` exits with 0 whatever it finds."""
    code, out, _ = run("pipeline", log, "--model", TREES, "--bias", "paper@3", "-o", "nightly", "--json")
    found = json.loads(out)
    codes = {"better": 0, "leans better": 10, "same": 11, "undecided": 12, "leans worse": 13, "worse": 14}
    assert code == found["exit_code"] == codes[found["decision"]["kind"]]
    assert Path("nightly/index.html").exists()
    assert run("pipeline", log, "--bias", "papr@3").code == 2


def test_queries_are_held_out_from_a_date_on(run: Run, log: str) -> None:
    code, _, err = run("fit", log, "--model", TREES, "--bias", "paper@3", "--hold-out-from", "soon")
    assert code == 2
    assert "'soon' is not a time" in err


def test_relevance_is_a_table_that_evaluate_takes(run: Run, log: str) -> None:
    found = run("relevance", log, "--bias", "paper@5", "-o", "relevance.parquet")
    assert found.code == 0
    assert "Next: evaluate it as a policy on another log" in " ".join(found.out.split())
    told = json.loads(run("relevance", log, "--bias", "paper@5", "--no-shrink", "-o", "r.csv", "--json").out)
    assert told["documents"] > 0
    assert Path("r.csv").read_text().startswith('"query_id","doc_id","score"')
    judged = run(
        "evaluate", log, "--policy", "relevance.parquet", "--against", "production", "--bias", "paper@5"
    )
    assert judged.code == 0
    assert "computed from the clicks of this very log" in " ".join(judged.out.split())


def test_sensitivity_is_on_the_page_in_the_terminal_and_in_json(run: Run, log: str) -> None:
    """Before: rankloop.sensitivity existed, and no command used it."""
    arguments = ("evaluate", log, "--policy", "later", "--against", "production", "--bias", "paper@5")
    found = run(*arguments, "--sensitivity", "-o", "page.html")
    assert found.code == 0
    assert "under all 4 biases" in found.out or "The decision depends on the bias" in found.out
    assert "How much the bias matters" in Path("page.html").read_text()
    told = json.loads(run(*arguments, "--sensitivity", "--json").out)
    assert len(told["sensitivity"]["rows"]) == 4


def _rounded(text: str) -> Any:
    """JSON without the last digits: two readings of a log may add in another order."""
    return json.loads(text, parse_float=lambda number: round(float(number), 9))


def test_a_command_that_is_stopped_says_what_is_there(
    run: Run, log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    Path("clicks.csv").write_text("query_id,doc_id,rank,clicked\nq,a,1,1\nq,b,2,0\n", encoding="utf-8")
    for place, name, arguments in (
        (rankloop.offline.Log, "check", ["check", log]),
        (rankloop.offline.Log, "estimate_bias", ["bias", log]),
        (rankloop.offline.Log, "relevance", ["relevance", log]),
        (rankloop.offline.Log, "fit", ["fit", log, "--model", "linear"]),
        (rankloop.offline.Log, "evaluate", ["evaluate", log, "--policy", "a", "--against", "b"]),
        (rankloop.offline.Log, "backtest", ["backtest", log]),
        (rankloop.logs, "import_columns", ["import", "columns", "clicks.csv"]),
        (rankloop, "train", ["train", "synthetic(queries=40, features=4)"]),
    ):
        before = files(tmp_path)
        monkeypatch.setattr(place, name, interrupted)
        code, out, err = run(*arguments)
        assert (code, out) == (130, ""), arguments
        assert "stopped; nothing was written\n" in err, arguments
        assert files(tmp_path) == before, arguments
    err = run("pipeline", log, "-o", "nightly", "--model", "linear").err
    assert "stopped; the stages that are done, if any, are in nightly; the same command starts again\n" in err


def test_a_later_result_replaces_an_earlier_one_and_nothing_else(run: Run, log: str, tmp_path: Path) -> None:
    for arguments in (
        ["bias", log, "--curve", "paper@3", "--method", "assumed", "-o", "bias.json"],
        ["relevance", log, "--bias", "paper@3", "-o", "relevance.csv"],
        ["fit", log, "--bias", "paper@3", "--model", "linear", "--judge", "none", "-o", "policy"],
    ):
        out = tmp_path / arguments[-1]
        assert run(*arguments).code == 0
        file = out / "bias.json" if out.is_dir() else out
        made = file.read_bytes()
        file.write_bytes(b"of before")
        assert run(*arguments).code == 0
        assert file.read_bytes() == made
    (tmp_path / "policy" / "notes.txt").write_text("mine", encoding="utf-8")
    before = files(tmp_path)
    code, _, err = run(*arguments)
    assert code == 2
    assert "policy cannot be written: it is a folder with other files (notes.txt)" in err
    assert files(tmp_path) == before
