"""Two policies of a log compared by their lists: the truth, refusals, and users who kept a policy."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.offline import open_log
from rankloop.offline._list_evidence import _refuse_kept_policies
from rankloop.policies import log_probability
from rankloop.statistics.counts import ImpressionTable
from tests.cli.commands import Run
from tests.logs.logs_of import Row, write_rows

DOCUMENTS = "wxyz"
QUERIES = ("p", "q")
RELEVANCE = {"p": np.array([0.8, 0.1, 0.5, 0.3]), "q": np.array([0.2, 0.6, 0.1, 0.7])}
SCORES = {
    "good": {query: 2.0 * own for query, own in RELEVANCE.items()},
    "bad": {query: -2.0 * own for query, own in RELEVANCE.items()},
}
SHARE = 0.3


def clicks_of(query: str, shown: tuple[int, ...], rng: np.random.Generator) -> list[bool]:
    """Users who stop after a click."""
    clicked: list[bool] = []
    for document in shown:
        clicked.append(not any(clicked) and bool(rng.random() < RELEVANCE[query][document]))
    return clicked


def difference() -> float:
    """The expected clicks of `good` minus those of `bad`, over all lists."""
    total = 0.0
    for query, shown in itertools.product(QUERIES, itertools.permutations(range(4), 2)):
        first, second = RELEVANCE[query][list(shown)]
        chances = [
            float(np.exp(log_probability(SCORES[name][query], np.array([0, 4]), [list(shown)])[0]))
            for name in ("good", "bad")
        ]
        total += (chances[0] - chances[1]) * (first + (1.0 - first) * second) / 2.0
    return total


def write_log(
    folder: Path, count: int = 3_000, *, order: str = "coin", known: tuple[str, ...] = QUERIES
) -> Path:
    """Pages for which a coin chose the policy; or, in turns, first one and then the other."""
    rng, rows = np.random.default_rng(3), []
    for number in range(count):
        policy = "good" if rng.random() < SHARE else "bad"
        if order == "turns":
            policy = "good" if number < count // 2 else "bad"
        query = QUERIES[rng.integers(2)]
        shown = tuple(np.argsort(-(SCORES[policy][query] + rng.gumbel(size=4)))[:2].tolist())
        for position, (document, clicked) in enumerate(zip(shown, clicks_of(query, shown, rng), strict=True)):
            rows.append(
                Row(f"i{number}", query, policy, position + 1, DOCUMENTS[document], clicked, number * 10**6)
            )
    candidates = [
        (policy, query, DOCUMENTS[document], float(SCORES[policy][query][document]))
        for policy, query, document in itertools.product(SCORES, known, range(4))
    ]
    names = ("policy_id", "query_id", "doc_id", "score")
    columns = {name: list(column) for name, column in zip(names, zip(*candidates, strict=True), strict=True)}
    return write_rows(folder / "log", rows, columns)


@pytest.mark.parametrize("evidence", ["list", "prefix"])
def test_the_better_policy_is_told_whatever_users_do(tmp_path: Path, evidence: str) -> None:
    """Five standard errors: a false alarm once in a million runs."""
    log = open_log(write_log(tmp_path))
    found = log.compare_lists("good", "bad", evidence=evidence)  # type: ignore[arg-type]
    assert (found.impressions, found.left_out) == (3_000, 0)
    assert str(found.decision.kind) == "better"
    error = (found.decision.upper - found.decision.lower) / (2.0 * 1.96)
    assert abs(found.decision.estimate - difference()) < 5.0 * error
    assert found.share == pytest.approx(SHARE, abs=0.05)
    other = log.compare_lists("bad", "good", evidence=evidence)  # type: ignore[arg-type]
    assert str(other.decision.kind) == "worse"
    assert json.loads(json.dumps(found.to_dict()))["better"] == found.better
    assert "good is better than bad" in str(found)


def test_what_lists_cannot_say_is_refused(tmp_path: Path) -> None:
    turns = open_log(write_log(tmp_path / "turns", 600, order="turns"))
    with pytest.raises(DataError, match="never served at the same time"):
        turns.compare_lists("good", "bad")
    with pytest.raises(RankloopError, match="'worse' is not a policy of the log"):
        turns.compare_lists("good", "worse")
    with pytest.raises(RankloopError, match="nothing to compare"):
        turns.compare_lists("good", "good")
    with pytest.raises(RankloopError, match="evidence"):
        turns.compare_lists("good", "bad", evidence="labels")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no scores of candidates"):
        open_log(turns.folder, exposure="displays").compare_lists("good", "bad")


def test_a_decision_leans_if_impressions_had_to_be_left_out(tmp_path: Path) -> None:
    found = open_log(write_log(tmp_path, known=("p",))).compare_lists("good", "bad")
    assert found.impressions + found.left_out == 3_000
    assert found.left_out > 1_000
    assert str(found.decision.kind) == "leans better"
    assert found.decision.reasons == ("complete",)


@pytest.mark.parametrize("kept", [True, False])
def test_users_who_kept_their_policy_are_noticed(kept: bool) -> None:
    """A coin per impression is fine, also if users return; a coin per user is refused."""
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(100), 4)
    policy = (unit % 2) if kept else rng.integers(2, size=400)
    lists = np.zeros((400, 1), int)
    table = ImpressionTable.of_lists(lists, lists, query=np.zeros(400, int), policy=policy, unit=unit)
    chosen, share = np.arange(400), np.full(400, 0.5)
    if not kept:
        _refuse_kept_policies(table, chosen, share, 0)
        return
    with pytest.raises(DataError, match="100% of the users who came more than once kept one policy"):
        _refuse_kept_policies(table, chosen, share, 0)


def test_the_command_prints_what_python_finds(tmp_path: Path, run: Run) -> None:
    log = write_log(tmp_path, 1_500)
    page = tmp_path / "page.html"
    arguments = (
        "evaluate",
        str(log),
        "--policy",
        "good",
        "--against",
        "bad",
        "--evidence",
        "list",
        "-o",
        str(page),
    )
    outcome = run(*arguments, "--require", "better")
    assert (outcome.code, outcome.err) == (0, "")
    assert "good is better than bad, by the clicks on the lists of both" in outcome.out
    assert "Nothing is assumed about users" in page.read_text()
    printed = json.loads(run(*arguments, "--json").out)
    assert printed["decision"]["kind"] == "better"
