"""Map labels to the probability that a document is relevant."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from rankloop.errors import DataError
from rankloop.names import BadNameError
from rankloop.registry import Named, Registry, register
from rankloop.types import Float64

# The highest of the five grades, 0 to 4, of the paper's data sets.
PAPER_MAX_LABEL = 4.0


@dataclass(frozen=True)
class Relevance(Named, ABC):
    """A mapping of labels to ``R = P(R = 1 | d, q)``; ``str`` of it is its name."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or not 0.0 < value < np.inf:
                raise BadNameError(
                    f"{field.name!r} of the relevance {self.name!r}: expected a number above 0, got {value!r}"
                )
            object.__setattr__(self, field.name, float(value))

    @abstractmethod
    def of(self, labels: object) -> Float64:
        """Compute the relevance of documents with these labels: float64, in [0, 1]."""


RELEVANCES: Registry[Relevance] = Registry("relevance", Relevance)


def relevance(text: str) -> Relevance:
    """Make a mapping from its name; ``str`` of the mapping gives the name back.

    Example:
        >>> relevance("linear")
        LinearRelevance(max_label=4.0)
        >>> str(relevance("binary(relevant_from=3)"))
        'binary(relevant_from=3)'
    """
    return RELEVANCES.parse(text)


@dataclass(frozen=True)
class _Graded(Relevance):
    """The base of mappings with a highest label."""

    max_label: float = PAPER_MAX_LABEL

    def of(self, labels: object) -> Float64:
        """Compute the relevance of documents with these labels: float64, in [0, 1]."""
        array = _check_labels(labels)
        if array.size and array.max() > self.max_label:
            raise DataError(
                f"a label of {array.max():g} is above the highest of the relevance {str(self)!r}, "
                f"{self.max_label:g}: set that of the data, {self.name}(max_label={array.max():g})"
            )
        return self._graded(array)

    @abstractmethod
    def _graded(self, labels: Float64) -> Float64: ...


@register
@dataclass(frozen=True)
class LinearRelevance(_Graded):
    """``R = label / max_label``, as in the paper.

    Example:
        >>> LinearRelevance().of([0, 1, 4])
        array([0.  , 0.25, 1.  ])
    """

    name: ClassVar[str] = "linear"

    def _graded(self, labels: Float64) -> Float64:
        return labels / self.max_label


@register
@dataclass(frozen=True)
class ExponentialRelevance(_Graded):
    """``R = (2^label − 1) / (2^max_label − 1)``: the exponential gain of NDCG, scaled to [0, 1].

    Example:
        >>> ExponentialRelevance(max_label=2).of([0, 1, 2]).round(3)
        array([0.   , 0.333, 1.   ])
    """

    name: ClassVar[str] = "exponential"

    def _graded(self, labels: Float64) -> Float64:
        # Numerator and denominator are divided by 2^max_label to avoid overflow.
        lowest = np.exp2(-self.max_label)
        result: Float64 = (np.exp2(labels - self.max_label) - lowest) / (1.0 - lowest)
        return result


@register
@dataclass(frozen=True)
class BinaryRelevance(Relevance):
    """``R = 1`` for labels of at least ``relevant_from``, otherwise 0.

    Example:
        >>> BinaryRelevance(relevant_from=3).of([0, 2, 3, 4])
        array([0., 0., 1., 1.])
    """

    name: ClassVar[str] = "binary"
    relevant_from: float = 1.0

    def of(self, labels: object) -> Float64:
        """Compute the relevance of documents with these labels: float64, in [0, 1]."""
        return (_check_labels(labels) >= self.relevant_from).astype(np.float64)


def _check_labels(labels: object) -> Float64:
    array = np.asarray(labels, dtype=np.float64)
    # The condition is written so that it rejects NaN.
    bad = np.flatnonzero(~((array >= 0.0) & (array < np.inf)))
    if len(bad):
        raise DataError(f"labels must be finite and not negative, got {array.flat[bad[0]]} (number {bad[0]})")
    return array
