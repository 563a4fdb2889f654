"""Sums of boosted trees: one model of LightGBM's for the weighted sum of the scores of several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rankloop import extras
from rankloop.models.lightgbm import LightGBMModel

# What a tree adds to a score; a weight multiplies these numbers.
VALUES = ("leaf_value=", "internal_value=")


def add_trees(models: Sequence[LightGBMModel], weights: Sequence[float]) -> LightGBMModel:
    """The model whose scores are ``Σ_m weights[m] · models[m].scores(features)``.

    It has the trees of all models, with their leaves multiplied by the weights, so that any LightGBM reads
    it, and everything that trees are exported to. Its features and parameters are those of the first model.

    Args:
        models: boosted trees on the same features.
        weights: one per model.
    """
    lightgbm = extras.load("lightgbm")
    head, _, rest = models[0].text.partition("\nTree=")
    if not rest:
        head, _, _ = head.partition("\nend of trees")
    header = [line for line in head.splitlines() if not line.startswith("tree_sizes=")]
    blocks: list[str] = []
    for model, weight in zip(models, weights, strict=True):
        for block in model.text.partition("\nend of trees")[0].split("\nTree=")[1:]:
            lines = block.rstrip("\n").split("\n")[1:]
            scaled = [_scale(line, weight) for line in lines]
            blocks.append("\n".join([f"Tree={len(blocks)}", *scaled]) + "\n\n\n")
    sizes = " ".join(str(len(block)) for block in blocks)
    _, _, tail = models[0].text.partition("\nend of trees\n")
    text = "\n".join([*header, f"tree_sizes={sizes}", "", *["".join(blocks) + "end of trees\n"]]) + tail
    # LightGBM counts again how often features are used.
    whole = lightgbm.Booster(model_str=text).model_to_string(num_iteration=-1)
    return LightGBMModel(whole, models[0].feature_names)


def _scale(line: str, weight: float) -> str:
    """A line of a tree, multiplied by the weight if it has values of scores."""
    for name in VALUES:
        if line.startswith(name):
            values = weight * np.array(line[len(name) :].split(), np.float64)
            return name + " ".join(f"{value:.17g}" for value in values)
    return line
