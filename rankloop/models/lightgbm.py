"""Gradient-boosted trees by LightGBM, grown on derivatives that the caller computes; sums of such models."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rankloop import extras
from rankloop.errors import DataError, ModelFileError
from rankloop.models.feature_names import Categories, checked_names, rows_of
from rankloop.models.history import History, Training
from rankloop.models.lightgbm_text import (
    check_text,
    default_names,
    is_whole,
    spell_names,
    spelt_names,
    with_categories,
    without_parameters,
)
from rankloop.models.specs import LightGBMSpec
from rankloop.progress import Progress
from rankloop.ragged import openmp_threads
from rankloop.storage.fingerprints import fingerprint
from rankloop.types import Float32, Float64, Scaling

# The last line of a stored model: LightGBM ignores it, and reads the file as its own.
TRAILER = "rankloop:"

Derivatives = Callable[[Float64], tuple[Float64, Float64]]

DEFAULTS: Mapping[str, Any] = {
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 20,
    # Curvatures of single documents are small numbers; the number of documents guards the leaves.
    "min_sum_hessian_in_leaf": 0.0,
    # The same trees in every run on the same machine, for any number of threads.
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


@dataclass(frozen=True, eq=False)
class LightGBMModel:
    """Boosted trees as a value: LightGBM's own text, which any LightGBM reads.

    It holds trees and nothing else: no bias parameters, no state of training.

    Attributes:
        text: what LightGBM's ``Booster.model_to_string`` gives; with the names of the features, as far as
            LightGBM can spell them.
        feature_names: the names of the features, in the order that it takes them; those in the text if None,
            unless they are LightGBM's own ``Column_0`` and so on.
        scaling: how the features of its training data were scaled (`Dataset.scaling`), if that is known.
        categories: of features that are text, the values that their numbers stand for.
    """

    kind: ClassVar[str] = "lightgbm"
    takes_missing: ClassVar[bool] = True
    text: str = field(repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    scaling: Scaling | None = field(default=None, kw_only=True, repr=False)
    categories: Categories | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        # One way to end: the text that is read from a file equals the text that was written.
        object.__setattr__(self, "text", self.text.rstrip("\n") + "\n")
        in_text = spelt_names(self.text)
        names = self.feature_names
        if names is None and in_text != default_names(len(in_text)):
            names = in_text
        names = checked_names(names or None, len(in_text))
        object.__setattr__(self, "feature_names", names)
        if names is not None:
            object.__setattr__(self, "text", spell_names(self.text, names))
        if self.categories:
            ordered = {name: self.categories[name] for name in names or () if name in self.categories}
            object.__setattr__(self, "categories", ordered)
            # As LightGBM writes the categories of a frame of pandas, which it then takes, too.
            object.__setattr__(self, "text", with_categories(self.text, [*ordered.values()]))

    @cached_property
    def booster(self) -> Any:
        """LightGBM's own object for these trees."""
        lightgbm = extras.load("lightgbm")
        try:
            # Without the parameters of the training, which scoring does not need.
            return lightgbm.Booster(model_str=without_parameters(self.text))
        except (lightgbm.basic.LightGBMError, ValueError) as error:
            raise ModelFileError(f"LightGBM cannot read these trees: {error}") from error

    @property
    def n_features(self) -> int:
        """The number of features per document."""
        return int(self.booster.num_feature())

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.booster.num_trees())

    @cached_property
    def fingerprint(self) -> str:
        """The first digits of the SHA-256 of the text."""
        return fingerprint(self.text.encode())

    def scores(self, features: Float32) -> Float64:
        """One score per document (a row of ``features``); higher is better."""
        features = rows_of(features, self.feature_names, self.categories)
        if np.ndim(features) != 2 or features.shape[1] != self.n_features:
            raise DataError(
                f"these trees take documents × {self.n_features} features, got shape {np.shape(features)}"
            )
        scores = self.booster.predict(features, raw_score=True, num_threads=openmp_threads())
        return np.asarray(scores, dtype=np.float64)

    def to_bytes(self) -> bytes:
        """The text, followed by one line with its fingerprint, by which damage is noticed."""
        scaling = {} if self.scaling is None else {"scaling": self.scaling}
        texts = {"categories": {name: [*values] for name, values in (self.categories or {}).items()}}
        categories = texts if self.categories else {}
        content = {"fingerprint": self.fingerprint, **self._unspelt_names, **scaling, **categories}
        line = TRAILER + json.dumps(content)
        return f"{self.text}\n{line}\n".encode()

    @property
    def _unspelt_names(self) -> dict[str, list[str]]:
        """The names of the features, where LightGBM's text cannot spell them."""
        names = self.feature_names
        if names is None or names == spelt_names(self.text):
            return {}
        return {"feature_names": list(names)}

    @classmethod
    def from_bytes(cls, data: bytes) -> LightGBMModel:
        """The trees that `to_bytes` wrote, or that LightGBM's ``save_model`` did.

        Raises:
            ModelFileError: the file is damaged, was cut short, or is something else.
        """
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise ModelFileError(f"this is not a LightGBM text file: {error}") from error
        body, mark, trailer = text.rpartition("\n\n" + TRAILER)
        if not mark and not is_whole(text):
            raise ModelFileError(
                "the file was cut short: neither the line that ends a stored model "
                f"({TRAILER} …) nor the one that ends a model of LightGBM's own is there; store or copy "
                "it again"
            )
        if not mark and TRAILER in text:
            raise ModelFileError(
                f"the model file is damaged: the line that ends a stored model ({TRAILER} …) is not at "
                "its end; store or copy it again"
            )
        model = cls._of_lightgbm(text) if not mark else cls._stored(body, trailer, data)
        check_text(model.text)
        _ = model.booster
        return model

    @classmethod
    def _of_lightgbm(cls, text: str) -> LightGBMModel:
        try:
            return cls(text)
        except (ValueError, KeyError) as error:
            raise ModelFileError(f"the names of the features cannot be read: {error}") from error

    @classmethod
    def _stored(cls, body: str, trailer: str, data: bytes) -> LightGBMModel:
        try:
            content = json.loads(trailer)
            wanted = content["fingerprint"]
            categories = content.get("categories", {})
            model = cls(
                body,
                content.get("feature_names"),
                scaling=content.get("scaling"),
                categories={name: tuple(values) for name, values in categories.items()} or None,
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ModelFileError(f"the last line of the model file is damaged: {trailer[:40]!r}") from error
        if model.fingerprint != wanted:
            raise ModelFileError(
                f"the model file is damaged: its trees have fingerprint {model.fingerprint}, not {wanted}"
            )
        if model.to_bytes() != data:
            raise ModelFileError("the model file is damaged at its end: store or copy it again")
        return model


@dataclass(frozen=True, eq=False)
class EarlyStopping:
    """The rule that stops adding trees.

    Attributes:
        features: documents of held-out queries.
        value: from their scores to the objective; higher is better.
        patience: rounds without a new best value before training stops.
    """

    features: Float32
    value: Callable[[Float64], float]
    patience: int = 50


def boost(
    features: Float32,
    derivatives: Derivatives,
    *,
    rounds: int = 300,
    held_out: EarlyStopping | None = None,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    watch: Callable[[float], object] | None = None,
    start: float = 0.0,
    on_interrupt: Callable[[], object] | None = None,
    categorical: tuple[int, ...] = (),
) -> LightGBMModel:
    """Train trees that increase an objective, given by its derivatives on the scores.

    If the documents are too few, or too much alike, for any split, the model has no trees.

    Args:
        features: documents × features.
        derivatives: from scores to the objective's gradient and a positive curvature, one each per document.
        rounds: the largest number of trees.
        held_out: stop early, and keep the trees up to the best round; no trees if no round was better
            than equal scores.
        parameters: LightGBM's own; they override `DEFAULTS`.
        seed: of LightGBM's random numbers.
        watch: called after each round with the held-out value (NaN without one).
        start: the score of every document before the first tree; it is not part of the model.
        on_interrupt: called on Ctrl-C, after which the best trees so far are the result; None to raise
            `KeyboardInterrupt`.
        categorical: the features whose numbers stand for categories: a split divides these into two sets.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    lightgbm = extras.load("lightgbm")

    def objective(scores: Any, _data: Any) -> tuple[Any, Any]:
        gradient, curvature = derivatives(np.asarray(scores, dtype=np.float64) + start)
        return -gradient, curvature

    def measure(scores: Any, _data: Any) -> tuple[str, float, bool]:
        assert held_out is not None
        return "value", held_out.value(np.asarray(scores, dtype=np.float64) + start), True

    settings = {**DEFAULTS, "seed": seed, **(parameters or {}), "objective": "none", "metric": "None"}
    if categorical:
        # As for thresholds: LightGBM's own 100 documents per category suit larger tables than most logs have.
        settings["min_data_per_group"] = settings["min_data_in_leaf"]
    data = lightgbm.Dataset(
        features,
        label=np.zeros(len(features)),
        categorical_feature=list(categorical),
        params=settings,
        free_raw_data=True,
    )
    best, best_value = 0, -np.inf
    # Not LightGBM's own setting, which it would write into the model: its bytes must not depend on threads.
    with threadpool_limits(openmp_threads(), user_api="openmp"):
        if not _can_split(data):
            # No part of the documents is drawn: it could be empty.
            whole = {**settings, "bagging_fraction": 1.0}
            return LightGBMModel(lightgbm.Booster(whole, data).model_to_string())
        booster = lightgbm.Booster(settings, data)
        if held_out is not None:
            equal = np.full(len(held_out.features), start)
            best_value = held_out.value(equal)
            booster.add_valid(lightgbm.Dataset(held_out.features, equal, reference=data), "held out")
        try:
            for number in range(1, rounds + 1):
                booster.update(fobj=objective)
                value = booster.eval_valid(feval=measure)[0][2] if held_out is not None else float("nan")
                if watch is not None:
                    watch(value)
                if not value <= best_value:
                    best, best_value = number, value
                if held_out is not None and number - best >= held_out.patience:
                    break
        except KeyboardInterrupt:
            if on_interrupt is None:
                raise
            on_interrupt()
    if best == 0:
        booster = lightgbm.Booster(settings, data)
    return LightGBMModel(booster.model_to_string(num_iteration=best or None))


def _can_split(data: Any) -> bool:
    """Whether LightGBM kept any feature: it drops those that cannot divide the documents into two leaves."""
    data.construct()
    return any(data.feature_num_bin(feature) > 1 for feature in range(data.num_feature()))


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


# The curvature is 0 for a document whose rank changes nothing; LightGBM divides by sums of curvatures.
LEAST_CURVATURE = 1e-4


def grow(
    features: Float32,
    derivatives: Derivatives,
    spec: LightGBMSpec,
    stopping: EarlyStopping | None,
    rng: np.random.Generator,
    progress: Progress | None,
    *,
    keep: bool,
    start: float = 0.0,
    parameters: Mapping[str, float] | None = None,
    categorical: tuple[int, ...] = (),
) -> Training:
    """Grow trees, and record what each is worth.

    Args:
        features: documents × features.
        derivatives: of the objective by the scores.
        spec: the number and the size of the trees, and when to stop.
        stopping: the objective on held-out queries; None to keep all trees.
        rng: draws the seed of LightGBM.
        progress: called after every tree.
        keep: whether Ctrl-C ends training with the best trees so far.
        start: the score of every document before the first tree.
        parameters: LightGBM's own, besides those of the spec.
        categorical: the features that are categories; see `Split`.
    """
    history = History(progress, patience=spec.rounds, unit="tree", most=spec.rounds)
    history.add(
        stopping.value(np.full(len(stopping.features), start)) if stopping is not None else float("nan")
    )
    interruptions: list[bool] = []
    on_interrupt: Callable[[], object] | None = (lambda: interruptions.append(True)) if keep else None
    model = boost(
        features,
        derivatives,
        rounds=spec.rounds,
        held_out=stopping,
        parameters={**spec.parameters, **(parameters or {})},
        categorical=categorical,
        seed=int(rng.integers(2**31)),
        watch=history.add,
        start=start,
        on_interrupt=on_interrupt,
    )
    return Training(model, tuple(history.epochs), interrupted=bool(interruptions))
