"""ONNX files give the same scores in onnxruntime, for every kind of model."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.errors import DataError, ModelFileError
from rankloop.exchange import ExportError, OnnxModel, PolicySource, write_model
from rankloop.models import MLP, Linear, TreeEnsemble
from rankloop.types import Float32, Model
from tests.exchange.cases import NAMES, TRAININGS, case
from tests.exchange.test_routes import VECTORS, numbered

pytest.importorskip("onnx", reason='onnx is not installed: pip install "rankloop[export]"')
pytest.importorskip("onnxruntime", reason='onnxruntime is not installed: pip install "rankloop[export]"')
EPSILON = float(np.finfo(np.float32).eps)


def onnx_model(source: PolicySource) -> OnnxModel:
    return OnnxModel.from_bytes(write_model(source, "onnx").model)


def one_tree(trees: TreeEnsemble, number: int) -> TreeEnsemble:
    return TreeEnsemble.of_nodes(
        trees.n_features,
        roots=trees.roots[[number]],
        feature=trees.feature,
        bound=trees.bound,
        left=trees.left,
        right=trees.right,
        values=trees.values,
        nan_left=trees.nan_left,
    )


@pytest.mark.parametrize("training", TRAININGS)
def test_trees_take_the_same_routes(training: str, rng: np.random.Generator) -> None:
    model = case(training)
    vectors = model.vectors(VECTORS, rng)
    leaves = model.leaves(vectors)
    for tree in range(0, model.trees.n_trees, 3):
        found = onnx_model(PolicySource(one_tree(numbered(model.trees), tree))).scores(vectors)
        assert np.array_equal(found, leaves[:, tree])
    score = onnx_model(PolicySource(model.model)).scores(vectors)
    sizes = np.abs(model.trees.values)[leaves].sum(axis=1)
    assert (np.abs(score - model.model.scores(vectors)) <= sizes * EPSILON * model.trees.n_trees).all()


@pytest.mark.parametrize(("roots", "values"), [([], []), ([-1], [2.0]), ([-1, -2], [2.0, 1.0])])
def test_trees_without_a_split_are_a_constant(
    roots: list[int], values: list[float], rng: np.random.Generator
) -> None:
    """The export of a model without trees ended with "could not infer attribute from empty iterator"."""
    nothing: list[int] = []
    trees = TreeEnsemble.of_nodes(
        5, roots=roots, feature=nothing, bound=nothing, left=nothing, right=nothing, values=values, start=0.5
    )
    found = onnx_model(PolicySource(trees)).scores(features(rng, 3))
    np.testing.assert_array_equal(found, np.full(3, 0.5 + sum(values)))
    np.testing.assert_array_equal(found, trees.scores(features(rng, 3)))


def features(rng: np.random.Generator, n: int = 400) -> Float32:
    return rng.normal(size=(n, 5)).astype(np.float32)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh", "relu"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_networks(activation: str, dtype: type, rng: np.random.Generator) -> None:
    model = MLP.initialise(5, rng, hidden=(8, 4), activation=activation, dtype=dtype)
    rows = features(rng)
    # About twenty products and sums of numbers below ten, in float32.
    np.testing.assert_allclose(
        onnx_model(PolicySource(model)).scores(rows), model.scores(rows), atol=1e-5, rtol=0
    )


def test_a_linear_model_has_its_intercept(rng: np.random.Generator) -> None:
    model = Linear(5, np.array([1, -2, 0.5, 3, 0, 100], np.float32))
    rows = features(rng)
    np.testing.assert_allclose(onnx_model(PolicySource(model)).scores(rows), model.scores(rows), rtol=1e-5)


def test_missing_values_are_filled_in_as_in_training(rng: np.random.Generator) -> None:
    model = MLP.initialise(5, rng, hidden=(8,))
    rows = features(rng)
    fill = (0.5, -1.0, 0.0, 2.0, 9.0)
    gone = np.where(rng.random(rows.shape) < 0.3, np.float32(np.nan), rows)
    filled = np.where(np.isnan(gone), np.array(fill, np.float32), gone)
    found = onnx_model(PolicySource(model, fill_values=fill)).scores(gone)
    np.testing.assert_allclose(found, model.scores(filled), atol=1e-5, rtol=0)


def test_the_names_of_the_features_are_in_the_file(rng: np.random.Generator) -> None:
    model = Linear.initialise(5, rng)
    assert onnx_model(PolicySource(model)).feature_names is None
    assert onnx_model(PolicySource(model, feature_names=NAMES)).feature_names == NAMES


def test_the_same_model_gives_the_same_bytes(rng: np.random.Generator) -> None:
    source = PolicySource(MLP.initialise(5, rng), feature_names=NAMES)
    assert write_model(source, "onnx").model == write_model(source, "onnx").model


def test_a_graph_for_one_document_at_a_time(rng: np.random.Generator) -> None:
    import onnx

    model = Linear.initialise(5, rng)
    graph = onnx.load_from_string(write_model(PolicySource(model), "onnx").model)
    for put in (*graph.graph.input, *graph.graph.output):
        put.type.tensor_type.shape.dim[0].dim_value = 3
    fixed = OnnxModel.from_bytes(graph.SerializeToString())
    rows = features(rng, 7)
    np.testing.assert_allclose(fixed.scores(rows), model.scores(rows), atol=1e-5, rtol=0)
    assert fixed.scores(rows[:0]).shape == (0,)


def test_what_is_not_a_ranker_is_refused(rng: np.random.Generator) -> None:
    import onnx
    from onnx import TensorProto, helper

    with pytest.raises(ModelFileError, match="onnxruntime cannot read"):
        OnnxModel.from_bytes(b"\x08nonsense")
    data = write_model(PolicySource(Linear.initialise(5, rng)), "onnx").model
    with pytest.raises(DataError, match="documents × 5 features, got shape"):
        OnnxModel.from_bytes(data).scores(np.zeros((2, 4), np.float32))
    graph = onnx.load_from_string(data)
    graph.graph.output.append(helper.make_tensor_value_info("features", TensorProto.FLOAT, ["documents", 5]))
    graph.graph.output[0].name = graph.graph.node[-1].output[0] = "one"
    with pytest.raises(ModelFileError, match="name the one that is the score"):
        OnnxModel.from_bytes(graph.SerializeToString())
    graph = onnx.load_from_string(data)
    graph.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "width"
    with pytest.raises(ModelFileError, match="must take one input"):
        OnnxModel.from_bytes(graph.SerializeToString())


def test_an_onnx_model_is_not_exported_again(rng: np.random.Generator) -> None:
    model: Model = onnx_model(PolicySource(Linear.initialise(5, rng)))
    with pytest.raises(ExportError, match=r"onnx cannot express this policy \(onnx\)"):
        write_model(PolicySource(model), "onnx")
