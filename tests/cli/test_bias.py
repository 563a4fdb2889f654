"""`rankloop bias`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rankloop.bias import BiasOptions, estimate_bias, load_bias
from rankloop.clicks import gather_log, users
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import open_log
from rankloop.types import Split
from tests.cli.commands import Run
from tests.logs.logs_of import Row, write_rows


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a policy that explores."""
    rng = np.random.default_rng(0)
    split = Split.build(rng.normal(size=(400, 2)), rng.integers(0, 5, 400), sizes=[8] * 50)
    scores = split.labels + rng.normal(size=400)
    clicks = gather_log(scores, split.offsets, split.labels / 4, users("paper@3"), 15_000, rng)
    folder = tmp_path_factory.mktemp("logs") / "log"
    return write_simulated(folder, split, [PolicyTraffic("a", scores, clicks)], features=False)


def test_the_command_is_one_call(run: Run, log: Path) -> None:
    outcome = run(
        "bias", str(log), "--out", "new/bias.json", "--resamples", "20", "--seed", "3",
        "--ranks", "2", "--report", "page.html", "--json",
    )  # fmt: skip
    assert outcome.code == 0
    expected = estimate_bias(open_log(log).count(2), BiasOptions(resamples=20), rng=np.random.default_rng(3))
    assert json.loads(outcome.out) == {"path": "new/bias.json", **expected.to_dict()}
    assert np.array_equal(load_bias("new/bias.json").alpha, expected.bias.alpha)
    assert Path("page.html").read_text().startswith("<!DOCTYPE html>")


def test_what_people_see(run: Run, log: Path) -> None:
    outcome = run("bias", str(log), "--resamples", "20", "--model", "position")
    assert outcome.code == 0
    found = load_bias("bias.json")
    assert f"│ 2    │ {found.alpha[1]:.3f} │" in outcome.out
    assert outcome.out.startswith("Rank 3 is examined ")
    assert "Estimated from pairs of query and document" in outcome.out
    assert "Movement of documents between ranks" in outcome.out
    assert "Scale: relevance 1 is always clicked at rank 1" in outcome.out
    assert "Held-out queries favour the affine model" in outcome.out
    assert (
        "note: Held-out queries favour the affine model: this estimate leaves out trust bias" in outcome.out
    )
    assert outcome.out.endswith("wrote bias.json\n")
    assert max(len(line) for line in outcome.out.splitlines() if line[0] in "┏┃┡│└") <= 80


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "pair"], "unknown method 'pair', did you mean 'pairs'?"),
        (["--randomised", "b"], "unknown policy 'b'"),
        (["--model", "affin"], "unknown model 'affin', did you mean 'affine'?"),
        (["--resamples", "3"], "at least 20 resamples"),
        (["--ranks", "1"], "the log has one rank"),
        (["--master", "local[1]"], "is for Spark"),
        (["--out", "."], "it is a folder"),
    ],
)
def test_what_is_refused_leaves_nothing_behind(
    run: Run, log: Path, tmp_path: Path, options: list[str], said: str
) -> None:
    outcome = run("bias", str(log), "--report", "page.html", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines()[-1].startswith("rankloop: ")
    assert said in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_one_policy_that_never_explores(run: Run, tmp_path: Path) -> None:
    rows = [
        Row(f"i{number}", f"q{number % 5}", "a", rank + 1, f"d{rank}", (number + rank) % 3 == 0)
        for number in range(200)
        for rank in range(3)
    ]
    write_rows(tmp_path / "log", rows)
    outcome = run("bias", "log")
    assert (outcome.code, outcome.out) == (2, "")
    assert "Not estimated from pairs: every document was always shown at the same rank" in outcome.err
    assert "or assume a curve (rankloop bias --curve paper@10)" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["log"]
    outcome = run("bias", "log", "--curve", "paper@3", "--json")
    assert (outcome.code, json.loads(outcome.out)["method"]) == (0, "assumed")
    outcome = run("bias", "log", "--randomised", "a", "--model", "position", "--resamples", "20", "--json")
    assert outcome.code == 2
    assert "policy 'a' was declared randomised, but it ranked 100% of the queries" in outcome.err


def test_no_log_at_all(run: Run) -> None:
    outcome = run("bias", "nowhere")
    assert outcome.code == 2
    assert "rankloop: nowhere" in outcome.err
