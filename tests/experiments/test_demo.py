"""The demonstration in one folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from matplotlib.image import imread

import rankloop
from rankloop.errors import DataError
from rankloop.experiments import demo

TINY = "synthetic(queries=40, features=4)"


def test_everything_is_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    shown = demo.run(TINY, seed=2, folder=folder, metric="dcg@3")
    assert sorted(shown.written) == sorted(folder.iterdir())
    assert sorted(path.name for path in shown.written) == [
        "full-information.rankloop",
        "learning-curves.png",
        "learning-curves.svg",
        "results.json",
    ]
    assert imread(folder / "learning-curves.png").ndim == 3
    assert (shown.metric, shown.test_queries, shown.dataset) == ("dcg@3", 9, "synthetic-yahoo")

    results = json.loads((folder / "results.json").read_text())
    assert {key: results[key] for key in ("version", "data", "fold", "seed", "metric", "test_queries")} == {
        "version": rankloop.__version__,
        "data": TINY,
        "fold": 1,
        "seed": 2,
        "metric": "dcg@3",
        "test_queries": 9,
    }
    for ranker, rung in zip(results["rankers"], shown.rungs, strict=True):
        assert ranker["name"] == rung.name
        assert (ranker["ranking"], ranker["policy"]) == (rung.ranking, rung.policy)
        assert ranker["queries"] == rung.queries
        if rung.training is not None:
            assert ranker["held_out"] == [epoch.held_out for epoch in rung.training.history]
            assert ranker["fingerprint"] == rung.training.model.fingerprint
    assert results["rankers"][0] == {
        **results["rankers"][0], "name": "random", "queries": 0, "fingerprint": None, "held_out": []
    }  # fmt: skip

    model = rankloop.load(folder / "full-information.rankloop")
    assert model.fingerprint == results["rankers"][-1]["fingerprint"]
    test = rankloop.dataset(TINY).test
    measured = rankloop.ranking_metrics(model.scores(test.features), test, ["dcg@3"])
    assert measured["dcg@3"] == results["rankers"][-1]["ranking"]


def test_the_same_seed_is_the_same_folder(tmp_path: Path) -> None:
    first, second = (demo.run(TINY, folder=tmp_path / str(n)).written for n in (1, 2))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_data_that_is_not_there_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        demo.run("nowhere", folder=tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []
