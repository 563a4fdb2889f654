"""A fit on disk: it comes back whole, whatever the ids of queries are, and damage is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop.bias import BiasOptions
from rankloop.errors import ModelFileError, RankloopError
from rankloop.offline import Fit, open_log
from rankloop.storage.plain import to_plain
from tests.offline.worlds_of_logs import BIAS, Simulated, simulated

IDS = ["line\nbreak", "line\r\nbreak", "line\u2028separator", "\u0085next", "nul\0inside", " ", "日本", 'a"b']


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Simulated:
    return simulated(tmp_path_factory.mktemp("fits") / "log", queries=12, impressions=3_000)


@pytest.fixture
def fit(world: Simulated) -> Fit:
    return world.log.fit("linear", bias=world.log.estimate_bias(BiasOptions(resamples=20), ranks=2))


def test_a_fit_comes_back_whole(fit: Fit, tmp_path: Path) -> None:
    path = fit.save(tmp_path / "new" / "policy")
    back = rankloop.load_fit(path)
    assert back.name == "policy"
    assert back.comparison is None
    for name in vars(fit):
        if name not in ("model", "bias", "name", "comparison", "judged_scores", "held_out"):
            assert getattr(back, name) == getattr(fit, name), name
    # A test that could not be done has effects that are not a number, which do not equal themselves.
    assert to_plain(back.held_out) == to_plain(fit.held_out)
    assert back.model.fingerprint == fit.model.fingerprint
    assert fit.judged_scores is not None
    assert back.judged_scores is not None
    for name in ("query_ids", "doc_ids", "scores", "folds"):
        np.testing.assert_array_equal(getattr(back.judged_scores, name), getattr(fit.judged_scores, name))
    for name in ("alpha", "beta", "examination"):
        np.testing.assert_array_equal(getattr(back.bias, name), getattr(fit.bias, name))
    # Stored again, it is the same, byte for byte.
    again = back.save(tmp_path / "again")
    assert {file.name for file in path.iterdir()} == {file.name for file in again.iterdir()}
    for file in path.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes()


def test_any_id_comes_back(fit: Fit, tmp_path: Path) -> None:
    strange = replace(fit, train_queries=tuple(IDS), held_out_queries=tuple(IDS[::-1]))
    back = rankloop.load_fit(strange.save(tmp_path / "policy"))
    assert (back.train_queries, back.held_out_queries) == (tuple(IDS), tuple(IDS[::-1]))


def test_a_stored_fit_of_a_log_with_strange_ids_knows_its_held_out_queries(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    queries = [query for query in IDS for _ in range(40)]
    impressions = pa.table(
        {
            "impression_id": [str(number // 2) for number in range(2 * len(queries))],
            "timestamp": pa.nulls(2 * len(queries)),
            "query_id": [query for query in queries for _ in range(2)],
            "policy_id": ["production"] * 2 * len(queries),
            "position": [1, 2] * len(queries),
            "doc_id": [document for _ in queries for document in rng.permutation(["x", "y"])],
            "clicked": rng.random(2 * len(queries)) < 0.5,
        }
    )
    features = {"query_id": np.repeat(IDS, 2).tolist(), "doc_id": ["x", "y"] * len(IDS)}
    (tmp_path / "log").mkdir()
    pq.write_table(impressions, tmp_path / "log" / "impressions.parquet")
    pq.write_table(
        pa.table({**features, "age": rng.random(2 * len(IDS))}), tmp_path / "log" / "features.parquet"
    )
    log = open_log(tmp_path / "log")
    found = log.fit("linear", bias="paper@2", held_out=0.5)
    assert found.judged_scores is not None
    assert sorted(found.train_queries + found.stop_queries) == sorted(found.held_out_queries) == sorted(IDS)
    assert found.feature_names == ("age",)
    result = log.evaluate(found.save(tmp_path / "policy"), "production")
    assert (result.queries, result.impressions) == (len(IDS), 40 * len(IDS))


def test_a_fit_replaces_a_fit_and_nothing_else(fit: Fit, tmp_path: Path) -> None:
    path = fit.save(tmp_path / "policy")
    (path / "report.html").write_text("a page")
    replace(fit, seed=7).save(path)
    assert rankloop.load_fit(path).seed == 7
    assert not (path / "report.html").exists()
    (path / "mine.txt").write_text("do not delete")
    with pytest.raises(RankloopError, match=r"it is a folder with other files \(mine.txt\)"):
        fit.save(path)
    with pytest.raises(RankloopError, match="it is a file"):
        fit.save(path / "mine.txt")
    assert (path / "mine.txt").read_text() == "do not delete"
    assert [child.name for child in tmp_path.iterdir()] == ["policy"]


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("fit.json", None, "is not a fit"),
        ("fit.json", "{", "the fit is damaged"),
        ("fit.json", "[]", "expected a file of format rankloop-fit, version 5"),
        ("fit.json", '{"format": "rankloop-fit", "version": 4}', "expected a file of format"),
        ("fit.json", '{"format": "rankloop-fit", "version": 5}', "the fit is damaged: KeyError"),
        ("bias.json", None, "the fit is damaged"),
        ("bias.json", "{}", "not a bias file"),
        ("judged.parquet", None, "the scores by which the fit is judged are damaged"),
        ("judged.parquet", "PAR1", "these are not the scores that were stored with the fit"),
        ("model.rankloop", None, "cannot read the model"),
        ("model.rankloop", "no model", "this is not a model file"),
    ],
)
def test_damage_is_noticed(fit: Fit, tmp_path: Path, file: str, content: str | None, message: str) -> None:
    path = fit.save(tmp_path / "policy")
    (path / file).unlink()
    if content is not None:
        (path / file).write_text(content)
    with pytest.raises(ModelFileError, match=message):
        rankloop.load_fit(path)


def test_the_model_of_another_fit_is_noticed(fit: Fit, tmp_path: Path) -> None:
    path = fit.save(tmp_path / "policy")
    rankloop.save(rankloop.models.Linear(3, np.zeros(4)), path / "model.rankloop")
    with pytest.raises(ModelFileError, match="this is not the model that was fitted"):
        rankloop.load_fit(path)


def test_the_page_can_be_written_from_a_stored_fit(fit: Fit, tmp_path: Path) -> None:
    stored = rankloop.load_fit(fit.save(tmp_path / "policy"))
    first = rankloop.write_report(fit, tmp_path / "first.html").read_text()
    assert rankloop.write_report(stored, tmp_path / "again.html").read_text() == first


def test_the_summary_is_json(world: Simulated) -> None:
    summary = json.loads(json.dumps(world.log.fit("linear", bias=BIAS).to_dict()))
    assert summary["log"] == world.log.fingerprint
    assert summary["feature_names"] is None
