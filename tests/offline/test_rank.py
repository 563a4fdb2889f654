"""Scores and rankings out: sorted or drawn, as a TREC run or as Parquet."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import RankloopError
from rankloop.models import Linear
from rankloop.offline import rank
from rankloop.offline.scores import is_scores, read_scores
from rankloop.progress import Update
from tests.enumeration import marginals
from tests.offline.worlds_of_logs import Simulated, simulated

# Scores are the first feature.
FIRST = Linear(2, np.array([1.0, 0.0, 0.0]))
TABLE = {
    "query_id": ["b", "a", "b", "a", "b"],
    "doc_id": ["x", "x", "y", "y", "z"],
    "score": [1.0, 0.5, 3.0, 0.5, 2.0],
    "other": [0.0, 1.0, 2.0, 3.0, 4.0],
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pq.write_table(pa.table(TABLE), tmp_path / "features.parquet")
    return tmp_path / "features.parquet"


def test_sorted_by_score_and_ties_by_document(table: Path) -> None:
    assert rank(FIRST, table).trec() == (
        "a Q0 x 1 0.5 rankloop\n"
        "a Q0 y 2 0.5 rankloop\n"
        "b Q0 y 1 3.0 rankloop\n"
        "b Q0 z 2 2.0 rankloop\n"
        "b Q0 x 3 1.0 rankloop\n"
    )


def test_the_first_of_each_query(table: Path) -> None:
    ranked = rank(FIRST, table, top=1)
    assert ranked.trec("mine") == "a Q0 x 1 0.5 mine\nb Q0 y 1 3.0 mine\n"
    assert len(ranked) == 2


def test_the_order_of_rows_and_files_does_not_matter(table: Path, tmp_path: Path) -> None:
    rows = pq.read_table(table)
    parts = tmp_path / "parts"
    parts.mkdir()
    pq.write_table(rows.slice(2), parts / "1.parquet")
    pq.write_table(rows.slice(0, 2), parts / "2.parquet")
    csv = tmp_path / "features.csv"
    csv.write_text(
        "\n".join(",".join(map(str, row)) for row in [list(TABLE), *zip(*TABLE.values(), strict=True)])
    )
    for seed in (None, 3):
        expected, *others = (
            rank(FIRST, path, rng=None if seed is None else np.random.default_rng(seed)).trec()
            for path in (table, parts, csv)
        )
        assert others == [expected, expected]


def test_drawn_rankings_are_plackett_luce(tmp_path: Path) -> None:
    """3,000 draws: a share of p is known to √(p (1 − p) / 3000) < 0.01; 0.04 is more than four of these."""
    rng, queries, times = np.random.default_rng(0), 100, 30
    scores = [1.0, 3.0, 2.0]
    copies = {
        "query_id": np.repeat([f"{query:02}" for query in range(queries)], 3),
        "doc_id": list("xyz") * queries,
        "score": scores * queries,
        "other": [0.0] * (3 * queries),
    }
    pq.write_table(pa.table(copies), tmp_path / "features.parquet")
    seen: Counter[Any] = Counter()
    for _ in range(times):
        ranked = rank(FIRST, tmp_path / "features.parquet", rng=rng)
        assert (np.diff(ranked.scores.reshape(queries, 3)) < 0).all()
        seen.update((document, row % 3) for row, document in enumerate(ranked.doc_ids.to_pylist()))
    found = np.array([[seen[document, k] for k in range(3)] for document in "xyz"]) / (queries * times)
    np.testing.assert_allclose(found, marginals(np.array(scores), 3), atol=0.04)


def test_a_logs_features_are_scored_in_batches(tmp_path: Path) -> None:
    world: Simulated = simulated(tmp_path / "log")
    model = Linear(3, np.array([1.0, -0.5, 0.25, 0.0]))
    updates: list[Update] = []
    ranked = world.log.rank(model, progress=updates.append)
    assert updates[-1].detail == world.split.n_documents == len(ranked)
    # Queries are in the order of their ids there.
    expected = np.concatenate(
        [
            np.sort(part)[::-1]
            for part in np.split(model.scores(world.split.features), world.split.offsets[1:-1])
        ]
    )
    np.testing.assert_array_equal(ranked.scores, expected)
    assert ranked.ranks.tolist() == [k + 1 for size in world.split.sizes for k in range(size)]


@pytest.mark.parametrize("name", ["run.trec", "run.parquet"])
def test_files(table: Path, tmp_path: Path, name: str) -> None:
    ranked = rank(FIRST, table)
    path = ranked.save(tmp_path / "out" / name)
    if name == "run.trec":
        assert path.read_text() == ranked.trec()
        return
    back = pq.read_table(path).to_pydict()
    assert back == {
        "query_id": ["a", "a", "b", "b", "b"],
        "doc_id": ["x", "y", "y", "z", "x"],
        "rank": [1, 2, 1, 2, 3],
        "score": [0.5, 0.5, 3.0, 2.0, 1.0],
    }


@pytest.mark.parametrize("name", ["run.trec", "run.run", "run.tsv", "run.jsonl", "run.parquet"])
def test_every_file_of_rankings_is_a_policy(table: Path, tmp_path: Path, name: str) -> None:
    ranked = rank(FIRST, table)
    path = ranked.save(tmp_path / name, "trec" if name.endswith(".run") else None)
    scores = read_scores(path)
    assert is_scores(path)
    assert scores.query_ids.to_pylist() == ranked.query_ids.to_pylist()
    assert scores.doc_ids.to_pylist() == ranked.doc_ids.to_pylist()
    np.testing.assert_array_equal(scores.scores, ranked.scores)


@pytest.mark.parametrize("line", ["q1 d1 1 0.5", "q1 Q0 d1 1 high tag", "q1 Q0 red shoes 1 0.5 tag"])
def test_a_line_that_is_not_of_a_trec_run_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "bad.trec"
    path.write_text(f"q1 Q0 d1 1 2.5 tag\n\n{line}\n")
    with pytest.raises(RankloopError, match=rf"bad.trec, line 3: .* got '{line}'"):
        read_scores(path)


def test_rankings_are_frames(table: Path) -> None:
    ranked = rank(FIRST, table)
    assert repr(ranked) == "Rankings(5 documents of 2 queries)"
    assert ranked.to_pandas()["rank"].tolist() == ranked.to_polars()["rank"].to_list() == [1, 2, 1, 2, 3]


def changed(table: Path, **columns: Any) -> Path:
    pq.write_table(pa.table({**TABLE, **columns}), table)
    return table


def test_what_is_refused(table: Path, tmp_path: Path) -> None:
    with pytest.raises(RankloopError, match="2 features, but the policy takes 3"):
        rank(Linear(3, np.zeros(4)), table)
    with pytest.raises(RankloopError, match="top must be at least 1"):
        rank(FIRST, table, top=0)
    with pytest.raises(RankloopError, match="nowhere does not exist"):
        rank(FIRST, tmp_path / "nowhere")
    (tmp_path / "features.txt").write_text("")
    with pytest.raises(RankloopError, match=r"its name must end in .parquet, .csv, .csv.gz"):
        rank(FIRST, tmp_path / "features.txt")
    with pytest.raises(
        RankloopError, match=r"feature 'other' is missing in 1 rows, and the policy \(linear\)"
    ):
        rank(FIRST, changed(table, other=[0.0, 1.0, 2.0, 3.0, np.nan]))
    with pytest.raises(RankloopError, match="query 'a', document 'x': more than one row"):
        rank(FIRST, changed(table, doc_id=["x", "x", "y", "x", "z"]))
    pq.write_table(pa.table(TABLE).slice(0, 0), table)
    with pytest.raises(RankloopError, match="it contains no documents"):
        rank(FIRST, table)


@pytest.mark.parametrize("name", ["red shoes", "", "tab\there"])
def test_ids_that_a_run_cannot_hold(table: Path, tmp_path: Path, name: str) -> None:
    ranked = rank(FIRST, changed(table, query_id=["b", name, "b", name, "b"]))
    with pytest.raises(RankloopError, match="which files of TREC cannot hold: write another format"):
        ranked.save(tmp_path / "run", "trec")
    assert not (tmp_path / "run").exists()
    assert len(pq.read_table(ranked.save(tmp_path / "run.parquet"))) == 5
