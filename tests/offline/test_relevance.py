"""The corrected relevance of documents: unbiased, shrunk as theory says, and a policy for `evaluate`."""

from __future__ import annotations

import csv
import json
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ir_measures import read_trec_qrels

import rankloop
from rankloop.clicks import bias_of, gather_log, users
from rankloop.errors import RankloopError
from rankloop.statistics import CellTable, Counts
from rankloop.types import Bias
from rankloop.value.shrinkage import shrink_relevance

BIAS = Bias(alpha=[0.6, 0.3], beta=[0.3, 0.1], examination=[1.0, 0.5])


def test_it_is_unbiased_by_enumeration_of_all_clicks() -> None:
    """Two documents, one shown at ranks 1 and 2, one only at rank 2; all eight outcomes, weighted."""
    truth, shown = np.array([0.8, 0.2]), np.array([[1, 1], [0, 1]])
    chance = BIAS.alpha * truth[:, None] + BIAS.beta
    places, total, expected = np.argwhere(shown), 0.0, np.zeros(2)
    for outcome in product((0, 1), repeat=len(places)):
        clicks = np.zeros_like(shown)
        probability = 1.0
        for (document, rank), clicked in zip(places, outcome, strict=True):
            clicks[document, rank] = clicked
            probability *= chance[document, rank] if clicked else 1 - chance[document, rank]
        counts = Counts.of_arrays(np.array([0, 2]), {"a": (np.array([2]), shown, clicks)})
        expected += probability * shrink_relevance(CellTable.of(counts), BIAS, shrink=False).relevance
        total += probability
    np.testing.assert_allclose([total, *expected], [1.0, *truth], atol=1e-12)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[rankloop.Log, rankloop.Log, np.ndarray]:
    """Two weeks of the same queries, with a production ranker that hides good documents."""
    rng, people = np.random.default_rng(3), users("paper@5")
    split = rankloop.synthetic(queries=60, features=3).train
    scores = 1.5 * split.features[:, 0].astype(float)
    folder, logs = tmp_path_factory.mktemp("weeks"), []
    for week in range(2):
        clicks = gather_log(scores, split.offsets, split.labels / 4, people, 8_000, rng)
        traffic = [rankloop.logs.PolicyTraffic("production", scores, clicks)]
        logs.append(rankloop.open_log(rankloop.logs.write_simulated(folder / f"week{week}", split, traffic)))
    # The log orders documents by their ids as text; features tell them apart.
    labels = {row.tobytes(): label for row, label in zip(split.features, split.labels / 4, strict=True)}
    return logs[0], logs[1], np.array([labels[row.tobytes()] for row in logs[0].split().features])


def test_shrinking_predicts_better_and_its_errors_are_right(
    world: tuple[rankloop.Log, rankloop.Log, np.ndarray],
) -> None:
    """Squared errors against the truth: smaller when shrunk, and on average what `errors` says.

    The mean of squared standardised errors has a standard deviation of about 0.1 here, mostly because
    relevance is not normal; 0.5 to 1.5 fails by chance less than once in 10⁵ seeds.
    """
    log, _, truth = world
    counts, bias = log.count(5), bias_of(users("paper@5"))
    table = CellTable.of(counts)
    plain, shrunk = (shrink_relevance(table, bias, shrink=shrink) for shrink in (False, True))
    truth = truth[table.documents]
    assert ((shrunk.relevance - truth) ** 2).mean() < 0.8 * ((plain.relevance - truth) ** 2).mean()
    standardised = ((shrunk.relevance - truth) / shrunk.errors) ** 2
    assert 0.5 < standardised.mean() < 1.5


def test_it_is_a_policy_for_another_week(
    world: tuple[rankloop.Log, rankloop.Log, np.ndarray], tmp_path: Path
) -> None:
    log, later, _ = world
    found = log.relevance(bias="paper@5")
    path = found.save(tmp_path / "relevance.parquet")
    assert pq.read_table(path).column_names[:3] == ["query_id", "doc_id", "score"]
    assert "assumed" in " ".join(found.notes)
    comparison = later.evaluate(path, "production", bias="paper@5")
    assert comparison.difference.estimate.low > 0
    assert not any("this very log" in note for note in comparison.notes)
    same = log.evaluate(path, "production", bias="paper@5")
    assert any("this very log" in note for note in same.notes)


def test_csv_and_other_endings(world: tuple[rankloop.Log, rankloop.Log, np.ndarray], tmp_path: Path) -> None:
    log, later, _ = world
    found = log.relevance(bias="paper@5")
    path = found.save(tmp_path / "relevance.csv")
    assert later.evaluate(path, "production", bias="paper@5").queries > 0
    with pytest.raises(RankloopError, match=r"ends in \.parquet or \.csv"):
        found.save(tmp_path / "relevance.txt")


def test_judgments_for_other_tools(
    world: tuple[rankloop.Log, rankloop.Log, np.ndarray], tmp_path: Path
) -> None:
    """ir_measures reads the qrels; whole grades are the relevance up to rounding."""
    log, _, _ = world
    found = log.relevance(bias="paper@5")
    qrels = list(read_trec_qrels(found.save(tmp_path / "a.qrels").read_text()))
    qrels = list(read_trec_qrels(found.save(tmp_path / "a.qrels").read_text()))
    judged = {(row.query_id, row.doc_id): row.relevance for row in qrels}
    expected = np.round(4 * np.clip(found.relevance, 0, 1)).astype(int)
    assert judged == {
        (str(query), str(document)): grade
        for query, document, grade in zip(found.query_ids, found.doc_ids, expected.tolist(), strict=True)
    }
    ratings = json.loads(found.save(tmp_path / "a.json").read_text())["judgmentRatings"]
    assert sum(len(query["ratings"]) for query in ratings) == len(found)
    assert len(ratings) == len(np.unique(found.query_ids))
    table = found.save(tmp_path / "q.csv", "quepid", grades=10).read_text()
    rows = list(csv.DictReader(table.splitlines()))
    assert {row["docid"] for row in rows} == set(found.doc_ids.tolist())
    assert max(int(row["rating"]) for row in rows) > 4
    with pytest.raises(RankloopError, match="judgments are qrels, opensearch, quepid, not 'letor'"):
        found.save(tmp_path / "a", "letor")
    with pytest.raises(RankloopError, match="at least 1"):
        found.judgments(grades=0)


def test_relevance_as_frames(world: tuple[rankloop.Log, rankloop.Log, np.ndarray]) -> None:
    found = world[0].relevance(bias="paper@5")
    assert found.to_pandas()["clicks"].sum() == found.to_polars()["clicks"].sum() == found.clicks.sum()
    assert f"{len(found):,} documents of" in repr(found)


def test_documents_without_a_score_come_last_where_impressions_are_re_ranked(
    world: tuple[rankloop.Log, rankloop.Log, np.ndarray], tmp_path: Path
) -> None:
    """A table with only the best document of each query; before, others vanished from their slots."""
    log, later, _ = world
    table = log.relevance(bias="paper@5").to_arrow().to_pylist()
    best = {}
    for row in table:
        best[row["query_id"]] = max(best.get(row["query_id"], row), row, key=lambda one: one["score"])
    top = {name: [row[name] for row in best.values()] for name in ("query_id", "doc_id", "score")}
    pq.write_table(pa.table(top), tmp_path / "top.parquet")
    displays = rankloop.open_log(later.folder, exposure="displays")
    options = rankloop.offline.EvaluationOptions(rerank="impression")
    found = displays.evaluate(tmp_path / "top.parquet", "production", bias="paper@5", options=options)
    assert any("have no score in top.parquet and are ranked last" in note for note in found.notes)
    assert found.new.estimate.value > 0.5 * found.against.estimate.value
