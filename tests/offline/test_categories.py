"""Columns of text are categories: from a table to trees, a stored fit, rankings and exports."""

from __future__ import annotations

import csv
from pathlib import Path

import lightgbm
import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import rankloop
from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.live.ranking.live_policy import policy_of
from rankloop.models import LightGBMModel
from rankloop.offline import Log, rank

BRANDS = ("Acme", "Bolt", "Crux", "Dyna")
# Neighbours in the order of the alphabet differ most: no threshold on their places separates them.
WORTH = {"Acme": 0.9, "Bolt": 0.1, "Crux": 0.8, "Dyna": 0.15}
MODEL = "lightgbm(rounds=20)"


def clicks(seed: int = 0, searches: int = 1500) -> pandas.DataFrame:
    """Searches for 60 queries in a random order; what a document is worth depends on its brand alone."""
    rng = np.random.default_rng(seed)
    brand = [BRANDS[number] for number in rng.integers(len(BRANDS), size=80)]
    rows = []
    for search in range(searches):
        query = int(rng.integers(60))
        shown = rng.permutation(np.random.default_rng(query).choice(80, 5, replace=False))
        for position, document in enumerate(shown, 1):
            clicked = rng.random() < WORTH[brand[document]] / position
            title = f"title of {document}"
            rows.append(
                (search, f"q{query}", f"d{document}", position, clicked, brand[document], title, search % 7)
            )
    names = ["search", "query", "document", "position", "clicked", "brand", "title", "age"]
    return pandas.DataFrame(rows, columns=names)


def as_log(frame: object) -> Log:
    named = {"query": "query", "document": "document", "position": "position", "clicked": "clicked"}
    return rankloop.log(frame, **named, impression="search", features="auto")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def log() -> Log:
    return as_log(clicks())


@pytest.fixture(scope="module")
def fitted(log: Log) -> rankloop.Fit:
    return log.fit(MODEL, bias="position@5", judge="split")


def test_brands_are_features_and_titles_are_not(log: Log) -> None:
    assert log.feature_names == ("brand", "age")


def test_a_fit_knows_its_categories_and_ranks_by_them(fitted: rankloop.Fit) -> None:
    model = fitted.model
    assert isinstance(model, LightGBMModel)
    assert model.categories == {"brand": BRANDS}
    frame = pandas.DataFrame({"age": 1.0, "brand": BRANDS})
    acme, bolt, crux, dyna = model.scores(frame)
    assert min(acme, crux) > max(bolt, dyna)


def test_every_kind_of_frame_gives_the_same_scores(fitted: rankloop.Fit) -> None:
    frame = clicks(1, 20)
    expected = fitted.model.scores(frame)
    for other in (
        polars.from_pandas(frame),
        pa.Table.from_pandas(frame),
        frame.assign(brand=frame["brand"].astype("category")),
    ):
        np.testing.assert_array_equal(fitted.model.scores(other), expected)


def test_unknown_categories_count_as_missing(fitted: rankloop.Fit) -> None:
    new, none = fitted.model.scores(pandas.DataFrame({"age": 1.0, "brand": ["Echo", None]}))
    assert new == none


def test_a_stored_fit_ranks_and_is_evaluated_the_same(fitted: rankloop.Fit, log: Log, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="load_fit"):
        rankloop.load(fitted.save(tmp_path / "fit"))
    stored = rankloop.load_fit(tmp_path / "fit")
    assert stored.model.categories == {"brand": BRANDS}
    for policy in (fitted, stored):
        ranked = rank(policy, log.folder)
        frame = ranked.to_pandas().merge(
            clicks()[["query", "document", "brand"]].drop_duplicates(),
            left_on=["query_id", "doc_id"],
            right_on=["query", "document"],
        )
        first = frame[frame["rank"] == 1]
        assert first["brand"].isin(["Acme", "Crux"]).mean() > 0.9
    first, second = (log.evaluate(policy, "production").difference.estimate for policy in (fitted, stored))
    assert first == second


def test_other_logs_number_categories_in_their_own_way(fitted: rankloop.Fit, tmp_path: Path) -> None:
    """A table without Acme: Bolt is its first brand, and stays Bolt for the model."""
    frame = pandas.DataFrame(
        {"query_id": "q", "doc_id": ["b", "c", "z"], "age": 1.0, "brand": ["Bolt", "Crux", "Zorg"]}
    )
    ranked = rank(fitted, frame)
    scores = dict(zip(ranked.doc_ids.to_pylist(), ranked.scores, strict=True))
    expected = fitted.model.scores(frame)
    np.testing.assert_array_equal([scores[name] for name in "bcz"], expected)
    frame.to_csv(tmp_path / "t.csv", index=False, quoting=csv.QUOTE_MINIMAL)
    np.testing.assert_array_equal(rank(fitted, tmp_path / "t.csv").scores, ranked.scores)


def test_lightgbm_reads_the_trees_with_their_categories(fitted: rankloop.Fit, tmp_path: Path) -> None:
    """Its own file has the categories, so that LightGBM takes a frame with text, too."""
    exported = fitted.export("lightgbm").save(tmp_path / "m")
    booster = lightgbm.Booster(
        model_file=str(exported[0] if isinstance(exported, list | tuple) else exported)
    )
    frame = clicks(1, 20)[["brand", "age"]]
    scores = booster.predict(frame.assign(brand=frame["brand"].astype("category")), raw_score=True)
    np.testing.assert_allclose(scores, fitted.model.scores(frame))


@pytest.mark.parametrize("engine", ["opensearch", "solr", "vespa", "onnx", "xgboost"])
def test_engines_refuse_categories_with_a_reason(fitted: rankloop.Fit, engine: str) -> None:
    with pytest.raises(RankloopError, match="splits by categories"):
        fitted.export(engine)


@pytest.mark.parametrize("model", ["mlp", "linear"])
def test_networks_refuse_categories(log: Log, model: str) -> None:
    with pytest.raises(DataError, match="'brand': text is a category"):
        log.fit(model, bias="position@5")


def test_the_live_service_refuses_categories(fitted: rankloop.Fit) -> None:
    with pytest.raises(DataError, match="requests to the live service have numbers"):
        policy_of(fitted, "new")


def test_numbers_in_place_of_text_are_refused(fitted: rankloop.Fit) -> None:
    with pytest.raises(DataError, match="takes categories there"):
        fitted.model.scores(pandas.DataFrame({"age": [1.0], "brand": [2.0]}))
    frame = pandas.DataFrame({"query_id": "q", "doc_id": ["b"], "age": 1.0, "brand": 2.0})
    with pytest.raises(DataError, match="holds numbers, but the policy takes text there, such as 'Acme'"):
        rank(fitted, frame)


def test_rankers_with_the_interface_of_scikit_learn() -> None:
    frame = clicks()
    rows, named = frame[["age", "brand"]], {"query": frame["query"], "position": frame["position"]}
    ranker = rankloop.ClickRanker(MODEL, bias="position@5").fit(
        rows, frame["clicked"], impression=frame["search"], document=frame["document"], **named
    )
    assert ranker.categories_ == {"brand": BRANDS}
    acme, bolt, new, none = ranker.predict(
        pandas.DataFrame({"age": 1.0, "brand": ["Acme", "Bolt", "Echo", None]})
    )
    assert acme > bolt
    assert new == none
    labelled = rankloop.Ranker(MODEL).fit(rows, frame["brand"].map(WORTH), qid=frame["search"])
    np.testing.assert_array_equal(labelled.predict(polars.from_pandas(rows)), labelled.predict(rows))
    with pytest.raises(DataError, match="'brand'"):
        rankloop.Ranker("linear").fit(rows, frame["clicked"], qid=frame["search"])
