"""ONNX: every model of this project except your own torch modules, which torch exports itself.

The graph takes ``features`` (float32, documents × features) and gives ``score`` (float32, documents × 1). The
rule of its trees is ``x <= value`` in float32, and where missing values go is written at each node. The names
of the features are in the metadata, under ``feature_names``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rankloop import extras
from rankloop._version import __version__
from rankloop.exchange.formats import Export, ExportError, ExportFormat, PolicySource, names_note
from rankloop.models.mlp import Network
from rankloop.models.trees import TreeEnsemble
from rankloop.registry import register

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
    """A TreeEnsembleRegressor: the nodes of each tree in the order of a walk, children after parents."""
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
