"""Scores that know the clicks of a log are told from those that know relevance; chance is in the names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.evidence.attraction import KNOWN, excess, know_clicks
from rankloop.offline import Log, open_log
from rankloop.statistics.counts import ImpressionTable
from rankloop.types import Float64
from tests.offline.worlds_of_logs import Simulated, simulated

QUERIES, DOCUMENTS, TIMES = 60, 6, 40


def searches(seed: int) -> tuple[ImpressionTable, Float64, Float64]:
    """Lists in random order, the relevance of their documents, and their click rates."""
    rng = np.random.default_rng(seed)
    relevance = rng.choice([0.1, 0.3, 0.6], QUERIES * DOCUMENTS)
    query = np.repeat(np.arange(QUERIES), TIMES)
    lists = query[:, None] * DOCUMENTS + rng.permuted(np.tile(np.arange(DOCUMENTS), (len(query), 1)), axis=1)
    clicked = rng.random(lists.shape) < relevance[lists] / np.sqrt(np.arange(1, DOCUMENTS + 1))
    rates = np.bincount(lists.ravel(), clicked.ravel()) / np.bincount(lists.ravel())
    return ImpressionTable.of_lists(lists, clicked, query=query), relevance, rates


def test_relevance_itself_never_predicts_too_well() -> None:
    """Of 60 logs; the excess of relevance has a mean of about 0 and a standard deviation of about 1."""
    found = [excess(table, relevance) for table, relevance, _ in map(searches, range(60))]
    assert max(found) < KNOWN
    assert np.std(found) == pytest.approx(1.0, abs=0.4)
    assert np.mean(found) < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_click_rates_are_noticed_in_any_form(seed: int) -> None:
    table, relevance, rates = searches(seed)
    assert know_clicks(table, rates)
    assert know_clicks(table, np.exp(20.0 * rates))
    assert know_clicks(table, np.where(np.arange(len(rates)) % 5 == 0, np.nan, 3.0 - 1.0 / (rates + 0.5)))
    assert not know_clicks(table, relevance)
    assert not know_clicks(table, np.random.default_rng(seed).random(len(rates)))
    assert not know_clicks(table, np.zeros(len(rates)))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("known") / "log", queries=150, impressions=3_000)


def test_a_table_of_click_rates_leans_at_most_on_its_own_log(world: Simulated, tmp_path: Path) -> None:
    log: Log = open_log(world.log.folder)
    rows = pq.read_table(log.folder / "impressions.parquet").group_by(["query_id", "doc_id"])
    rates = rows.aggregate([("clicked", "mean")]).rename_columns(["query_id", "doc_id", "score"])
    truth = pa.table(
        {
            "query_id": np.repeat(world.split.query_ids, np.diff(world.split.offsets)),
            "doc_id": world.split.doc_ids,
            "score": world.relevance,
        }
    )
    for table, state in ((rates, "broken"), (truth, "held")):
        path = tmp_path / f"{state}.parquet"
        pq.write_table(table, path)
        found = log.evaluate(path, "production", bias="paper@3")
        (scores,) = (one for one in found.assumptions if one.name == "scores")
        assert scores.state == state
    assert "scores" not in found.decision.reasons


def test_a_policy_that_was_learned_from_earlier_clicks_is_judged_by_later_ones(tmp_path: Path) -> None:
    """All documents are alike, so that no order of them is better; each week's ranker follows click rates."""
    rng = np.random.default_rng(0)
    queries, documents, times, weeks = 60, 8, 8, 4
    clicks, shown = np.zeros((queries, documents)), np.zeros((queries, documents))
    rows, candidates = [], []
    for week in range(weeks):
        scores = 5.0 * (clicks + 1.0) / (shown + 3.0)
        query = np.repeat(np.arange(queries), times)
        order = np.argsort(-(scores[query] + rng.gumbel(size=(len(query), documents))), axis=1)[:, :4]
        clicked = rng.random(order.shape) < 0.4 / np.sqrt(np.arange(1, 5))
        np.add.at(clicks, (query[:, None], order), clicked)
        np.add.at(shown, (query[:, None], order), 1.0)
        impression, rank = np.nonzero(order >= 0)
        number = week * len(query) + impression
        rows.append(
            pa.table(
                {
                    "impression_id": number.astype(np.str_),
                    "timestamp": pa.array(60_000_000 * number, pa.timestamp("us", tz="UTC")),
                    "query_id": query[impression].astype(np.str_),
                    "policy_id": [f"week-{week}"] * len(rank),
                    "position": rank + 1,
                    "doc_id": order[impression, rank].astype(np.str_),
                    "clicked": clicked[impression, rank],
                }
            )
        )
        place, document = np.indices(scores.shape)
        candidates.append(
            pa.table(
                {
                    "policy_id": [f"week-{week}"] * scores.size,
                    "query_id": place.ravel().astype(np.str_),
                    "doc_id": document.ravel().astype(np.str_),
                    "score": scores.ravel(),
                }
            )
        )
    folder = tmp_path / "log"
    folder.mkdir()
    pq.write_table(pa.concat_tables(rows), folder / "impressions.parquet")
    pq.write_table(pa.concat_tables(candidates), folder / "candidates.parquet")
    log = open_log(folder)
    found = log.evaluate("week-3", "week-0", bias="position@4(eta=0.5)")
    gain = found.difference.estimate
    assert any("learned from clicks of this log before it served" in note for note in found.notes)
    assert gain.low < 0.0 < gain.high
    assert found.impressions == queries * times
    # The first week's ranker cannot have been learned from clicks that came later.
    first = log.evaluate("week-0", "week-3", bias="position@4(eta=0.5)")
    assert not any(note.startswith("week-0 ranks") for note in first.notes)
