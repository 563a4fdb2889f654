"""Files of other programs, and exported ones, come back as the models that they are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rankloop.errors import ModelFileError
from rankloop.exchange import PolicySource, is_foreign, read_model, write_model
from rankloop.models import MLP, LightGBMModel, Linear, TreeEnsemble, model_from_bytes
from rankloop.models.lightgbm_trees import trees_of_json
from rankloop.types import Float32, Model
from tests.exchange import engines
from tests.exchange.cases import NAMES, TRAININGS, case
from tests.exchange.test_routes import ENGINES, LEARNED, VECTORS

TREE_FORMATS = ("opensearch", "opensearch(format=ranklib)", "solr", "vespa", "xgboost")


def read_back(model: Model, to: str, **options: Any) -> Any:
    data = write_model(PolicySource(model, feature_names=NAMES, **options), to).model
    assert is_foreign(data)
    return read_model(data)


def reordered(model: Any, rows: Float32, spelt: tuple[str, ...] = NAMES) -> Float32:
    """The columns that a model takes, by name: files may list only the features that are used."""
    return rows[:, [spelt.index(name) for name in model.feature_names]]


@pytest.mark.parametrize("to", TREE_FORMATS)
@pytest.mark.parametrize("training", TRAININGS)
def test_exported_trees_come_back(training: str, to: str, rng: np.random.Generator) -> None:
    if training == LEARNED and "ranklib" in to:
        return  # refused, as test_routes.py checks
    model = case(training)
    vectors = model.vectors(VECTORS, rng, infinite=to != "solr")
    read = read_back(model.model, to)
    spelt = ("price", "list_price", "age", "rate", "steps") if to == "vespa" else NAMES
    score = read.scores(reordered(read, vectors, spelt))
    # Leaves are float32 in the file, at most seven in a hundred million off each.
    sizes = np.abs(model.trees.values)[model.leaves(vectors)].sum(axis=1)
    assert (np.abs(score - model.model.scores(vectors)) <= sizes * 6e-8).all()


def test_a_document_scores_as_in_the_engine(rng: np.random.Generator) -> None:
    """What is read from Solr's file is what Solr computes from it, normalizers included."""
    model = case(LEARNED)
    vectors = model.vectors(VECTORS, rng, infinite=False)
    data = write_model(PolicySource(model.model), "solr").model
    outputs = ENGINES["solr"][1](json.loads(data), vectors).astype(np.float64)
    assert "StandardNormalizer" in data.decode()
    np.testing.assert_allclose(read_model(data).scores(vectors), outputs.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("training", TRAININGS)
def test_lightgbm_json_is_lightgbm_text(training: str, rng: np.random.Generator) -> None:
    model = case(training)
    vectors = model.vectors(VECTORS, rng)
    dumped = model.model.booster.dump_model()
    read = read_model(json.dumps(dumped).encode())
    assert np.array_equal(read.scores(vectors), model.model.scores(vectors))
    assert trees_of_json(dumped).learned_missing == model.trees.learned_missing


def test_linear_models_come_back_without_their_intercept(rng: np.random.Generator) -> None:
    model = Linear(5, np.array([1, -2, 0.1, 3, 0, 100], np.float32))
    rows = rng.normal(size=(50, 5)).astype(np.float32)
    for to in ("opensearch", "elasticsearch", "solr"):
        read = read_back(model, to)
        assert isinstance(read, Linear)
        assert read.feature_names == NAMES
        np.testing.assert_allclose(model.scores(rows) - read.scores(rows), 100, rtol=1e-5)
    weights = json.loads(
        json.loads(write_model(PolicySource(model), "opensearch").model)["model"]["model"]["definition"]
    )
    found = engines.linear(list(weights.values()), rows)
    np.testing.assert_allclose(found, model.scores(rows) - 100, atol=1e-4)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
def test_networks_of_solr(activation: str, rng: np.random.Generator) -> None:
    model = MLP.initialise(5, rng, hidden=(8, 3), activation=activation)
    rows = rng.normal(size=(50, 5)).astype(np.float32)
    read = read_back(model, "solr")
    assert read.fingerprint == MLP(5, model.parameters, (8, 3), activation, feature_names=NAMES).fingerprint
    content = json.loads(write_model(PolicySource(model), "solr").model)
    np.testing.assert_allclose(engines.solr_network(content, rows), model.scores(rows), atol=1e-5)
    # Solr casts every number of a matrix to Java's Double, which a number without a point is not.
    assert all(
        isinstance(x, float) for layer in content["params"]["layers"] for row in layer["matrix"] for x in row
    )


def test_what_the_plug_in_returns_can_be_read(rng: np.random.Generator) -> None:
    """`GET _ltr/_model/NAME` wraps the model in a document of the index."""
    created = json.loads(
        write_model(PolicySource(case("plain").model, feature_names=NAMES), "opensearch").model
    )
    returned = {"_index": ".ltrstore", "found": True, "_source": {"type": "model", **created}}
    vectors = case("plain").vectors(100, rng)
    one, other = read_model(json.dumps(created).encode()), read_model(json.dumps(returned).encode())
    assert np.array_equal(one.scores(reordered(one, vectors)), other.scores(reordered(other, vectors)))
    definition = json.loads(created["model"]["model"]["definition"])
    splits = read_model(json.dumps({"objective": "rank:ndcg", "splits": definition}).encode())
    assert np.array_equal(one.scores(reordered(one, vectors)), splits.scores(reordered(splits, vectors)))


def test_ranklib_without_names_is_matched_by_number() -> None:
    text = """## LambdaMART
## No. of trees = 1

<ensemble>
\t<tree id="1" weight="0.1">
\t\t<split>
\t\t\t<feature> 3 </feature>
\t\t\t<threshold> 0.5 </threshold>
\t\t\t<split pos="left">
\t\t\t\t<output> -2.0 </output>
\t\t\t</split>
\t\t\t<split pos="right">
\t\t\t\t<output> 4.0 </output>
\t\t\t</split>
\t\t</split>
\t</tree>
</ensemble>
"""
    model: Any = read_model(text.encode())
    assert (model.n_features, model.feature_names) == (3, None)
    rows = np.array([[9, 9, 0.5], [0, 0, 0.51], [0, 0, np.nan]], np.float32)
    np.testing.assert_allclose(model.scores(rows), [-0.2, 0.4, -0.2], rtol=1e-7)
    with pytest.raises(ModelFileError, match="RankLib's AdaRank models cannot be read"):
        read_model(text.replace("LambdaMART", "AdaRank").encode())
    with pytest.raises(ModelFileError, match="not a RankLib model, or it is damaged"):
        read_model(text.replace("<threshold> 0.5 </threshold>", "").encode())


def test_plain_trees_are_stored_and_loaded(rng: np.random.Generator) -> None:
    model = case(LEARNED)
    again = model_from_bytes(model.trees.to_bytes())
    assert isinstance(again, TreeEnsemble)
    assert (again.fingerprint, again.feature_names) == (model.trees.fingerprint, NAMES)
    vectors = model.vectors(100, rng)
    assert np.array_equal(again.scores(vectors), model.model.scores(vectors))
    assert not is_foreign(model.trees.to_bytes())
    assert not is_foreign(model.model.to_bytes())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "not a model that rankloop knows"),
        ([], "not a model that rankloop knows"),
        ([{"id": 1}], "not a model that rankloop knows"),
        (3, "not a model that rankloop knows"),
        ([{"nodeid": 0, "split": "a"}], "damaged: KeyError"),
        ({"tree_info": [{}]}, "not a LightGBM model, or it is damaged"),
        ({"learner": {}}, "not a model of XGBoost, or it is damaged"),
        ({"class": "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"}, "not a model of Solr"),
        (
            {"class": "org.apache.solr.ltr.model.Other", "features": [], "params": {}},
            "Solr's Other cannot be read",
        ),
        (
            {"model": {"model": {"type": "model/other", "definition": "{}"}}},
            "type 'model/other' cannot be read",
        ),
        (
            {"model": {"model": {"type": "model/linear", "definition": "{"}}},
            "definition of the model is damaged",
        ),
    ],
)
def test_what_is_something_else_is_refused(content: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        read_model(json.dumps(content).encode())


def test_damaged_files_are_refused() -> None:
    data = write_model(PolicySource(case("plain").model), "opensearch").model
    with pytest.raises(ModelFileError, match="the JSON file is damaged"):
        read_model(data[:-3])
    trees = case("plain").trees
    arrays = {
        name: np.array(getattr(trees, name)) for name in ("feature", "bound", "left", "right", "values")
    }
    for name, value, message in (
        ("left", 10**6, "a node or a leaf is missing"),
        ("left", 0, "its own descendant"),
        ("feature", 5, "a feature past the last"),
        ("bound", np.nan, "no threshold"),
        ("values", np.inf, "no finite value"),
    ):
        broken = {key: array.copy() for key, array in arrays.items()}
        broken[name][0] = value
        with pytest.raises(ModelFileError, match=message):
            TreeEnsemble.of_nodes(5, roots=trees.roots, **broken)


def test_trees_without_a_split(rng: np.random.Generator) -> None:
    """No tree at all, or one leaf: what training gives if nothing can be learned."""
    rows = rng.normal(size=(3, 5)).astype(np.float32)
    for values, roots, start in (([], [], 0.0), ([2.5], [-1], 0.0), ([], [], 1.5)):
        trees = TreeEnsemble.of_nodes(
            5, roots=roots, feature=[], bound=[], left=[], right=[], values=values, start=start
        )
        for to in (*TREE_FORMATS, "elasticsearch"):
            read = read_back(trees, to)
            width = read.n_features
            assert np.array_equal(read.scores(rows[:, :width]), trees.scores(rows)), to


def test_a_model_of_lightgbm_without_trees(rng: np.random.Generator) -> None:
    text = case("plain").model.text
    empty = text.partition("\nTree=0")[0] + "\nend of trees" + text.partition("\nend of trees")[2]
    model = LightGBMModel(empty.replace(empty.split("tree_sizes=")[1].split("\n")[0], ""))
    rows = rng.normal(size=(3, 5)).astype(np.float32)
    assert np.array_equal(read_back(model, "solr").scores(rows), model.scores(rows))
