"""The names of the features that a model takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rankloop.errors import RankloopError
from rankloop.frames import feature_matrix, is_frame
from rankloop.types import Model, Scaling

Names = tuple[str, ...]
# By the name of a feature, the texts that its numbers stand for.
Categories = Mapping[str, Names]


def names_of_model(model: Model) -> Names | None:
    """The names of the features that a model takes, in its order; None if it does not know them."""
    names: Names | None = getattr(model, "feature_names", None)
    return names


def categories_of_model(model: Model) -> Categories:
    """The features of a model that are categories, with their values; none for a model that takes numbers."""
    categories: Categories = getattr(model, "categories", None) or {}
    return categories


def rows_of(features: Any, names: Names | None, categories: Categories | None = None) -> Any:
    """Features as a matrix: columns of a frame are matched by name, those of an array by their order."""
    if isinstance(features, np.ndarray) or not is_frame(features):
        return features
    return feature_matrix(features, names, categories)


def takes_missing(model: Model) -> bool:
    """Whether a model can score documents with missing values (NaN): trees can."""
    return bool(getattr(model, "takes_missing", False))


def with_names(model: Model, names: Names | None, categories: Categories | None = None) -> Model:
    """The same model, knowing the names of its features; a kind of model that holds no names is returned.

    Args:
        model: the model.
        names: the names of its features.
        categories: of features that are text, the values that their numbers stand for.

    Example:
        >>> import numpy as np
        >>> from rankloop.models.linear import Linear
        >>> with_names(Linear(1, np.zeros(2)), ("age",)).feature_names
        ('age',)
    """
    if names is None or not hasattr(model, "feature_names"):
        return model
    holder: Any = model
    named: Model = replace(holder, feature_names=names, **({"categories": categories} if categories else {}))
    return named


def scaling_of_model(model: Model) -> Scaling | None:
    """How the features of the training data were scaled (`Dataset.scaling`); None if that is not known."""
    scaling: Scaling | None = getattr(model, "scaling", None)
    parts = [getattr(model, name) for name in ("first", "second") if hasattr(model, name)]  # of a blend
    return scaling or next(filter(None, map(scaling_of_model, parts)), None)


def with_scaling(model: Model, scaling: Scaling | None) -> Model:
    """The same model, knowing how the features were scaled that it was trained on."""
    if scaling is None or not hasattr(model, "scaling"):
        return model
    holder: Any = model
    marked: Model = replace(holder, scaling=scaling)
    return marked


def checked_names(names: Iterable[str] | None, n_features: int) -> Names | None:
    """Names as a tuple; refuses another number of them than there are features, and repeated ones."""
    if names is None:
        return None
    given = tuple(names)
    if len(given) != n_features or len(set(given)) != n_features:
        raise RankloopError(
            f"{n_features} features need as many different names, got {len(set(given))} of {len(given)}"
        )
    return given
