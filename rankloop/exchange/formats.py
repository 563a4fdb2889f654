"""What a policy is exported to: formats by name, the files that come out, and blends as one model."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np

from rankloop.errors import RankloopError
from rankloop.models import Blend, LightGBMModel, Linear, TreeEnsemble
from rankloop.models.feature_names import Names, names_of_model, scaling_of_model, with_names
from rankloop.models.lightgbm_trees import trees_of_text
from rankloop.models.mlp import Network
from rankloop.models.optimisers import Parameters
from rankloop.registry import Named, Registry, register
from rankloop.storage.files import check_writable, write_whole
from rankloop.types import Model

# Engines use the name of a model in paths and queries.
MODEL_NAME = re.compile(r"[A-Za-z_][\w.-]*")


class ExportError(RankloopError):
    """A format cannot express a policy; the message says why, and what can."""


@dataclass(frozen=True, eq=False)
class PolicySource:
    """The policy to export.

    Attributes:
        model: the ranker.
        name: what the engine is to call the model.
        feature_names: the names of the features, in the order of the model; None for those of the model.
        fill_values: what replaces missing values of features before the model sees them; None if nothing
            does.
    """

    model: Model
    name: str = "rankloop"
    feature_names: tuple[str, ...] | None = None
    fill_values: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if scaling_of_model(self.model) == "query":
            raise ExportError(
                f"this policy ({self.model.kind}) was trained on features that are scaled to [0, 1] within "
                f"each query, which no engine does: train it on the features as they are, with --normalise "
                f"none (in Python, rankloop.dataset(path, normalise=None))"
            )
        object.__setattr__(self, "model", unblended(self.model))
        if not MODEL_NAME.fullmatch(self.name):
            raise ExportError(
                f"a model's name has letters, digits and _ . -, and starts with a letter; got {self.name!r}"
            )

    @property
    def known_names(self) -> tuple[str, ...] | None:
        """The names of the features, if anybody knows them."""
        return self.feature_names or names_of_model(self.model)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the features; ``feature_0`` and so on if nobody knows them."""
        return self.known_names or tuple(f"feature_{i}" for i in range(self.model.n_features))

    @cached_property
    def trees(self) -> TreeEnsemble | None:
        """The model as plain trees, if it consists of trees.

        Raises:
            RankloopError: LightGBM's trees are of a kind that no other program can express.
        """
        return plain_trees(self.model, self.known_names)

    @property
    def layers(self) -> list[tuple[Parameters, Parameters]] | None:
        """The weights (in × out) and biases of each layer, if the model is a network or linear."""
        if not isinstance(self.model, Network):
            return None
        found, start = list[tuple[Parameters, Parameters]](), 0
        widths, parameters = self.model.widths.tolist(), self.model.parameters
        for n_in, n_out in pairwise(widths):
            weights = parameters[start : start + n_in * n_out].reshape(n_in, n_out)
            found.append((weights, parameters[start + n_in * n_out : start + n_in * n_out + n_out]))
            start += n_in * n_out + n_out
        return found

    @property
    def weights(self) -> Parameters | None:
        """The weights of a linear model, which it has besides its intercept."""
        layers = self.layers
        return layers[0][0][:, 0] if layers is not None and isinstance(self.model, Linear) else None

    @property
    def fills_missing(self) -> bool:
        """Whether missing values are replaced by anything but zero."""
        return self.fill_values is not None and bool(np.any(np.asarray(self.fill_values) != 0))


@dataclass(frozen=True)
class Export:
    """A policy in the format of an engine.

    Attributes:
        format: the name of the format.
        model: the content of the model's file.
        suffix: how the name of that file should end.
        features: the content of a second file, in which the engine's features are to be defined: a first
            version that reads document fields of the same names, to be edited.
        features_suffix: how the name of that file should end.
        notes: what to know before it is deployed.
    """

    format: str
    model: bytes = field(repr=False)
    suffix: str
    features: bytes | None = field(default=None, repr=False)
    features_suffix: str = ".features.json"
    notes: tuple[str, ...] = ()

    def paths(self, path: str | os.PathLike[str]) -> tuple[Path, ...]:
        """The files that `save` writes."""
        target = Path(path)
        if self.features is None:
            return (target,)
        return target, target.with_name(target.stem + self.features_suffix)

    def save(self, path: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write the model, and beside it the definitions of its features; return the files written."""
        paths = self.paths(path)
        for target in paths:
            check_writable(target)
        contents = (self.model, self.features)
        return tuple(
            write_whole(target, content)
            for target, content in zip(paths, contents, strict=False)
            if content is not None
        )


class ExportFormat(Named, ABC):
    """A format that policies can be exported to: a frozen dataclass whose fields are its options.

    Attributes:
        suffix: how the names of its files end.
    """

    suffix: ClassVar[str]

    @abstractmethod
    def write(self, source: PolicySource) -> Export:
        """The policy in this format.

        Raises:
            ExportError: the format cannot express it.
        """

    def refuse(self, source: PolicySource, why: str, instead: Sequence[str] = ()) -> ExportError:
        """The error that says what cannot be expressed, and what can."""
        kind = source.model.kind
        listed = " or ".join(filter(None, (", ".join(instead[:-1]), *instead[-1:])))
        use = f": use {listed}" if listed else ""
        return ExportError(f"{self} cannot express this policy ({kind}): {why}{use}")


EXPORT_FORMATS: Registry[ExportFormat] = Registry("export format", ExportFormat)


def names_note(source: PolicySource) -> tuple[str, ...]:
    """The caveat about features that have no names."""
    if source.known_names is not None:
        return ()
    return (
        f"The features have no names: they are called feature_0 to feature_{source.model.n_features - 1}, in "
        f"the order of the table that the policy was fitted to.",
    )


def plain_trees(model: Model, names: Names | None = None) -> TreeEnsemble | None:
    """The trees of a model, if it consists of trees: LightGBM's, those of another program, or a blend.

    Raises:
        RankloopError: LightGBM's trees are of a kind that no other program can express.
    """
    if isinstance(model, LightGBMModel):
        return trees_of_text(model.text, names or model.feature_names)
    if isinstance(model, Blend):
        first, second = plain_trees(model.first, names), plain_trees(model.second, names)
        return None if first is None or second is None else _add(first, second, model.share)
    return model if isinstance(model, TreeEnsemble) else None


def unblended(model: Model) -> Model:
    """A blend of linear models as a linear model; every other model as it is.

    >>> from rankloop.models import Blend
    >>> down, up = (Linear(1, np.array([slope, 0.0])) for slope in (-1.0, 1.0))
    >>> unblended(Blend(down, up, 0.75)).parameters
    array([0.5, 0. ])
    """
    if not isinstance(model, Blend):
        return model
    first, second = unblended(model.first), unblended(model.second)
    if not isinstance(first, Linear) or not isinstance(second, Linear):
        return model
    parameters = (1.0 - model.share) * first.parameters + model.share * second.parameters
    names = names_of_model(first) or names_of_model(second)
    return Linear(first.n_features, parameters, feature_names=names)


def _add(first: TreeEnsemble, second: TreeEnsemble, share: float) -> TreeEnsemble:
    """``(1 − share) · first + share · second``: the trees of both, with scaled leaves."""
    nodes, leaves = len(first.feature), len(first.values)

    def joined(name: str) -> object:
        one, other = getattr(first, name), getattr(second, name)
        if name in ("roots", "left", "right"):
            other = np.where(other >= 0, other + nodes, other - leaves)
        return np.concatenate([one, other])

    columns = {name: joined(name) for name in ("roots", "feature", "bound", "nan_left", "left", "right")}
    return TreeEnsemble.of_nodes(
        first.n_features,
        **columns,
        values=np.concatenate([(1.0 - share) * first.values, share * second.values]),
        start=(1.0 - share) * first.start + share * second.start,
        learned_missing=first.learned_missing or second.learned_missing,
        feature_names=first.feature_names or second.feature_names,
    )


@register
@dataclass(frozen=True)
class LightGBM(ExportFormat):
    """LightGBM's own text, which any LightGBM loads: trees that LightGBM trained."""

    name: ClassVar[str] = "lightgbm"
    suffix: ClassVar[str] = ".txt"

    def write(self, source: PolicySource) -> Export:
        """The text of the model.

        Raises:
            ExportError: it is not a model of LightGBM.
        """
        model = with_names(source.model, source.known_names)
        if not isinstance(model, LightGBMModel):
            raise self.refuse(source, "it was not trained by LightGBM", ("xgboost", "onnx"))
        return Export(str(self), model.text.encode(), self.suffix, notes=names_note(source))
