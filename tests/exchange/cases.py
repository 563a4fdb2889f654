"""Models to export, and the vectors that are most likely to go astray in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import lightgbm
import numpy as np

from rankloop.models import LightGBMModel, TreeEnsemble
from rankloop.models.lightgbm_trees import trees_of_text
from rankloop.types import Float32, Float64, Int64

NAMES = ("price", "list price", "age", "rate", "steps")
LARGEST = np.finfo(np.float32).max
SPECIAL = np.array(
    [0, -0.0, 1, -1, 1e-45, -1e-45, 1e-40, -1e-40, 1e-38, 1e-35, -1e-35, 1e-30, -1e-30, LARGEST, -LARGEST],
    np.float32,
)
# How trees were trained. Their features are normal, half zeros, missing in a fifth of the rows (in one case),
# tiny with zeros, and whole numbers of either sign.
TRAININGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "missing values": {},
    "zero_as_missing": {"zero_as_missing": True},
    "use_missing=false": {"use_missing": False},
    "dart": {"boosting": "dart"},
    "random forest": {"boosting": "rf", "bagging_fraction": 0.5, "bagging_freq": 1},
}


@dataclass(frozen=True, eq=False)
class Case:
    """A trained model.

    Attributes:
        name: how it was trained.
        model: the model.
    """

    name: str
    model: LightGBMModel

    @cached_property
    def trees(self) -> TreeEnsemble:
        return trees_of_text(self.model.text, NAMES)

    @cached_property
    def thresholds(self) -> tuple[tuple[int, float], ...]:
        """All splits as LightGBM has them: feature and threshold."""
        features = _numbers(self.model.text, "split_feature")
        return tuple(zip(map(int, features), _numbers(self.model.text, "threshold"), strict=True))

    def leaves(self, features: Float32) -> Int64:
        """The leaves that LightGBM finds, numbered over all trees."""
        sizes = [int(size) for size in _numbers(self.model.text, "num_leaves")]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        found = self.model.booster.predict(features, pred_leaf=True)
        return np.asarray(found, np.int64).reshape(len(features), -1) + starts

    def vectors(
        self, n: int, rng: np.random.Generator, *, infinite: bool = True, missing: bool = True
    ) -> Float32:
        """Values within two units in the last place of every threshold, zeros, denormals, extremes."""
        extremes = [np.inf, -np.inf] * infinite + [np.nan] * missing
        drawn = np.empty((n, self.model.n_features), np.float32)
        for feature in range(self.model.n_features):
            here = np.array([t for f, t in self.thresholds if f == feature])
            with np.errstate(over="ignore"):
                near = [np.unique(here.astype(np.float32))]
            up, down = np.float32(np.inf), np.float32(-np.inf)
            for _ in range(2):
                near += [np.nextafter(near[-1], up), np.nextafter(near[0], down)]
                near.insert(0, near.pop())
            pool = np.concatenate([*near, SPECIAL, np.array(extremes, np.float32)])
            pool = pool if infinite else pool[~np.isinf(pool)]
            drawn[:, feature] = rng.choice(pool, n)
        return drawn


def _numbers(text: str, name: str) -> list[float]:
    lines = [line for line in text.splitlines() if line.startswith(f"{name}=")]
    return [float(number) for line in lines for number in line.partition("=")[2].split()]


def training_data(rng: np.random.Generator, *, missing: bool) -> tuple[Float32, Float64]:
    n = 2_000
    data = rng.normal(size=(n, 5)).astype(np.float32)
    data[:, 1] *= rng.random(n) < 0.5
    data[:, 3] = np.abs(data[:, 3]) * 1e-9 * (rng.random(n) < 0.6)
    data[:, 4] = rng.integers(-3, 4, n)
    target = data[:, 0] + np.abs(data[:, 1]) + data[:, 2] + data[:, 3] * 1e9 + np.abs(data[:, 4])
    if missing:
        gone = rng.random(n) < 0.2
        target = np.where(gone, 3.0, target)
        data[gone, 2] = np.nan
    return data, target + rng.normal(size=n)


@cache
def case(name: str, rounds: int = 12) -> Case:
    """The model of a training; always the same one."""
    data, target = training_data(np.random.default_rng(5), missing=name == "missing values")
    settings = {
        "objective": "regression",
        "num_leaves": 31,
        "min_data_in_leaf": 5,
        "num_threads": 1,
        "verbosity": -1,
        "deterministic": True,
        "seed": 0,
        **TRAININGS[name],
    }
    booster = lightgbm.train(settings, lightgbm.Dataset(data, target), rounds)
    return Case(name, LightGBMModel(booster.model_to_string(), NAMES))
