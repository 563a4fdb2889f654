"""Solr's learning to rank, written and read: MultipleAdditiveTreesModel, LinearModel and NeuralNetworkModel.

The model's file is for ``PUT …/schema/model-store``, that of the features for ``PUT …/schema/feature-store``.

Solr's rule at a split: left if ``x <= threshold + 1e-6`` in float32. For a bound b there may be no float32
threshold whose sum with 1e-6 is b; near zero, there hardly ever is one. Then the feature and its thresholds
are scaled by a power of two, which is exact, with Solr's own normalizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rankloop.errors import ModelFileError
from rankloop.exchange.formats import Export, ExportFormat, PolicySource, names_note
from rankloop.models import MLP, Linear
from rankloop.models.mlp import Network
from rankloop.models.optimisers import Parameters
from rankloop.models.trees import TreeBuilder, TreeEnsemble, next_above, next_below
from rankloop.registry import register
from rankloop.storage.fingerprints import fingerprint
from rankloop.types import Float32, Float64, Model

MODELS = "org.apache.solr.ltr.model."
TREES, LINEAR, NETWORK = (
    MODELS + kind for kind in ("MultipleAdditiveTreesModel", "LinearModel", "NeuralNetworkModel")
)
FIELD_VALUE = "org.apache.solr.ltr.feature.FieldValueFeature"
NORMALIZER = "org.apache.solr.ltr.norm.StandardNormalizer"
# What Solr adds to every threshold.
SLACK = np.float32(1e-6)
LARGEST = np.finfo(np.float32).max
# Powers of two that features may be multiplied by; the normalizer divides by a float32, which must be normal.
SCALES = range(127)


@register
@dataclass(frozen=True)
class Solr(ExportFormat):
    """Solr's learning-to-rank module: trees, linear models and networks.

    Attributes:
        store: the feature store of the model; ``none`` for one of the model's name.
    """

    name: ClassVar[str] = "solr"
    suffix: ClassVar[str] = ".json"
    store: str | None = None

    def write(self, source: PolicySource) -> Export:
        """The model and its feature store.

        Raises:
            ExportError: Solr cannot express the model.
        """
        trees, weights, layers = source.trees, source.weights, source.layers
        if source.fills_missing:
            raise self.refuse(
                source,
                "missing values of features are replaced by their means before the model sees them, but Solr "
                "replaces them by 0; fit with --missing zero",
                ("onnx",),
            )
        norms: list[int] = [0] * source.model.n_features
        notes: tuple[str, ...] = ("A field that a document does not have is 0 for Solr.",)
        missing = trees is not None and trees.learned_missing
        if trees is not None:
            kind = TREES
            norms = self._scales(source, trees)
            params: dict[str, Any] = {"trees": write_trees(trees, source.names, norms)}
            if missing:
                params["isNullSameAsZero"] = False
                notes = (
                    "The policy was fitted to missing values: it needs Solr 9.2 or later, and features whose "
                    "default value is NaN, as in the feature store that is written here.",
                )
        elif weights is not None:
            kind = LINEAR
            values = [float(weight) for weight in weights]
            params = {"weights": dict(zip(source.names, values, strict=True))}
            notes = (
                "The intercept is left out: it is the same for every document and does not change the order.",
                *notes,
            )
        elif layers is not None and isinstance(source.model, Network):
            kind = NETWORK
            hidden = [source.model.activation] * (len(layers) - 1)
            params = {
                "layers": [
                    {"matrix": _numbers(weight.T), "bias": _numbers(bias), "activation": activation}
                    for (weight, bias), activation in zip(layers, [*hidden, "identity"], strict=True)
                ]
            }
        else:
            raise self.refuse(source, "Solr does not support this kind of model", ("onnx",))
        store = self.store or source.name
        model = {
            "store": store,
            "class": kind,
            "name": source.name,
            "features": [_feature(name, norm) for name, norm in zip(source.names, norms, strict=True)],
            "params": params,
        }
        params_of_field: dict[str, Any] = {"defaultValue": "NaN"} if missing else {}
        features = [
            {"store": store, "name": name, "class": FIELD_VALUE, "params": {"field": name, **params_of_field}}
            for name in source.names
        ]
        return Export(
            str(self),
            json.dumps(model, indent=1).encode(),
            self.suffix,
            json.dumps(features, indent=1).encode(),
            notes=(*notes, *names_note(source)),
        )

    def _scales(self, source: PolicySource, trees: TreeEnsemble) -> list[int]:
        """The power of two by which each feature is scaled, so that all its thresholds can be written."""
        scales = []
        for number, name in enumerate(source.names):
            bounds = np.unique(trees.bound[trees.feature == number])
            scale = next((k for k in SCALES if not np.isnan(thresholds(bounds, k)).any()), None)
            if scale is None:
                raise self.refuse(
                    source,
                    f"Solr adds 1e-6 to every threshold in float32, and no scale of feature {name!r} makes "
                    f"its thresholds, from {bounds.min():g} to {bounds.max():g}, come out exactly; use "
                    f"another unit for it",
                    ("opensearch", "vespa", "onnx"),
                )
            scales.append(scale)
        return scales


def thresholds(bounds: Float32, scale: int) -> Float32:
    """The float32 thresholds that Solr turns into bounds, scaled by ``2^scale``; NaN where there is none.

    >>> bound = np.float32(0.5)
    >>> bool(thresholds(np.array([bound]), 0)[0] + SLACK == bound)
    True
    """
    with np.errstate(over="ignore"):
        wanted = np.ldexp(bounds, scale).astype(np.float32)
        # All finite values, scaled or not, are below infinity.
        wanted = np.where((bounds == LARGEST) & (scale > 0), np.float32(np.inf), wanted)
        overflow = np.isinf(wanted) & np.isfinite(bounds) & (bounds != LARGEST)
        found = np.full(len(bounds), np.nan, np.float32)
        below = above = (wanted - SLACK).astype(np.float32)
        for _ in range(4):
            for candidate in (below, above):
                fits = (candidate + SLACK == wanted) & ~overflow & np.isnan(found)
                found = np.where(fits, candidate, found).astype(np.float32)
            below, above = next_below(below), next_above(above)
    return found


def write_trees(trees: TreeEnsemble, names: tuple[str, ...], scales: list[int]) -> list[dict[str, Any]]:
    """One nested object per tree; the start is a tree of its own."""
    written = np.empty(len(trees.bound), np.float32)
    for number, scale in enumerate(scales):
        here = trees.feature == number
        written[here] = thresholds(trees.bound[here], scale)

    def write(node: int) -> dict[str, Any]:
        if node < 0:
            return {"value": _text(trees.values[-1 - node])}
        split = {"feature": names[trees.feature[node]], "threshold": _text(written[node])}
        if trees.learned_missing:
            split["missing"] = "left" if trees.nan_left[node] else "right"
        return {**split, "left": write(int(trees.left[node])), "right": write(int(trees.right[node]))}

    roots = [{"weight": "1", "root": write(root)} for root in trees.roots.tolist()]
    if trees.start or not roots:
        roots.insert(0, {"weight": "1", "root": {"value": _text(trees.start)}})
    return roots


def _feature(name: str, scale: int) -> dict[str, Any]:
    if scale == 0:
        return {"name": name}
    return {"name": name, "norm": {"class": NORMALIZER, "params": {"avg": "0.0", "std": _text(2.0**-scale)}}}


def _text(value: float) -> str:
    """A float32 as Java reads it back."""
    number = float(np.float32(value))
    return repr(number) if np.isfinite(number) else "Infinity" if number > 0 else "-Infinity"


def _numbers(values: Parameters) -> Any:
    return values.astype(np.float32).astype(np.float64).tolist()


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
