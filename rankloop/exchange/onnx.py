"""ONNX, written and read: every model of this project except torch modules, which torch exports itself.

The graph takes ``features`` (float32, documents × features) and gives ``score`` (float32, documents × 1). The
rule of its trees is ``x <= value`` in float32, and where missing values go is written at each node. The names
of the features are in the metadata, under ``feature_names``. onnxruntime computes the scores of what is read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop import extras
from rankloop._version import __version__
from rankloop.errors import DataError, ModelFileError, one_line
from rankloop.exchange.formats import Export, ExportError, ExportFormat, PolicySource, names_note
from rankloop.models.feature_names import checked_names
from rankloop.models.mlp import Network
from rankloop.models.trees import TreeEnsemble
from rankloop.ragged import threads
from rankloop.registry import register
from rankloop.storage.fingerprints import fingerprint
from rankloop.types import Float32, Float64

INPUT, OUTPUT, FEATURE_NAMES = "features", "score", "feature_names"
ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
# Old enough for every runtime in use: ONNX 1.12 of 2022.
OPSET, ML_OPSET, IR_VERSION = 17, 3, 8


@register
@dataclass(frozen=True)
class Onnx(ExportFormat):
    """ONNX, for onnxruntime and every engine that reads it: trees, linear models and networks."""

    name: ClassVar[str] = "onnx"
    suffix: ClassVar[str] = ".onnx"

    def write(self, source: PolicySource) -> Export:
        """The graph.

        Raises:
            ExportError: the model is a torch module, or the package onnx is not installed.
        """
        return Export(str(self), onnx_bytes(source), self.suffix, notes=names_note(source))


def onnx_bytes(source: PolicySource) -> bytes:
    """The graph of a policy as a file.

    Raises:
        ExportError: the model is of a kind that this project cannot export.
    """
    onnx = extras.load("onnx")
    helper = onnx.helper
    trees, layers = source.trees, source.layers
    if trees is not None:
        nodes, constants = [_tree_node(helper, trees)], list[Any]()
    elif layers is not None and isinstance(source.model, Network):
        nodes, constants = _network_nodes(onnx, source, layers)
    else:
        hint = " with torch.onnx.export(model.module, …)" if source.model.kind == "torch" else ""
        raise ExportError(
            f"onnx cannot express this policy ({source.model.kind}): rankloop knows its scores, but not how "
            f"they are computed; export it yourself{hint}"
        )
    width = source.model.n_features
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        source.name,
        [helper.make_tensor_value_info(INPUT, float32, ["documents", width])],
        [helper.make_tensor_value_info(OUTPUT, float32, ["documents", 1])],
        constants,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    model = helper.make_model(
        graph,
        opset_imports=opsets,
        ir_version=IR_VERSION,
        producer_name="rankloop",
        producer_version=__version__,
    )
    if source.known_names is not None:
        helper.set_model_props(model, {FEATURE_NAMES: json.dumps(list(source.known_names))})
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _tree_node(helper: Any, trees: TreeEnsemble) -> Any:
    """A TreeEnsembleRegressor: the nodes of each tree in the order of a walk, children after parents.

    The operator needs a tree: where nothing was learned, it gets one leaf that adds nothing.
    """
    if not trees.n_trees:
        trees = replace(trees, roots=np.array([-1 - len(trees.values)]), values=np.append(trees.values, 0.0))
    columns: dict[str, list[Any]] = {
        name: [] for name in ("treeids", "nodeids", "modes", "featureids", "values", "nan", "true", "false")
    }
    targets: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "weights")}
    for tree, root in enumerate(trees.roots.tolist()):
        stack, number = [(root, -1, "")], 0
        while stack:
            node, parent, side = stack.pop()
            if parent >= 0:
                columns[side][parent] = number
            split = node >= 0
            for name, value in (
                ("treeids", tree),
                ("nodeids", number),
                ("modes", "BRANCH_LEQ" if split else "LEAF"),
                ("featureids", int(trees.feature[node]) if split else 0),
                ("values", float(trees.bound[node]) if split else 0.0),
                ("nan", int(trees.nan_left[node]) if split else 0),
                ("true", 0),
                ("false", 0),
            ):
                columns[name].append(value)
            place = len(columns["nodeids"]) - 1
            if split:
                stack += [(int(trees.right[node]), place, "false"), (int(trees.left[node]), place, "true")]
            else:
                targets["treeids"].append(tree)
                targets["nodeids"].append(number)
                targets["weights"].append(float(np.float32(trees.values[-1 - node])))
            number += 1
    return helper.make_node(
        "TreeEnsembleRegressor",
        [INPUT],
        [OUTPUT],
        domain="ai.onnx.ml",
        aggregate_function="SUM",
        base_values=[float(np.float32(trees.start))],
        n_targets=1,
        nodes_treeids=columns["treeids"],
        nodes_nodeids=columns["nodeids"],
        nodes_modes=columns["modes"],
        nodes_featureids=columns["featureids"],
        nodes_values=columns["values"],
        nodes_missing_value_tracks_true=columns["nan"],
        nodes_truenodeids=columns["true"],
        nodes_falsenodeids=columns["false"],
        post_transform="NONE",
        target_ids=[0] * len(targets["nodeids"]),
        target_treeids=targets["treeids"],
        target_nodeids=targets["nodeids"],
        target_weights=targets["weights"],
    )


def _network_nodes(onnx: Any, source: PolicySource, layers: Any) -> tuple[list[Any], list[Any]]:
    """Missing values are filled in as in training; then one product per layer, in the network's precision."""
    assert isinstance(source.model, Network)
    helper, array = onnx.helper, onnx.numpy_helper.from_array
    nodes, constants, last = [], [], INPUT
    if source.fill_values is not None:
        constants.append(array(np.array([source.fill_values], np.float32), "fill_values"))
        nodes.append(helper.make_node("IsNaN", [last], ["is_missing"]))
        nodes.append(helper.make_node("Where", ["is_missing", "fill_values", last], ["filled"]))
        last = "filled"
    double = source.model.parameters.dtype == np.float64
    if double:
        nodes.append(helper.make_node("Cast", [last], ["wide"], to=onnx.TensorProto.DOUBLE))
        last = "wide"
    for number, (weights, bias) in enumerate(layers, 1):
        constants += [array(weights, f"weights_{number}"), array(bias, f"bias_{number}")]
        final = number == len(layers)
        out = OUTPUT if final and not double else f"sum_{number}"
        nodes.append(helper.make_node("Gemm", [last, f"weights_{number}", f"bias_{number}"], [out]))
        last = out
        if not final:
            nodes.append(helper.make_node(ACTIVATIONS[source.model.activation], [last], [f"units_{number}"]))
            last = f"units_{number}"
    if double:
        nodes.append(helper.make_node("Cast", [last], [OUTPUT], to=onnx.TensorProto.FLOAT))
    return nodes, constants


# onnxruntime's level of errors: it prints warnings otherwise.
ERRORS_ONLY = 3
# Where an output of this name exists, it is the score.
SCORES = ("score", "scores", "variable", "output")


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A graph from documents × features (float32 or float64) to one score per document.

    Attributes:
        data: the ONNX file.
        feature_names: the names of the features; those in the file's metadata (``feature_names``, a JSON
            list) if None.
    """

    kind: ClassVar[str] = "onnx"
    takes_missing: ClassVar[bool] = True
    data: bytes = field(repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.feature_names is None:
            stored = self.session.get_modelmeta().custom_metadata_map.get(FEATURE_NAMES)
            names = None if stored is None else tuple(json.loads(stored))
            object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "feature_names", checked_names(self.feature_names, self.n_features))

    @cached_property
    def session(self) -> Any:
        """Onnxruntime's own object for this graph."""
        runtime = extras.load("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads()
        options.log_severity_level = ERRORS_ONLY
        try:
            return runtime.InferenceSession(self.data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common class of their own
            raise ModelFileError(f"onnxruntime cannot read this model: {one_line(error)}") from error

    @cached_property
    def _input(self) -> Any:
        inputs = self.session.get_inputs()
        shape = list(inputs[0].shape) if len(inputs) == 1 else []
        if len(shape) != 2 or not isinstance(shape[1], int):
            shapes = ", ".join(f"{put.name}: {put.shape}" for put in inputs)
            raise ModelFileError(
                f"the ONNX model must take one input, documents × features with a fixed number of features; "
                f"it takes {shapes}"
            )
        return inputs[0]

    @cached_property
    def _output(self) -> str:
        names = [put.name for put in self.session.get_outputs()]
        found = next((name for name in SCORES if name in names), None)
        if found is None and len(names) > 1:
            raise ModelFileError(
                f"the ONNX model has the outputs {', '.join(names)}: name the one that is the score 'score'"
            )
        return found or names[0]

    @property
    def n_features(self) -> int:
        """The number of features per document."""
        return int(self._input.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """The first digits of the SHA-256 of the file."""
        return fingerprint(self.data)

    def scores(self, features: Float32) -> Float64:
        """One score per document (a row of ``features``); higher is better."""
        kind = np.float64 if self._input.type == "tensor(double)" else np.float32
        rows: NDArray[Any] = np.ascontiguousarray(features, dtype=kind)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(
                f"this ONNX model takes documents × {self.n_features} features, got shape {rows.shape}"
            )
        fixed = self._input.shape[0]
        size = fixed if isinstance(fixed, int) else max(len(rows), 1)
        parts = [self._run(rows[start : start + size], size) for start in range(0, len(rows), size)]
        return np.concatenate([np.zeros(0), *parts])

    def _run(self, rows: NDArray[Any], size: int) -> Float64:
        """Scores of at most ``size`` documents; a graph for a fixed number of them is given that many."""
        given = np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])
        (scores,) = self.session.run([self._output], {self._input.name: given})
        scores = np.asarray(scores, np.float64)
        if scores.size != size:
            raise ModelFileError(
                f"the ONNX model must give one score per document, but gives {scores.shape} for {size}"
            )
        return scores.reshape(size)[: len(rows)]

    def to_bytes(self) -> bytes:
        """The ONNX file."""
        return self.data

    @classmethod
    def from_bytes(cls, data: bytes) -> OnnxModel:
        """The model of an ONNX file; anything else is refused with `ModelFileError`."""
        model = cls(data)
        _ = model._output
        return model
