"""What goes along with an exported model: names, features and notes; and what is refused, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pytest

from rankloop.data import dataset
from rankloop.errors import RankloopError
from rankloop.exchange import EXPORT_FORMATS, Export, ExportError, PolicySource, read_model, write_model
from rankloop.exchange.solr import SLACK, thresholds
from rankloop.exchange.vespa import vespa_names
from rankloop.exchange.writer import export_format
from rankloop.models import MLP, Blend, LightGBMModel, Linear, TreeEnsemble, model_from_bytes
from rankloop.models.feature_names import scaling_of_model
from rankloop.names import BadNameError
from rankloop.training import Settings, train
from tests.exchange.cases import NAMES, case, training_data
from tests.exchange.test_routes import LEARNED

ALL = ("elasticsearch", "lightgbm", "onnx", "opensearch", "solr", "vespa", "xgboost")


def stub(trees: Any, to: str) -> Any:
    exported = write_model(PolicySource(trees, "shop", NAMES), to)
    assert exported.features is not None
    return json.loads(exported.features)


def test_the_formats_have_names_and_options() -> None:
    assert EXPORT_FORMATS.names == ALL
    for name in (*ALL, "opensearch(format=ranklib)", "vespa(format=onnx)", "solr(store=features)"):
        assert str(export_format(name)) == name
    with pytest.raises(BadNameError, match="unknown export format 'opensaerch', did you mean 'opensearch'"):
        export_format("opensaerch")


def test_a_feature_set_reads_fields_of_the_same_names() -> None:
    content = stub(case("plain").model, "opensearch")["featureset"]
    assert content["name"] == "shop"
    assert [feature["name"] for feature in content["features"]] == list(NAMES)
    score = content["features"][1]["template"]["function_score"]
    assert score["field_value_factor"] == {"field": "list price", "missing": 0}
    # Where missing values were learned, a document without the field must not match.
    score = stub(case(LEARNED).model, "opensearch")["featureset"]["features"][0]["template"]["function_score"]
    assert score["query"] == {"exists": {"field": "price"}}
    assert "missing" not in score["field_value_factor"]


def test_a_feature_store_reads_fields_of_the_same_names() -> None:
    content = stub(case("plain").model, "solr")
    assert [feature["name"] for feature in content] == list(NAMES)
    assert {feature["store"] for feature in content} == {"shop"}
    assert content[0]["params"] == {"field": "price"}
    assert stub(case(LEARNED).model, "solr")[0]["params"] == {"field": "price", "defaultValue": "NaN"}
    model = json.loads(write_model(PolicySource(case("plain").model, "shop", NAMES), "solr(store=all)").model)
    assert (model["store"], model["name"]) == ("all", "shop")


def test_a_rank_profile_calls_the_model() -> None:
    exported = write_model(PolicySource(case("plain").model, "my-shop", NAMES), "vespa")
    assert exported.features is not None
    profile = exported.features.decode()
    assert profile.startswith("rank-profile my_shop {\n    function price() {\n")
    assert 'expression: attribute(list_price)  # "list price"' in profile
    assert 'expression: lightgbm("my-shop.json")' in profile
    assert profile.count("{") == profile.count("}")
    pytest.importorskip("onnx")
    network = write_model(PolicySource(MLP.initialise(5, np.random.default_rng(0)), "shop", NAMES), "vespa")
    assert network.suffix == ".onnx"
    assert network.features is not None
    assert "tensor<float>(d0[1],d1[5]):[[price, list_price, age, rate, steps]]" in network.features.decode()


def test_names_that_vespa_can_use() -> None:
    names = ("price", "attribute(price)", "fieldMatch(title).completeness", "2 x", "2_x", "größe")
    assert vespa_names(names) == (*names[:3], "_2_x", "_2_x_4", "gr__e")


def test_files_lie_side_by_side(tmp_path: Path) -> None:
    exported = write_model(PolicySource(case("plain").model, "shop", NAMES), "solr")
    paths = exported.save(tmp_path / "new" / "model.json")
    assert [path.name for path in paths] == ["model.json", "model.features.json"]
    assert paths[0].read_bytes() == exported.model
    assert paths[1].read_bytes() == exported.features
    alone = write_model(PolicySource(case("plain").model), "lightgbm").save(tmp_path / "model.txt")
    assert [path.name for path in alone] == ["model.txt"]
    assert lightgbm.Booster(model_file=alone[0]).num_trees() == case("plain").trees.n_trees
    with pytest.raises(RankloopError, match="cannot be written: it is a folder"):
        Export("solr", b"", ".json").save(tmp_path)


def test_features_without_names_are_numbered() -> None:
    exported = write_model(PolicySource(Linear(2, np.array([1.0, 2.0, 0.0]))), "opensearch")
    assert b"feature_1" in exported.model
    assert exported.notes[-1].startswith("The features have no names: they are called feature_0 to feature_1")


@pytest.mark.parametrize(("to", "names"), [("opensearch", "3.2 and earlier"), ("solr", "Solr 9.2 or later")])
def test_notes_say_which_release_reads_missing_values(to: str, names: str) -> None:
    assert any(names in note for note in write_model(PolicySource(case(LEARNED).model), to).notes)


def test_the_name_of_a_model_is_a_word() -> None:
    with pytest.raises(ExportError, match="letters, digits and _"):
        PolicySource(case("plain").model, "my shop")


def refusal(model: Any, to: str, **options: Any) -> str:
    with pytest.raises(RankloopError) as error:
        write_model(PolicySource(model, **options), to)
    return str(error.value)


def test_networks_are_refused_where_there_are_none() -> None:
    network = MLP.initialise(5, np.random.default_rng(0))
    for to in ("opensearch", "elasticsearch"):
        text = refusal(network, to)
        assert "(mlp): the plug-in supports only trees and linear models: use onnx, solr or vespa" in text
    assert "holds only trees: use onnx" in refusal(network, "xgboost")
    assert "it was not trained by LightGBM" in refusal(network, "lightgbm")
    assert "use vespa(format=onnx)" in refusal(network, "vespa(format=lightgbm)")


def test_filled_values_are_refused_and_never_forgotten() -> None:
    """Means that replace missing values are part of the policy; zeros are what engines use anyway."""
    model = Linear.initialise(5, np.random.default_rng(0))
    for to in ("opensearch", "elasticsearch", "solr"):
        text = refusal(model, to, fill_values=(0.0, 0.0, 1.0, 0.0, 0.0))
        assert "replaced by their means" in text
        assert "--missing zero" in text
        write_model(PolicySource(model, fill_values=(0.0,) * 5), to)


def test_scaling_within_queries_is_refused_and_never_forgotten(tmp_path: Path) -> None:
    """Files of labelled documents are scaled query by query unless told otherwise, and models remember it."""
    lines = [
        f"{document % 3} qid:{query} 1:{document} 2:{query * document}"
        for query in range(9)
        for document in range(1, 5)
    ]
    (tmp_path / "data.txt").write_text("\n".join(lines) + "\n")
    for normalise in ("query", None):
        data = dataset(str(tmp_path / "data.txt"), normalise=normalise)  # type: ignore[arg-type]
        for spec in ("linear", "lightgbm(rounds=2, min_documents=2)"):
            model = train(data, spec, settings=Settings(epochs=1)).model
            again = model_from_bytes(model.to_bytes())
            assert scaling_of_model(again) == (normalise or "none")
            if normalise is None:
                write_model(PolicySource(again), "solr")
                continue
            for policy in (again, Blend(again, Blend(again, again, 0.5), 0.5)):
                with pytest.raises(ExportError, match=r"scaled to \[0, 1\] within each query"):
                    PolicySource(policy)


def test_trees_that_only_lightgbm_can_express_are_refused() -> None:
    data, target = training_data(np.random.default_rng(5), missing=False)
    settings = {"verbosity": -1, "num_threads": 1, "num_leaves": 7}
    categorical = lightgbm.train(
        settings, lightgbm.Dataset(np.abs(data), target, categorical_feature=[4], free_raw_data=False), 3
    )
    linear = lightgbm.train({**settings, "linear_tree": True}, lightgbm.Dataset(data, target), 3)
    several = lightgbm.train(
        {**settings, "objective": "multiclass", "num_class": 3}, lightgbm.Dataset(data, target > 0), 3
    )
    for booster, reason in (
        (categorical, "splits by categories"),
        (linear, "linear trees"),
        (several, "several classes"),
    ):
        model = LightGBMModel(booster.model_to_string())
        for to in ("opensearch", "solr", "vespa", "xgboost", "elasticsearch"):
            assert reason in refusal(model, to)
        if booster is not several:
            assert write_model(PolicySource(model), "lightgbm").model == model.text.encode()
        with pytest.raises(RankloopError, match=reason):
            read_model(json.dumps(booster.dump_model()).encode())


def test_blends_of_one_kind_are_models_of_that_kind(rng: np.random.Generator) -> None:
    """A step from one policy towards another, which the live service deploys, is exported as one model."""
    rows = rng.normal(size=(50, 5)).astype(np.float32)
    linear = [Linear(5, rng.normal(size=6), feature_names=NAMES) for _ in range(2)]
    trees = [case("plain").model, case(LEARNED).model]
    for first, second in (linear, trees):
        blend = Blend(first, Blend(second, first, 0.5), 0.3)
        read = read_model(write_model(PolicySource(blend, feature_names=NAMES), "solr").model)
        constant = blend.scores(rows) - read.scores(rows)
        np.testing.assert_allclose(constant, constant[0], atol=1e-5)
    mixed = Blend(linear[0], trees[0], 0.3)
    for to in ("opensearch", "solr", "xgboost"):
        assert "cannot express this policy (blend)" in refusal(mixed, to)


def chain(depth: int) -> TreeEnsemble:
    """A tree as deep as it has splits."""
    numbers = np.arange(depth)
    return TreeEnsemble.of_nodes(
        1,
        roots=[0],
        feature=np.zeros(depth),
        bound=numbers,
        left=-1 - numbers,
        right=np.append(numbers[1:], -1 - depth),
        values=np.arange(depth + 1),
    )


def test_trees_that_are_too_deep_to_nest_are_refused() -> None:
    assert "a tree of this policy is 5000 splits deep" in refusal(chain(5_000), "opensearch")
    deep = chain(5_000)
    write_model(PolicySource(deep), "xgboost")
    assert deep.depth == 5_000


def test_thresholds_that_solr_cannot_hit_are_refused() -> None:
    """Solr adds 1e-6; a feature whose thresholds span more than float32 can scale has no exact form."""
    wide = TreeEnsemble.of_nodes(
        1, roots=[0], feature=[0, 0], bound=[1e-40, 1e30], left=[-1, -2], right=[1, -3], values=[1, 2, 3]
    )
    text = refusal(wide, "solr")
    assert "Solr adds 1e-6 to every threshold" in text
    assert "use opensearch, vespa or onnx" in text


@pytest.mark.parametrize("scale", [0, 1, 40, 99])
def test_solr_adds_the_slack_back(scale: int, rng: np.random.Generator) -> None:
    """Every threshold that is found gives the bound, and no bound above one thousandth is missed."""
    sizes = 10.0 ** rng.uniform(-12, 6, 5_000)
    bounds = (sizes * rng.choice([-1, 1], len(sizes))).astype(np.float32)
    found = thresholds(bounds, scale)
    hit = ~np.isnan(found)
    assert np.array_equal((found + SLACK)[hit], np.ldexp(bounds, scale)[hit])
    assert hit[np.abs(np.ldexp(bounds, scale)) > 1e-3].all()
