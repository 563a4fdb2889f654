"""Solr's models as models of this project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rankloop.errors import ModelFileError
from rankloop.exchange.solr import LINEAR, MODELS, NETWORK, SLACK, TREES
from rankloop.exchange.tree_builder import TreeBuilder
from rankloop.models import MLP, Linear, TreeEnsemble
from rankloop.storage.fingerprints import fingerprint
from rankloop.types import Float32, Float64, Model

NORMALIZERS = "org.apache.solr.ltr.norm."


def read_solr(content: Mapping[str, Any]) -> Model:
    """The model that Solr's model store was given.

    Raises:
        ModelFileError: the model is damaged, or of a class that cannot be read.
    """
    try:
        names = tuple(str(feature["name"]) for feature in content["features"])
        params, kind = content["params"], content["class"]
        if kind == TREES:
            model: Model = _trees(params, names)
        elif kind == LINEAR:
            weights = [float(params["weights"][name]) for name in names]
            model = Linear(len(names), np.array([*weights, 0.0], np.float32), feature_names=names)
        elif kind == NETWORK:
            model = _network(params["layers"], names)
        else:
            known = ", ".join(each.removeprefix(MODELS) for each in (TREES, LINEAR, NETWORK))
            raise ModelFileError(
                f"Solr's {str(kind).removeprefix(MODELS)} cannot be read; these can: {known}"
            )
        norms = [_norm(feature.get("norm")) for feature in content["features"]]
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"this is not a model of Solr, or it is damaged: {error!r}") from error
    if all(norm == (0.0, 1.0) for norm in norms):
        return model
    shift, scale = np.array(norms, np.float32).T
    return NormalisedModel(model, shift, scale)


def _trees(params: Mapping[str, Any], names: tuple[str, ...]) -> TreeEnsemble:
    builder = TreeBuilder()
    numbers = {name: number for number, name in enumerate(names)}
    learned = str(params.get("isNullSameAsZero", True)).lower() == "false"

    def read(node: Mapping[str, Any], weight: np.float32) -> int:
        if "feature" not in node:
            return builder.leaf(float(np.float32(node.get("value", 0.0)) * weight))
        bound = float(np.float32(node["threshold"]) + SLACK)
        nan_left = node.get("missing") == "left" if learned else bound >= 0
        children = (read(node[side], weight) for side in ("left", "right"))
        return builder.split(numbers[node["feature"]], bound, bool(nan_left), *children)

    for tree in params["trees"]:
        builder.root(read(tree["root"], np.float32(tree["weight"])))
    return builder.ensemble(len(names), names=names, learned_missing=learned)


def _network(layers: list[Mapping[str, Any]], names: tuple[str, ...]) -> MLP:
    activations = {str(layer["activation"]) for layer in layers[:-1]}
    if len(activations) > 1 or layers[-1]["activation"] != "identity":
        raise ModelFileError(
            "of Solr's networks, those with one activation for all hidden layers and a last layer without "
            "one can be read"
        )
    parts, hidden = [], []
    for layer in layers:
        matrix = np.array(layer["matrix"], np.float32)
        hidden.append(len(matrix))
        parts += [matrix.T.ravel(), np.array(layer["bias"], np.float32)]
    return MLP(
        len(names),
        np.concatenate(parts),
        tuple(hidden[:-1]),
        activations.pop() if activations else "sigmoid",
        feature_names=names,
    )


def _norm(norm: Mapping[str, Any] | None) -> tuple[float, float]:
    """What a normalizer subtracts, and what it divides by."""
    if norm is None:
        return 0.0, 1.0
    kind, params = str(norm["class"]).removeprefix(NORMALIZERS), norm.get("params", {})
    if kind == "IdentityNormalizer":
        return 0.0, 1.0
    if kind == "StandardNormalizer":
        return float(params.get("avg", 0.0)), float(params.get("std", 1.0))
    if kind == "MinMaxNormalizer":
        low, high = np.float32(params.get("min", "-inf")), np.float32(params.get("max", "inf"))
        return float(low), float(high - low)
    raise ModelFileError(
        f"Solr's {kind} cannot be read: scale the features before they reach Solr, or use its "
        f"StandardNormalizer or MinMaxNormalizer"
    )


@dataclass(frozen=True, eq=False)
class NormalisedModel:
    """A model whose features are normalised first: ``(x − shift) / scale`` in float32, as Solr does.

    Attributes:
        model: the model of the normalised features.
        shift: float32, features.
        scale: float32, features.
    """

    kind: ClassVar[str] = "normalised"
    model: Model
    shift: Float32 = field(repr=False)
    scale: Float32 = field(repr=False)

    @property
    def n_features(self) -> int:
        """The number of features per document."""
        return self.model.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features, in the order that it takes them."""
        names: tuple[str, ...] | None = getattr(self.model, "feature_names", None)
        return names

    @property
    def takes_missing(self) -> bool:
        """Whether it can score documents with missing values."""
        return bool(getattr(self.model, "takes_missing", False))

    @property
    def fingerprint(self) -> str:
        """Identifies the model and its normalisation."""
        return fingerprint(self.model.to_bytes() + self.shift.tobytes() + self.scale.tobytes())

    def scores(self, features: Float32) -> Float64:
        """One score per document; higher is better."""
        with np.errstate(over="ignore"):
            normalised = (np.asarray(features, np.float32) - self.shift) / self.scale
        return self.model.scores(normalised)

    def to_bytes(self) -> bytes:
        """Refused: keep the file that it was read from."""
        raise ModelFileError("a model with Solr's normalizers cannot be stored again: keep Solr's own file")
