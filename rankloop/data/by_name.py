"""A data set by one word: a path, or a generated one such as ``synthetic(queries=2000)``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from rankloop.data.letor import load
from rankloop.data.synthetic import SHAPES, noise_free_scores, synthetic
from rankloop.errors import DataError
from rankloop.names import Option, one_of
from rankloop.registry import Named, Registry, register
from rankloop.types import Dataset, Float32, Float64


class GeneratedData(Named, ABC):
    """A data set that is computed, not read: a frozen dataclass whose fields are the options of its name."""

    @abstractmethod
    def generate(self) -> Dataset:
        """The data set; the same value always generates the same one."""

    def noise_free_scores(self, features: Float32) -> Float64 | None:  # noqa: ARG002
        """What features alone say about labels: no ranker can expect more. None if that is not known."""
        return None


GENERATED_DATA: Registry[GeneratedData] = Registry("data set", GeneratedData)


@register
@dataclass(frozen=True)
class Synthetic(GeneratedData):
    """What `rankloop.data.synthetic` generates, by name.

    Attributes:
        shape: which public collection it resembles.
        queries: how many queries the three splits have together.
        features: how many features a document has; None for as many as the collection has.
        noise: how much of the labels no model can learn; None for as much as the shape has.
        seed: random seed.
    """

    name: ClassVar[str] = "synthetic"
    shape: Annotated[str, Option(read=one_of(*SHAPES))] = "yahoo"
    queries: int = 2_000
    features: int | None = None
    noise: float | None = None
    seed: int = 0

    def generate(self) -> Dataset:
        """The data set; the same value always generates the same one."""
        return synthetic(
            self.shape, queries=self.queries, features=self.features, noise=self.noise, seed=self.seed
        )

    def noise_free_scores(self, features: Float32) -> Float64:
        """The teacher's values without noise."""
        return noise_free_scores(features, self.shape, seed=self.seed)


def is_generated(text: str) -> bool:
    """Whether a data set of this path or name is generated; a file that has such a name is not.

    >>> is_generated("synthetic(queries=30)"), is_generated("MQ2008")
    (True, False)
    """
    return text.startswith(GENERATED_DATA.names) and not Path(text).exists()


def dataset(text: str, *, fold: int = 1, normalise: Literal["query"] | None = "query") -> Dataset:
    """Load or generate the data set with this path or name.

    Args:
        text: the path of a file or a folder (see `load`), or the name of a generated data set with any of its
            options: ``synthetic(shape=yahoo, queries=2000, features=100, noise=0.8, seed=0)``.
        fold: which fold, if the folder has several.
        normalise: how features of files are scaled (see `load`); generated ones are scaled already.

    Example:
        >>> dataset("synthetic(queries=30, features=5)").train.n_features
        5
    """
    if Path(text).exists():
        return load(text, fold=fold, normalise=normalise)
    if is_generated(text):
        generated = GENERATED_DATA.parse(text)
        if fold != 1:
            raise DataError(
                f"generated data has no folds, but fold {fold} was requested: choose fold 1, the default"
            )
        return generated.generate()
    try:
        return load(text, fold=fold)
    except DataError as error:
        example = f"{Synthetic.name} or '{Synthetic.name}(shape=yahoo, queries=2000)'"
        raise DataError(f"{error}; for generated data use {example}") from error
