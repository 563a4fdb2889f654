"""Judgments in an evaluation: read from what tools write, calibrated on clicks, harmless if wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rankloop
from rankloop.clicks import gather_log, users
from rankloop.errors import DataError, RankloopError
from rankloop.offline import EvaluationOptions, Log
from rankloop.offline.relevance_guess import grades_of, read_judgments
from rankloop.types import Float64, Split

# Users who click on whatever is relevant: which documents were shown is then all that is left to chance.
USERS = "position@5(eta=0)"
PAIRS = [("red shoes", "d1", 3.0), ("red shoes", "d2", 0.0), ("hat", "d1", 1.5)]


@pytest.fixture(scope="module")
def split() -> Split:
    return rankloop.synthetic(queries=150, features=5, seed=3).train


@pytest.fixture(scope="module")
def log(split: Split, tmp_path_factory: pytest.TempPathFactory) -> Log:
    rng = np.random.default_rng(0)
    scores = 0.5 * rng.normal(size=split.n_documents)
    clicks = gather_log(scores, split.offsets, split.labels >= 2, users(USERS), 3_000, rng)
    parts = [rankloop.logs.PolicyTraffic("production", scores, clicks)]
    folder = tmp_path_factory.mktemp("judged") / "log"
    return rankloop.open_log(rankloop.logs.write_simulated(folder, split, parts))


def table(path: Path, split: Split, values: Float64, column: str = "grade") -> Path:
    places = np.concatenate([np.arange(size) for size in split.sizes])
    query = np.repeat(split.query_ids, split.sizes)
    rows = zip(query, places, values, strict=True)
    path.write_text(f"query_id,doc_id,{column}\n" + "".join(f"{q},{d},{v}\n" for q, d, v in rows))
    return path


@pytest.mark.parametrize("form", ["csv", "quepid.csv", "tsv", "qrels", "json"])
def test_what_tools_write_is_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"judgments.{form}"
    pairs = PAIRS if form != "qrels" else [(q.replace(" ", "_"), d, g) for q, d, g in PAIRS]
    if form == "json":
        ratings = {"red shoes": PAIRS[:2], "hat": PAIRS[2:]}
        path.write_text(
            json.dumps(
                {
                    "judgmentRatings": [
                        {"query": query, "ratings": [{"docId": d, "rating": str(g)} for _, d, g in rows]}
                        for query, rows in ratings.items()
                    ]
                }
            )
        )
    elif form == "qrels":
        path.write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in pairs))
    else:
        header = "query,docid,rating" if form == "quepid.csv" else "query_id,doc_id,grade"
        lines = [header, *(f"{q},{d},{g}" for q, d, g in pairs)]
        text = "\n".join(lines)
        path.write_text(text.replace(",", "\t") if form == "tsv" else text)
    found = read_judgments(path)
    got = zip(found.query_ids.to_pylist(), found.doc_ids.to_pylist(), found.scores.tolist(), strict=True)
    assert list(got) == pairs


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "query_id,doc_id\nq,d\n", "no column has the grade"),
        ("a.csv", "query_id,doc_id,grade\nq,d,1\nq,d,2\n", "row 2 judges document 'd' of query 'q' again"),
        ("a.csv", "query_id,doc_id,grade\nq,d,\n", "row 1 has no grade that is a number"),
        ("a.csv", "query_id,doc_id,grade\nq,d,good\n", "must have numbers"),
        ("a.qrels", "q 0 d\n", "line 1: a line of qrels is"),
        ("a.json", '{"ratings": []}', "not judgments of the Search Relevance Workbench"),
        ("a.qrels", "", "there are no judgments"),
        ("missing.csv", None, "cannot be read"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_judgments(tmp_path / name)


def test_judgments_of_other_documents_are_refused(log: Log, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("query_id,doc_id,grade\nnobody,d,1\n")
    with pytest.raises(DataError, match=r"none of the 1 judged pairs .* queries such as 'nobody'"):
        grades_of(path, log.count(5))
    with pytest.raises(RankloopError, match="judgments take the place of a guess from features"):
        EvaluationOptions(guess="trees", judgments=path)


def test_a_good_judge_is_worth_impressions_and_a_wrong_one_costs_nothing(
    log: Log, split: Split, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=split.n_documents)
    policy = table(tmp_path / "policy.csv", split, noise, "score")
    judges = {
        "good": split.labels,
        "half": np.where(rng.random(len(noise)) < 0.5, split.labels, np.nan),
        "reversed": 4.0 - split.labels,
        "random": rng.integers(0, 5, len(noise)).astype(np.float64),
    }
    found = {}
    for name, grades in judges.items():
        known = np.isfinite(grades)
        path = table(tmp_path / f"{name}.csv", split, grades)
        lines = path.read_text().splitlines()
        kept = [line for line, keep in zip(lines[1:], known, strict=True) if keep]
        path.write_text("\n".join([lines[0], *kept]))
        options = EvaluationOptions(judgments=path)
        found[name] = log.evaluate(policy, "production", bias=USERS, options=options)
    plain = log.evaluate(policy, "production", bias=USERS, options=EvaluationOptions(guess="mean"))
    states = {name: one.judge.state for name, one in found.items() if one.judge is not None}
    assert states["good"] == states["half"] == "agrees"
    assert states["reversed"] == "contradicts"
    # A judge that is reversed says as much as a good one, once clicks have said which way round it is.
    for name in ("good", "half", "reversed"):
        assert found[name].guesses.factor > (1.0 if name == "half" else 1.1), name
        assert "judgments" in found[name].guesses.name
    assert found["good"].guesses.factor == pytest.approx(found["reversed"].guesses.factor, rel=0.05)
    assert found["random"].guesses.factor == pytest.approx(1.0, abs=0.05)
    for one in found.values():
        error = np.hypot(one.difference.estimate.error, plain.difference.estimate.error)
        assert abs(one.difference.estimate.value - plain.difference.estimate.value) < 4.0 * error
    page = tmp_path / "page.html"
    rankloop.write_report(found["good"], page)
    assert "The judge agrees with the users" in page.read_text(encoding="utf-8")
    assert found["good"].to_dict()["judge"]["slope"] > 0.0
