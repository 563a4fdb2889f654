"""The command line: what it prints, what it writes, and how it says what went wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.main

import rankloop
from rankloop import cli
from rankloop.cli import console
from rankloop.models import Linear
from tests.cli.commands import Outcome, Run

TINY = "synthetic(queries=40, features=4)"
COMMANDS = sorted(typer.main.get_command(cli.app).commands)  # type: ignore[attr-defined]


def in_a_process(*arguments: str) -> Outcome:
    command = [sys.executable, "-m", "rankloop", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_version_in_a_process() -> None:
    assert in_a_process("--version") == (0, f"rankloop {rankloop.__version__}\n", "")


def test_an_error_in_a_process_is_one_line() -> None:
    code, out, err = in_a_process("describe", "nowhere")
    assert (code, out) == (2, "")
    assert re.fullmatch(r"rankloop: nowhere does not exist.*\n", err)


def test_without_arguments_help_lists_the_commands(run: Run) -> None:
    code, out, err = run()
    assert code in (0, 2)  # versions of typer differ
    for command in COMMANDS:
        assert re.search(rf"^│ {command} ", out + err, re.MULTILINE)


def test_help_groups_the_commands_as_the_page_of_the_reference_does(run: Run) -> None:
    root: Any = typer.main.get_command(cli.app)
    groups: dict[str, set[str]] = {}
    for name, command in root.commands.items():
        groups.setdefault(command.rich_help_panel.lower(), set()).add(name)
    page = Path(__file__).parents[2] / "docs" / "cli.md"
    rows = re.findall(r"^\| ([a-z ]+) \| (\[`.*) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert groups == {title: {*re.findall(r"`([a-z]+)`", row)} for title, row in rows}
    shown = run("--help").out
    for title in cli.GROUPS:
        assert f"─ {title} ─" in shown


def test_train_then_measure(run: Run, tmp_path: Path) -> None:
    trained = run(
        "train", TINY, "--model", "mlp(hidden=4)", "--epochs", "2", "--out", "a/b.rankloop", "--json"
    )
    assert trained.code == 0
    facts = json.loads(trained.out)
    assert list(facts) == [
        "model", "fingerprint", "data", "path", "epochs", "best_epoch", "validation", "ranking", "policy",
    ]  # fmt: skip
    assert (facts["model"], facts["path"], facts["epochs"]) == ("mlp", "a/b.rankloop", 2)
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b.rankloop"]
    model = rankloop.load(tmp_path / "a" / "b.rankloop")
    assert model.fingerprint == facts["fingerprint"]
    test = rankloop.dataset(TINY).test
    scores = model.scores(test.features)
    assert facts["ranking"] == rankloop.ranking_metrics(scores, test, ["ndcg@5"])
    assert facts["policy"] == rankloop.policy_metrics(scores, test, ["ndcg@5"])

    measured = run("measure", "a/b.rankloop", TINY, "--json")
    assert measured.code == 0
    again = json.loads(measured.out)
    assert again["split"] == "test"
    assert {key: again[key] for key in ("ranking", "policy")} == {
        key: facts[key] for key in ("ranking", "policy")
    }


def test_train_says_what_python_says(run: Run) -> None:
    options = ["--model", "linear", "--metric", "dcg@3", "--optimiser", "sgd(rate=0.1)", "--batch", "2"]
    result = run("train", TINY, *options, "--epochs", "3", "--patience", "2", "--seed", "7", "--json")
    expected = rankloop.train(
        rankloop.dataset(TINY),
        "linear",
        metric="dcg@3",
        settings=rankloop.Settings(rankloop.models.SGD(0.1), batch=2, epochs=3, patience=2),
        seed=7,
    )
    facts = json.loads(result.out)
    assert facts["fingerprint"] == expected.model.fingerprint
    assert facts["validation"] == expected.best.held_out
    assert facts["best_epoch"] == expected.best.number
    assert list(facts["ranking"]) == ["dcg@3"]


def test_defaults_of_the_command_are_those_of_python(run: Run) -> None:
    facts = json.loads(run("train", TINY, "--json").out)
    expected = rankloop.train(rankloop.dataset(TINY))
    assert facts["fingerprint"] == expected.model.fingerprint
    assert facts["path"] == "model.rankloop"


@pytest.fixture
def stored(run: Run) -> str:  # noqa: ARG001  # run goes to an empty folder
    return str(rankloop.save(Linear(4, np.arange(5.0)), "stored.rankloop"))


def test_measure_prints_a_table(run: Run, stored: str) -> None:
    code, out, err = run("measure", stored, TINY, "--metric", "mrr", "--metric", "dcg@3", "--split", "train")
    assert (code, err) == (0, "")
    train = rankloop.dataset(TINY).train
    scores = rankloop.load(stored).scores(train.features)
    assert f"{train.n_queries} queries" in out
    for name, value in rankloop.ranking_metrics(scores, train, ["mrr", "dcg@3"]).items():
        expected = rankloop.policy_metrics(scores, train, [name])[name]
        assert re.search(rf"│ {name} +│ +{value:.4f} │ +{expected:.4f} │", out)


def test_describe(run: Run) -> None:
    plain, as_json = run("describe", TINY), run("describe", TINY, "--json")
    facts = json.loads(as_json.out)
    assert facts == rankloop.data.describe(rankloop.dataset(TINY))
    assert plain.code == as_json.code == 0
    assert re.search(r"│ queries +│ +27 │ +4 │ +9 │", plain.out)
    assert [facts[part]["queries"] for part in ("train", "validation", "test")] == [27, 4, 9]


def test_demo(run: Run, tmp_path: Path) -> None:
    arguments = ("demo", TINY, "--out", "shown", "--seed", "3", "--horizon", "2000", "--interventions", "1")
    code, out, err = run(*arguments)
    assert code == 0
    assert "Traceback" not in err
    assert re.findall(r"^wrote (.+)$", out, re.MULTILINE) == ["shown/report.html"]
    assert (tmp_path / "shown" / "report.html").read_text().startswith("<!DOCTYPE html>")
    rankers = ["random", "production ranker", "static", "pdgd", "loop", "oracle"]
    assert re.findall(r"^│ ([a-z ]+?) +│", out, re.MULTILINE) == rankers
    # Nothing is wrapped on a terminal of the usual width.
    assert max(map(len, out.splitlines())) <= 80
    # Where there is no terminal, every evaluation is a line.
    evaluated = r"^(\w+): ([\d,]+): learned 0\.\d+, logging 0\.\d+ \(\d+ s\)$"
    assert sorted(re.findall(evaluated, err, re.MULTILINE)) == [
        ("loop", "100"), ("loop", "2,000"), ("pdgd", "100"), ("pdgd", "2,000"),
        ("static", "100"), ("static", "2,000"),
    ]  # fmt: skip
    assert "starting policy: ndcg@5 0." in err
    again = run(*arguments)
    assert (again.code, again.out) == (0, out)
    assert re.findall(evaluated, again.err, re.MULTILINE) == []


def test_a_path_is_printed_as_it_is(run: Run, tmp_path: Path) -> None:
    """Square brackets are markup to rich, and lines are wrapped: neither may happen to a path."""
    long = "[bold]" + 90 * "x" + "[" + os.sep + "b]"
    code, out, _ = run("train", TINY, "--model", "linear", "--epochs", "1", "--out", long)
    assert code == 0
    assert f"path         {long}\n" in out
    data = tmp_path / "[red]data"
    data.write_text("".join(f"{n % 2} qid:{n // 3} 1:{n}\n" for n in range(30)))
    assert "[red]data" in run("describe", data.name).out


def _damaged(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-4])


BROKEN_LINE = "1 qid:1 1:0.5\n0 qid:1 1:x\n"

WRONG = [
    (
        ["train", "--model", "lightgbm", "--epochs", "3"],
        "--epochs is for networks; options of trees are part",
    ),
    (["train", TINY, "--model", "mpl"], "unknown model 'mpl', did you mean 'mlp'"),
    (["train", TINY, "--model", "mlp(hidden=0)"], "every layer needs at least one unit"),
    (["train", TINY, "--model", "lightgbm(rounds=0)"], "rounds must be at least 1"),
    (["train", TINY, "--optimiser", "adm"], "unknown optimiser 'adm', did you mean 'adam'"),
    (["train", TINY, "--optimiser", "sgd(rate=-1)"], "rate must be positive"),
    (["train", TINY, "--metric", "mrr"], "'mrr' cannot be trained on"),
    (["train", TINY, "--metric", "ndgc@5"], "unknown metric 'ndgc', did you mean 'ndcg'"),
    (["train", TINY, "--model", "linear", "--optimiser", "sgd(rate=1e30)"], "lower the optimiser's rate"),
    (["train", TINY, "--out", "folder"], "folder cannot be written: it is a folder"),
    (["train", TINY, "--out", "file/model"], "file/model cannot be written"),
    (["train", "nowhere"], "nowhere does not exist: .*; for generated data use synthetic"),
    (["train", "synthetic(queris=9)"], "unknown option of 'synthetic' 'queris', did you mean 'queries'"),
    (["train", "synthetic(queries=1)"], ""),
    (["measure", "nowhere", TINY], "nowhere: cannot read the model: No such file or directory"),
    (["measure", "folder", TINY], "folder: cannot read the model: Is a directory"),
    (["measure", "file", TINY], "file: this is not a model file of rankloop"),
    (["measure", "damaged", TINY], "damaged: the model file is damaged"),
    (["measure", "stored", TINY, "--metric", "ndgc@5"], "unknown metric 'ndgc', did you mean 'ndcg'"),
    (["measure", "stored", TINY, "--split", "tset"], "--split must be train, validation or test, got 'tset'"),
    (["measure", "stored", "synthetic(queries=40, features=6)"], "4 features, got shape"),
    (["describe", "folds", "--fold", "9"], "folds has no Fold9: expected one of"),
    (["describe", "folder"], "folder does not have the layout of a data set"),
    (["describe", "broken.txt"], r"broken\.txt, line 2: feature 1 is 'x'"),
    (["demo", TINY, "--out", "file"], "file/report.html cannot be written"),
    (["demo", "nowhere", "--out", "demo"], "nowhere does not exist"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_errors_are_one_line(run: Run, tmp_path: Path, arguments: list[str], message: str) -> None:
    for name in ("stored", "damaged"):
        rankloop.save(Linear(4, np.arange(5.0)), name)
    _damaged(tmp_path / "damaged")
    (tmp_path / "file").write_text("not a model, and not a data set")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folds" / "Fold1").mkdir(parents=True)
    (tmp_path / "broken.txt").write_text(BROKEN_LINE)
    before = {path: path.stat().st_size for path in tmp_path.rglob("*")}
    code, out, err = run(*arguments)
    said = [line for line in err.splitlines() if not line.startswith("compiling kernels")]
    assert (code, out) == (2, "")
    assert len(said) == 1
    assert re.match(f"rankloop: .*{message}", said[0])
    assert {path: path.stat().st_size for path in tmp_path.rglob("*")} == before


@pytest.mark.parametrize(
    "arguments",
    [["tarin"], ["train", "--epochs", "0"], ["train", "--epochs", "x"], ["measure"], ["demo", "--x"]],
)
def test_usage_errors_have_the_same_exit_code(run: Run, arguments: list[str]) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert re.fullmatch(r"rankloop: .* See `rankloop.* --help`\.\n", err)


@pytest.mark.parametrize("command", [[], ["fit"], ["import"], ["import", "ubi"]])
def test_h_is_help(run: Run, command: list[str]) -> None:
    code, out, err = run(*command, "-h")
    assert (code, err) == (0, "")
    assert "Usage: rankloop" in out


def test_a_table_is_not_a_log_yet(run: Run, tmp_path: Path) -> None:
    (tmp_path / "clicks.csv").write_text("query,doc,clicked\n")
    code, _, err = run("check", str(tmp_path / "clicks.csv"))
    assert code == 2
    assert "import it first: rankloop import" in err


@pytest.mark.parametrize("by", ["the keyboard", "a scheduler"])
def test_stopping_is_not_a_crash(run: Run, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        if by == "the keyboard":
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(rankloop.data, "describe", interrupted)
    code, out, err = run("describe", TINY)
    assert (code, out) == (130 if by == "the keyboard" else 143, "")
    assert "Traceback" not in err


def test_a_package_that_hides_an_interruption_is_not_a_crash(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C during the import of pandas ended with "partially initialized module", which it raised."""

    def half_imported(*_: Any, **__: Any) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise AttributeError("partially initialized module")

    monkeypatch.setattr(rankloop.data, "describe", half_imported)
    # A shell that started the tests in the background lets them ignore Ctrl-C, and so would the command.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code, out, err = run("describe", TINY)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, out) == (130, "")
    assert "Traceback" not in err


def test_errors_of_ours_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a user got wrong becomes one line; a defect keeps its traceback."""

    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(rankloop.data, "describe", broken)
    monkeypatch.setattr(sys, "argv", ["rankloop", "describe", TINY])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_compilation_is_announced_once(capsys: pytest.CaptureFixture[str]) -> None:
    import numba

    with console.announce_compilation():
        assert numba.njit(lambda x: x + 1)(1) == 2
        assert numba.njit(lambda x: x + 2)(1) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("compiling kernels") == 1
    with console.announce_compilation():
        pass
    assert capsys.readouterr().err == ""


HEAVY = ("numba", "scipy", "sklearn", "lightgbm", "matplotlib", "torch", "safetensors", "numpy")


@pytest.mark.parametrize("module", ["rankloop", "rankloop.cli"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_public_name_is_there() -> None:
    assert {"train", "Ranker", "load", "save", "synthetic"} <= set(dir(rankloop))
    for name in dir(rankloop):
        assert getattr(rankloop, name) is not None


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (MemoryError(), "there is not enough memory: give the process more, or use less data"),
        (PermissionError(13, "Permission denied", "there/log"), "there/log: Permission denied"),
        (OSError("no file system"), "no file system"),
    ],
)
def test_what_the_system_refuses_is_one_line(
    run: Run, error: Exception, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It ended with a traceback: without memory, or in a folder that may not even be looked at.
    def refused(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("rankloop.cli.app", refused)
    assert run("describe", "synthetic") == (2, "", f"rankloop: {line}\n")
