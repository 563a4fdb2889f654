"""The interface of metrics: a frozen value with a name, a value for a ranking and a value for a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankloop import ragged
from rankloop.errors import DataError
from rankloop.names import BadNameError, one_of
from rankloop.registry import Named, Registry
from rankloop.types import (
    Float64,
    Int64,
    as_numbers,
    as_whole_numbers,
    check_offsets,
    reject_documents,
)

Gain = Literal["linear", "exponential"]
NoRelevant = Literal["zero", "one", "skip"]

_NO_RELEVANT_VALUE = {"zero": 0.0, "one": 1.0, "skip": np.nan}


def gains(labels: Float64, gain: Gain) -> Float64:
    """Compute gains from labels: ``label`` (linear) or ``2^label − 1`` (exponential).

    >>> gains(np.array([0.0, 1.0, 2.0]), "exponential")
    array([0., 1., 3.])
    """
    return labels if gain == "linear" else np.exp2(labels) - 1.0


class Metric(Named, ABC):
    """A metric: one value per query, from the scores and the labels of its documents.

    Concrete metrics are frozen dataclasses whose fields are the cut-off and the options in their name, so
    ``str(metric)`` is the canonical name, and `rankloop.evaluation.metric` parses it back.

    A score of −inf excludes a document: it is never shown and contributes nothing.

    Attributes:
        name: the first word of the metric's name.
        higher_is_better: False for metrics of positions.
        no_relevant_choices: the possible values of `no_relevant`, for queries without a relevant document.
    """

    name: ClassVar[str]
    higher_is_better: ClassVar[bool] = True
    no_relevant_choices: ClassVar[tuple[NoRelevant, ...]] = ("zero", "one", "skip")
    no_relevant: NoRelevant

    def __post_init__(self) -> None:
        for option, value in self._fields().items():
            try:
                self._check(option, value)
            except BadNameError as error:
                raise BadNameError(f"{option!r} of the metric {self.name!r}: {error}") from error

    def of_ranking(self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> Float64:
        """Compute the metric of the ranking by descending score; equal scores keep document order.

        Args:
            scores: documents; −inf excludes a document.
            labels: documents; relevance grades.
            offsets: query q owns documents ``offsets[q]:offsets[q + 1]``.

        Returns:
            float64, queries; NaN for queries to leave out of the mean.
        """
        arrays = _check_arrays(scores, labels, offsets)
        return self._replace_no_relevant(self._ranking(*arrays), arrays[1], arrays[2])

    def of_policy(self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> Float64:
        """Compute the exact expected metric of the Plackett–Luce policy with these scores as log-weights.

        Arguments and result are those of `of_ranking`. No ranking is sampled.
        """
        arrays = _check_arrays(scores, labels, offsets)
        return self._replace_no_relevant(self._policy(*arrays), arrays[1], arrays[2])

    @abstractmethod
    def _relevant(self, labels: Float64) -> NDArray[np.bool_]:
        """Mark the relevant documents."""

    @abstractmethod
    def _ranking(self, scores: Float64, labels: Float64, offsets: Int64) -> Float64:
        """Compute the metric of the ranking; any finite value for queries without a relevant document."""

    @abstractmethod
    def _policy(self, scores: Float64, labels: Float64, offsets: Int64) -> Float64:
        """Compute the metric of the policy; any finite value for queries without a relevant document."""

    def _replace_no_relevant(self, values: Float64, labels: Float64, offsets: Int64) -> Float64:
        has_relevant = np.logical_or.reduceat(self._relevant(labels), offsets[:-1])
        return np.where(has_relevant, values, _NO_RELEVANT_VALUE[self.no_relevant])

    def _fields(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    def _check(self, option: str, value: Any) -> None:
        if option == "no_relevant":
            one_of(*self.no_relevant_choices)(value)
        elif option == "gain":
            one_of(*get_args(Gain))(value)
        elif option == "cutoff":
            if value is not None and (not isinstance(value, int | np.integer) or value < 1):
                raise BadNameError(f"expected an integer of at least 1, got {value!r}")
        elif not (isinstance(value, int | float) and 0.0 < value < np.inf):
            raise BadNameError(f"expected a number above 0, got {value!r}")


METRICS: Registry[Metric] = Registry("metric", Metric)


def metric(text: str) -> Metric:
    """Make a metric from its name; ``str`` of the metric gives the name back.

    Example:
        >>> metric("ndcg@5")
        NDCG(cutoff=5, gain='linear', no_relevant='zero')
        >>> str(metric("precision@10(no_relevant=skip, relevant_from=3)"))
        'precision@10(no_relevant=skip, relevant_from=3)'
        >>> metric("precision")
        Traceback (most recent call last):
            ...
        rankloop.names.BadNameError: 'precision' needs a cut-off: precision@5, for instance
    """
    return METRICS.parse(text)


def _check_arrays(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> tuple[Float64, Float64, Int64]:
    """Convert the arguments to arrays; raise an error that names the first invalid query."""
    score_array = as_numbers(scores, "scores")
    label_array = as_numbers(labels, "labels")
    offset_array = as_whole_numbers(offsets, "offsets")
    if label_array.ndim != 1 or score_array.shape != label_array.shape:
        raise DataError(
            f"scores and labels must be vectors of the same length, one value per document; "
            f"got shapes {score_array.shape} and {label_array.shape}"
        )
    check_offsets(offset_array, len(label_array))
    bad_scores = np.isnan(score_array) | (score_array == np.inf)
    reject_documents(bad_scores, offset_array, "a score that is NaN or +inf")
    bad_labels = ~(np.isfinite(label_array) & (label_array >= 0))
    reject_documents(bad_labels, offset_array, "a label that is not a grade ≥ 0")
    excluded = np.flatnonzero(np.isneginf(ragged.segment_max(score_array, offset_array)))
    if len(excluded):
        raise DataError(
            f"query number {excluded[0]}: every document has the score -inf, so no ranking can be shown "
            f"({len(excluded)} such queries in total): leave out the query or include a document"
        )
    return score_array, label_array, offset_array
