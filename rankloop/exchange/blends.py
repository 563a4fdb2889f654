"""Blends of models as one model of their kind, so that engines can take them."""

from __future__ import annotations

import numpy as np

from rankloop.models import Blend, LightGBMModel, Linear, TreeEnsemble
from rankloop.models.feature_names import Names, names_of_model
from rankloop.models.lightgbm_trees import trees_of_text
from rankloop.types import Model


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
