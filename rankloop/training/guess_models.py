"""Models that guess relevance from features, by name: ``trees``, ``logistic``, ``constant``, or your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankloop.errors import RankloopError
from rankloop.models.specs import LightGBMSpec
from rankloop.objectives import click_likelihood
from rankloop.objectives.click_likelihood import mean_score
from rankloop.registry import Named, Registry, register
from rankloop.training.shown_documents import ShownDocuments
from rankloop.training.trees import train_trees_on_clicks
from rankloop.types import Bias, Float32, Float64

# From features, documents × features, to scores whose logistic function is the relevance.
Scorer = Callable[[Float32], Float64]

# Newton steps of the logistic guess at most, and the largest step of a coefficient that ends them.
STEPS, CLOSE = 25, 1e-6
# A step may raise the likelihood by less than it predicts, and is then halved, so many times at most.
HALVINGS = 8


class GuessModel(Named, ABC):
    """A way to guess the relevance of documents from their features, fitted to the clicks of other queries.

    Derive from it, make it a frozen dataclass and `rankloop.register` it, and its name works wherever a
    guess is named: ``Learning(guess=…)``, ``rankloop fit --guess …``.
    """

    @abstractmethod
    def fit(
        self, parts: tuple[ShownDocuments, ShownDocuments], bias: Bias, rng: np.random.Generator
    ) -> Scorer:
        """Fit the model, and return what scores documents: the logistic function of a score is the relevance.

        Args:
            parts: the documents to fit to, and those of other queries, on which early stopping may rely.
            bias: how users click.
            rng: draws whatever is random.
        """


GUESSES: Registry[GuessModel] = Registry("guess", GuessModel)


def guess_model(text: str) -> GuessModel:
    """The guess that a name spells.

    >>> guess_model("logistic(penalty=10)")
    LogisticGuess(penalty=10.0)
    """
    return GUESSES.parse(text)


@register
@dataclass(frozen=True)
class TreeGuess(GuessModel):
    """Boosted trees on the likelihood of clicks.

    Small trees and large steps: a guess has to be cheap, and clicks correct what it gets wrong.

    Attributes:
        rounds: the largest number of trees.
        patience: rounds without a better value on other queries before training stops.
        rate: the learning rate.
        leaves: the largest number of leaves per tree.
        min_docs: the smallest number of documents per leaf.
    """

    name: ClassVar[str] = "trees"
    rounds: int = 200
    patience: int = 10
    rate: float = 0.1
    leaves: int = 15
    min_docs: int = 20

    def fit(
        self, parts: tuple[ShownDocuments, ShownDocuments], bias: Bias, rng: np.random.Generator
    ) -> Scorer:
        """Grow the trees; without a possible split, all documents have the same score."""
        spec = LightGBMSpec(
            self.rounds, self.patience, self.rate, self.leaves, self.min_docs, objective="click-likelihood"
        )
        if not len(parts[1]) or not _enough_for_trees(parts[0].features, self.min_docs):
            return ConstantGuess().fit(parts, bias, rng)
        model = train_trees_on_clicks(parts, bias, spec, rng=rng).model
        start = mean_score(parts[0].counts, bias)
        return lambda features: model.scores(features) + start


@register
@dataclass(frozen=True)
class LogisticGuess(GuessModel):
    """A linear score on the likelihood of clicks, with a ridge penalty; missing values count as the mean.

    Attributes:
        penalty: the weight of half the squared coefficients of standardised features, at least 0.
    """

    name: ClassVar[str] = "logistic"
    penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.penalty < np.inf:
            raise RankloopError(f"logistic: penalty must be at least 0 and finite, got {self.penalty}")

    def fit(
        self,
        parts: tuple[ShownDocuments, ShownDocuments],
        bias: Bias,
        rng: np.random.Generator,  # noqa: ARG002  # nothing is random
    ) -> Scorer:
        """Maximise the penalised likelihood by Newton's method with expected information."""
        shown = parts[0]
        present = ~np.isnan(shown.features)
        filled = np.where(present, shown.features, 0.0).astype(np.float64)
        mean = filled.sum(axis=0) / np.maximum(present.sum(axis=0), 1)
        deviation = np.where(present, shown.features - mean, 0.0).std(axis=0)
        scale = np.divide(1.0, deviation, out=np.zeros_like(mean), where=deviation > 0.0)

        def design(features: Float32) -> Float64:
            standard = np.where(np.isnan(features), 0.0, (features - mean) * scale)
            return np.column_stack([np.ones(len(features)), standard])

        matrix = design(shown.features)
        ridge = np.full(matrix.shape[1], self.penalty)
        ridge[0] = 0.0
        coefficients = np.zeros(matrix.shape[1])
        coefficients[0] = mean_score(shown.counts, bias)

        def value(candidate: Float64) -> float:
            clicks = click_likelihood(matrix @ candidate, shown.counts, bias).value
            return clicks - 0.5 * float(ridge @ candidate**2)

        for _ in range(STEPS):
            found = click_likelihood(matrix @ coefficients, shown.counts, bias)
            gradient = matrix.T @ found.gradient - ridge * coefficients
            information = (matrix.T * found.curvature) @ matrix + np.diag(ridge)
            step = np.linalg.lstsq(information, gradient, rcond=None)[0]
            before = found.value - 0.5 * float(ridge @ coefficients**2)
            for _ in range(HALVINGS):
                if value(coefficients + step) >= before:
                    break
                step = step / 2.0
            coefficients = coefficients + step
            if np.abs(step).max() < CLOSE:
                break
        return lambda features: design(features) @ coefficients


@register
@dataclass(frozen=True)
class ConstantGuess(GuessModel):
    """The same relevance for all documents: the mean of those it was fitted to."""

    name: ClassVar[str] = "constant"

    def fit(
        self,
        parts: tuple[ShownDocuments, ShownDocuments],
        bias: Bias,
        rng: np.random.Generator,  # noqa: ARG002  # nothing is random
    ) -> Scorer:
        """Take the mean relevance, by moments."""
        start = mean_score(parts[0].counts, bias)
        return lambda features: np.full(len(features), start)


def _enough_for_trees(features: Float32, min_docs: int) -> bool:
    """Whether trees could guess better than a constant: there are some leaves, and features differ."""
    return len(features) >= 4 * min_docs and bool(np.ptp(np.nan_to_num(features), axis=0).any())
