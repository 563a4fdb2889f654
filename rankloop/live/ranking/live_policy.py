"""Policies that can be deployed: what they are stored as, and how they score the candidates of a request."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.frames import listed
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.ranking.rules import RequestError
from rankloop.models import Linear
from rankloop.models.feature_names import categories_of_model, names_of_model, takes_missing
from rankloop.models.storage import model_from_bytes, model_to_bytes
from rankloop.offline.fit_result import Fit
from rankloop.storage.fingerprints import canonical_json, fingerprint
from rankloop.types import Float32, Float64, Int64, Model

# `fallback` serves the incoming order when a model fails; the others can be deployed.
MODEL, UNIFORM, INCOMING, FALLBACK = "model", "uniform", "incoming", "fallback"
# How a ranker is registered whose scores come with the candidates; it is stored as the model of one feature.
SCORES = "scores"
# Why the incoming order is served in place of a policy: by its own fault, or because it failed several times
# before and is left out for a while. Other reasons are those of the request, or of many at once.
FAULTS, RESTING = ("error", "timeout"), "resting"
KINDS = (MODEL, UNIFORM, INCOMING, FALLBACK)
LONGEST_NAME = 100
# Nothing is drawn any more from scores that differ by more: the best is always first.
LARGEST_SCALE = 1e6
# Models that are compiled loops over the candidates; others are given a time limit.
QUICK_MODELS = ("linear", "mlp")


@dataclass(frozen=True, eq=False)
class LivePolicy:
    """A policy: a model and how softly it draws, or a rule that needs no model.

    Attributes:
        name: its name in logs and reports; unique in a store.
        kind: ``model``; ``uniform`` for a random order; ``incoming`` for a softened incoming order, in which
            each further position makes a document less likely; ``fallback`` for the incoming order itself.
        scale: what scores are multiplied by before a ranking is drawn: below 1 it explores more.
        model: the model, if the kind is ``model``.
        feature_names: what its features are called, in the order that it takes them.
        fill_values: what replaces missing values, one per feature; None if nothing does.
        details: what else is known about it, for people: where it was learned, for instance.
        number: its number in the store; 0 before it is stored.

    Example:
        >>> shuffle = LivePolicy("shuffle", "uniform")
        >>> shuffle.scores(RankingProblem("cat", ("a", "b"), (), np.zeros((2, 0), np.float32)))
        array([0., 0.])
    """

    name: str
    kind: str
    scale: float = 1.0
    model: Model | None = None
    feature_names: tuple[str, ...] = ()
    fill_values: tuple[float, ...] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > LONGEST_NAME or not self.name.isprintable():
            raise RankloopError(
                f"a policy's name has 1 to {LONGEST_NAME} printable characters: {self.name[:50]!r}"
            )
        if self.kind not in KINDS or (self.kind == MODEL) != (self.model is not None):
            raise RankloopError(f"policy {self.name!r}: the kind must be one of {', '.join(KINDS)}")
        if (self.name == FALLBACK) != (self.kind == FALLBACK):
            raise RankloopError(
                f"the name {FALLBACK!r} is kept for the incoming order that is served on failures"
            )
        # Scores of models are checked when there are some.
        largest = LARGEST_SCALE if self.model is None else sys.float_info.max
        if not 0.0 < self.scale <= largest:
            raise RankloopError(
                f"policy {self.name!r}: the scale must be above 0 and at most {largest:g}, got {self.scale}"
            )
        if self.model is not None and len(self.feature_names) != self.model.n_features:
            raise RankloopError(
                f"policy {self.name!r}: the model takes {self.model.n_features} features, "
                f"but {len(self.feature_names)} are named"
            )

    @cached_property
    def fingerprint(self) -> str:
        """Identifies what it draws from: kind, scale and model."""
        model = "" if self.model is None else self.model.fingerprint
        content = [self.kind, self.scale, model, self.feature_names, self.fill_values]
        return fingerprint(canonical_json(content).encode())

    @property
    def ordered(self) -> bool:
        """Whether the order of the candidates matters to it."""
        return self.kind in (INCOMING, FALLBACK)

    @property
    def draws(self) -> bool:
        """Whether rankings are drawn from its scores; the fallback is not drawn."""
        return self.kind != FALLBACK

    @property
    def quick(self) -> bool:
        """Whether scoring takes microseconds, whatever the request: compiled loops, or no model at all."""
        return self.model is None or self.model.kind in QUICK_MODELS

    def scores(self, problem: RankingProblem) -> Float64:
        """One score per candidate, from which a ranking is drawn.

        Raises:
            RequestError: a value that the model needs is missing.
            RankloopError: the model returns something else than finite scores.
        """
        n = len(problem.documents)
        if self.kind == UNIFORM:
            return np.zeros(n)
        if self.model is None:
            scores: Float64 = -self.scale * np.log2(np.arange(2.0, n + 2.0))
            return scores
        scores = self.scale * np.asarray(self.model.scores(self._inputs(problem)), np.float64)
        if scores.shape != (n,) or not (np.abs(scores) <= LARGEST_SCORE).all():
            raise RankloopError(f"policy {self.name!r}: the model returned scores that are not finite")
        return scores

    def scores_if_able(self, problem: RankingProblem) -> Float64 | None:
        """The scores, or None if it cannot rank these candidates: a feature is missing, or a value absurd."""
        try:
            return self.scores(problem)
        except Exception:
            # Models of others may raise anything; what they cannot rank says nothing about them.
            return None

    def _inputs(self, problem: RankingProblem) -> Float32:
        order = self._order(problem.feature_names)
        given = problem.features if order is None else problem.features[:, order]
        assert self.model is not None
        if takes_missing(self.model):
            return given
        missing = np.isnan(given)
        if not missing.any():
            return given
        if self.fill_values is None:
            row, column = map(int, np.argwhere(missing)[0])
            raise RequestError(
                f"candidate {problem.documents[row]!r}: the feature {self.feature_names[column]!r} is "
                f"missing, and the policy {self.name!r} needs it"
            )
        return np.where(missing, np.asarray(self.fill_values, np.float32), given)

    def _order(self, names: tuple[str, ...]) -> Int64 | None:
        known: dict[tuple[str, ...], Int64 | None] = self.__dict__.setdefault("_orders", {})
        if names not in known:
            places = {name: place for place, name in enumerate(names)}
            absent = [name for name in self.feature_names if name not in places]
            if absent:
                raise RequestError(
                    f"the feature {absent[0]!r} is missing, and the policy {self.name!r} needs it"
                )
            order = np.array([places[name] for name in self.feature_names], np.int64)
            known[names] = None if names == self.feature_names else order
        return known[names]

    def to_row(self) -> dict[str, Any]:
        """The values of its columns, without its number."""
        content = {
            "scale": self.scale,
            "feature_names": self.feature_names,
            "fill_values": self.fill_values,
            "details": dict(self.details),
        }
        return {
            "name": self.name,
            "kind": self.kind,
            "fingerprint": self.fingerprint,
            "content": b"" if self.model is None else model_to_bytes(self.model),
            "details": json.dumps(content),
        }

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> LivePolicy:
        """The policy that `to_row` stored.

        Raises:
            ModelFileError: it is damaged.
        """
        content = json.loads(row["details"])
        fill = content["fill_values"]
        policy = cls(
            row["name"],
            row["kind"],
            content["scale"],
            model_from_bytes(row["content"]) if row["kind"] == MODEL else None,
            tuple(content["feature_names"]),
            None if fill is None else tuple(fill),
            content["details"],
            row["number"],
        )
        if policy.fingerprint != row["fingerprint"]:
            raise ModelFileError(
                f"policy {policy.name!r}: its fingerprint is {policy.fingerprint}, expected "
                f"{row['fingerprint']}: the store is damaged"
            )
        return policy


def score_policy(name: str, feature: str, *, scale: float = 1.0) -> LivePolicy:
    """The policy of a ranker that runs elsewhere: its scores come with the candidates, as a feature.

    >>> policy = score_policy("ours", "bm25", scale=0.5)
    >>> policy.scores(RankingProblem("cat", ("a", "b"), ("bm25",), np.array([[4.0], [2.0]], np.float32)))
    array([2., 1.])
    """
    return LivePolicy(
        name, MODEL, scale, Linear(1, np.array([1.0, 0.0]), feature_names=(feature,)), (feature,)
    )


def policy_of(
    source: Fit | Model, name: str, *, scale: float = 1.0, details: Mapping[str, Any] | None = None
) -> LivePolicy:
    """The policy of a fit or a model; features without names are called 1, 2, 3 and so on."""
    model = source.model if isinstance(source, Fit) else source
    names = source.feature_names if isinstance(source, Fit) else names_of_model(model)
    categories = categories_of_model(model)
    if categories:
        raise DataError(
            f"policy {name!r} takes text: {listed([*categories])}; requests to the live service have "
            f"numbers. Fit it without these columns, or with one number per category (1 or 0)"
        )
    if names is None:
        names = tuple(str(number) for number in range(1, model.n_features + 1))
    fill = source.fill_values if isinstance(source, Fit) else None
    return LivePolicy(name, MODEL, scale, model, names, fill, details or {})
