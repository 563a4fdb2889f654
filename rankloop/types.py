"""The shared types: a split of queries, a data set of three splits, a bias, and the model protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Str = NDArray[np.str_]
Scaling = Literal["query", "none"]


def check_offsets(offsets: Int64, n_documents: int) -> None:
    """Raise an error unless the offsets divide ``n_documents`` documents into queries of at least one.

    Compiled loops trust them: they are neither converted nor differenced before they are compared, because
    narrow and unsigned types wrap.
    """
    if not isinstance(offsets, np.ndarray) or offsets.dtype != np.int64:
        given = offsets.dtype if isinstance(offsets, np.ndarray) else type(offsets).__name__
        raise DataError(
            f"offsets must be an array of int64, got {given}: np.asarray(offsets, dtype=np.int64)"
        )
    if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n_documents:
        raise DataError(
            "offsets must be one-dimensional, start at 0 and end at the number of documents "
            f"({n_documents}); got shape {offsets.shape}, from {offsets[:1].tolist()} to "
            f"{offsets[-1:].tolist()}"
        )
    empty = np.flatnonzero(offsets[1:] <= offsets[:-1])
    if len(empty):
        raise DataError(f"query number {empty[0]} has no documents: every query needs at least one")


def as_numbers(values: object, what: str) -> Float64:
    """Convert real numbers to a contiguous float64 array; raise an error for anything else.

    It is a copy: another thread may change the caller's array after it has been checked.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise DataError(f"{what} must be numbers, got {array.dtype}")
    return np.array(array, dtype=np.float64, order="C")


def as_whole_numbers(values: object, what: str) -> Int64:
    """Convert integers of any type to a contiguous int64 array, a copy; raise an error for anything else."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise DataError(f"{what} must be whole numbers, got {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise DataError(f"{what} must be below 2⁶³, got {array.max()}")
    return np.array(array, dtype=np.int64, order="C")


def reject_documents(
    bad: NDArray[np.bool_], offsets: Int64, reason: str, query_ids: Str | None = None
) -> None:
    """Raise an error that names the first bad document and its query, if any document is bad."""
    rows = np.flatnonzero(bad)
    if len(rows):
        q = int(np.searchsorted(offsets, rows[0], side="right")) - 1
        query = f"query number {q}" if query_ids is None else f"query {str(query_ids[q])!r} (number {q})"
        raise DataError(
            f"{query}, document {rows[0] - offsets[q]}: {reason} ({len(rows)} such documents in total)"
        )


@dataclass(frozen=True, eq=False)
class Split:
    """Queries with their documents, as flat arrays: query q owns rows ``offsets[q]:offsets[q + 1]``.

    The arrays are validated once, on construction.

    Attributes:
        features: float32, documents × features, finite; NaN is a missing value, if ``missing`` allows it.
        labels: float64, documents; relevance grades, finite and not negative.
        offsets: int64, queries + 1.
        query_ids: queries; unique strings.
        doc_ids: documents; strings, or None if the source has no document ids.
        missing: whether values of features may be missing, as some models take them.
        categorical: the features whose numbers stand for categories, which trees can split into two sets.

    Example:
        >>> import numpy as np
        >>> split = Split.build(np.eye(3), [0, 2, 1], sizes=[2, 1])
        >>> split.n_queries, split.n_documents, split.n_features
        (2, 3, 3)
        >>> split.select([1]).labels
        array([1.])
    """

    features: Float32
    labels: Float64
    offsets: Int64
    query_ids: Str
    doc_ids: Str | None = None
    missing: bool = False
    categorical: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Split({self.n_queries:,} queries, {self.n_documents:,} documents, {self.n_features:,} features)"
        )

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.features.dtype != np.float32:
            raise DataError(
                f"features must be a float32 matrix of documents × features, "
                f"got {self.features.dtype} of shape {self.features.shape}"
            )
        n_documents = len(self.features)
        check_offsets(self.offsets, n_documents)
        if self.labels.shape != (n_documents,):
            raise DataError(
                f"{n_documents} documents need {n_documents} labels, got shape {self.labels.shape}"
            )
        if self.query_ids.shape != (self.n_queries,):
            raise DataError(
                f"{self.n_queries} queries need {self.n_queries} query ids, got shape {self.query_ids.shape}"
            )
        if self.doc_ids is not None and self.doc_ids.shape != (n_documents,):
            raise DataError(
                f"{n_documents} documents need {n_documents} document ids, got shape {self.doc_ids.shape}"
            )
        # Finite float32 values cannot overflow a float64 sum, so a sum is finite if all its terms are.
        total = np.nansum if self.missing else np.sum
        row_sums = total(self.features, axis=1, dtype=np.float64)
        for bad, reason in (
            (~np.isfinite(row_sums), "a feature that is not finite"),
            (~np.isfinite(self.labels), "a label that is not finite"),
            (self.labels < 0, "a negative label"),
        ):
            reject_documents(bad, self.offsets, reason, self.query_ids)
        ids, counts = np.unique(self.query_ids, return_counts=True)
        if len(ids) < self.n_queries:
            raise DataError(
                f"query id {str(ids[counts > 1][0])!r} belongs to more than one query: ids must be unique"
            )

    @classmethod
    def build(
        cls,
        features: object,
        labels: object,
        sizes: object,
        *,
        query_ids: object = None,
        doc_ids: object = None,
        missing: bool = False,
        categorical: tuple[int, ...] = (),
    ) -> Split:
        """Build a split from array-like values and the number of documents of each query."""
        size_array = np.asarray(sizes, dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(size_array)])
        ids = np.arange(len(size_array)) if query_ids is None else query_ids
        return cls(
            features=np.ascontiguousarray(features, dtype=np.float32),
            labels=np.ascontiguousarray(labels, dtype=np.float64),
            offsets=offsets,
            query_ids=np.asarray(ids).astype(np.str_),
            doc_ids=None if doc_ids is None else np.asarray(doc_ids).astype(np.str_),
            missing=missing,
            categorical=categorical,
        )

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def n_documents(self) -> int:
        """Number of documents over all queries."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of features per document."""
        return int(self.features.shape[1])

    @property
    def sizes(self) -> Int64:
        """Number of documents per query."""
        return np.diff(self.offsets)

    def select(self, queries: object) -> Split:
        """Select queries by number, in this order."""
        chosen = np.asarray(queries)
        if chosen.ndim != 1 or len(chosen) == 0 or chosen.dtype.kind not in "iu":
            raise DataError(f"queries must be a list of query numbers, got {queries!r}")
        if chosen.min() < 0 or chosen.max() >= self.n_queries:
            raise DataError(
                f"queries are numbered 0 to {self.n_queries - 1}, got {chosen.min()} to {chosen.max()}"
            )
        sizes = self.sizes[chosen]
        starts = np.repeat(self.offsets[chosen] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        rows = starts + np.arange(sizes.sum())
        return Split.build(
            self.features[rows],
            self.labels[rows],
            sizes,
            query_ids=self.query_ids[chosen],
            doc_ids=None if self.doc_ids is None else self.doc_ids[rows],
            missing=self.missing,
            categorical=self.categorical,
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three splits of one collection, with the same features.

    Attributes:
        name: name for figures and reports.
        train: queries for training.
        validation: queries for early stopping.
        test: queries for the reported results.
        scaling: how features were scaled when they were read: ``query``, to [0, 1] within each query, or
            ``none``. None if nothing is known about that. A model that is trained on it remembers it.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    scaling: Scaling | None = None

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name} {getattr(self, name).n_queries:,}" for name in ("train", "validation", "test")
        )
        return f"Dataset({self.name!r}: queries {parts}; {self.n_features:,} features)"

    def __post_init__(self) -> None:
        widths = {part: getattr(self, part).n_features for part in ("train", "validation", "test")}
        if len(set(widths.values())) > 1:
            raise DataError(f"the splits of {self.name!r} differ in their number of features: {widths}")

    @property
    def n_features(self) -> int:
        """Number of features per document."""
        return self.train.n_features

    @property
    def max_label(self) -> float:
        """The highest relevance grade in any split."""
        return float(max(split.labels.max() for split in (self.train, self.validation, self.test)))


# The method of a bias that was chosen, not estimated.
ASSUMED = "assumed"


@dataclass(frozen=True, eq=False)
class BiasEvidence:
    """Where a bias comes from.

    Attributes:
        method: how it was found: ``pairs``, ``documents``, ``features``, ``randomised`` or ``assumed``
            (docs/bias.md explains them).
        resamples: float64, resamples × 3 × ranks; α, β and examination as estimated from each bootstrap
            resample of the log. None if the bias is assumed, or was estimated without resamples.
    """

    method: str
    resamples: Float64 | None = None

    def __post_init__(self) -> None:
        if self.resamples is not None and not np.isfinite(self.resamples).all():
            raise DataError("the resamples of a bias must be finite numbers")


# What contexts are if they are not a column of the log: how long the list was.
LIST_LENGTH = "list length"
# The context of impressions whose value was not known when the effects were estimated.
OTHER = "other"


@dataclass(frozen=True, eq=False)
class ContextEffects:
    """How much more users click in one context than in another, at each rank.

        P(C | d, k, context c) = λ_ck (α_k R_d + β_k)

    Attributes:
        of: ``list length``, or the name of a column of the log.
        values: the contexts; those of list lengths are their shortest lengths. The last one is ``other`` if
            the contexts are values of a column.
        factors: float64, contexts × ranks; λ, relative to the mean over the displays of the log.
        low: float64, contexts × ranks; the lower ends of the intervals of λ; None if they are not known.
        high: their upper ends.
    """

    of: str
    values: tuple[str, ...]
    factors: Float64
    low: Float64 | None = None
    high: Float64 | None = None

    def __post_init__(self) -> None:
        for name in ("factors", "low", "high"):
            given = getattr(self, name)
            if given is None and name != "factors":
                continue
            array = np.array(given, dtype=np.float64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
            if array.ndim != 2 or len(array) != len(self.values) or not np.isfinite(array).all():
                raise DataError(f"{name} of contexts must be finite numbers, one per context and rank")
        if not self.values or (self.factors <= 0.0).any():
            raise DataError(
                "the factors of contexts must be positive, and there must be at least one context"
            )
        if self.of == LIST_LENGTH and not all(value.isdecimal() for value in self.values):
            raise DataError(f"contexts of list lengths are whole numbers, got {', '.join(self.values)}")

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return int(self.factors.shape[1])

    def codes(self, names: Sequence[str]) -> Int64:
        """The number of the context of each value that a log has.

        >>> lengths = ContextEffects(LIST_LENGTH, ("2", "5"), np.ones((2, 3)))
        >>> lengths.codes(["1", "4", "5", "12"])
        array([0, 0, 1, 1])
        """
        if self.of == LIST_LENGTH:
            starts = np.array([int(value) for value in self.values])
            lengths = np.array([int(name) for name in names], np.int64)
            return np.maximum(np.searchsorted(starts, lengths, side="right") - 1, 0)
        numbers = {value: number for number, value in enumerate(self.values)}
        return np.array([numbers.get(name, len(self.values) - 1) for name in names], np.int64)

    def of_ranks(self, ranks: int) -> ContextEffects:
        """The same for another number of ranks; further ones are like the last."""
        place = np.minimum(np.arange(ranks), self.ranks - 1)
        parts = (None if part is None else part[:, place] for part in (self.factors, self.low, self.high))
        return ContextEffects(self.of, self.values, *parts)  # type: ignore[arg-type]  # factors are not None

    def equals(self, other: ContextEffects | None) -> bool:
        """Whether both have the same effects."""
        return (
            other is not None
            and (self.of, self.values) == (other.of, other.values)
            and np.array_equal(self.factors, other.factors)
        )


@dataclass(frozen=True, eq=False)
class Bias:
    """Click bias: a document of relevance R shown at rank k is clicked with probability ``α_k · R + β_k``.

    Documents after the last rank are not shown and not clicked: item-selection bias.

    Attributes:
        alpha: float64, ranks; the effect of relevance on the click probability.
        beta: float64, ranks; the click probability of a document of relevance 0.
        examination: float64, ranks; the probability that a user examines the document at a rank.
        evidence: where the bias comes from; None if nothing is known about that.
        contexts: how much more users click in some contexts, such as short lists; None if all are alike.
    """

    alpha: Float64
    beta: Float64
    examination: Float64
    evidence: BiasEvidence | None = None
    contexts: ContextEffects | None = None

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "examination"):
            values = np.array(getattr(self, name), dtype=np.float64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
            if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
                raise DataError(f"{name} must be finite numbers, one per rank, got {values.tolist()}")
        if not len(self.alpha) == len(self.beta) == len(self.examination):
            raise DataError("alpha, beta and examination must have the same number of ranks")
        if self.contexts is not None and self.contexts.ranks != len(self.alpha):
            raise DataError(
                f"effects of {self.contexts.ranks} ranks do not belong to {len(self.alpha)} ranks"
            )
        lowest, highest = self.beta, self.alpha + self.beta
        if min(lowest.min(), highest.min()) < 0 or max(lowest.max(), highest.max()) > 1:
            raise DataError(
                "beta and alpha + beta are click probabilities (of an irrelevant and of a relevant document) "
                f"and must lie in [0, 1], got {lowest.tolist()} and {highest.tolist()}"
            )

    @property
    def positions(self) -> int:
        """Number of ranks that are shown."""
        return len(self.alpha)

    @property
    def is_estimated(self) -> bool:
        """Whether the bias was estimated from clicks; False if it was assumed or nothing is known."""
        return self.evidence is not None and self.evidence.method != ASSUMED

    def click_chance(self, relevance: Float64 | float, ranks: Int64 | slice = slice(None)) -> Float64:
        """The probability of a click, ``α_k · R + β_k``, on documents of this relevance.

        Args:
            relevance: R; broadcast against the ranks.
            ranks: k, from 0; all of them by default.

        Example:
            >>> bias = Bias(alpha=[0.8, 0.5], beta=[0.2, 0.0], examination=[1.0, 0.5])
            >>> bias.click_chance(0.5), bias.click_chance(np.array([0.0, 1.0]), np.array([1, 1]))
            (array([0.6 , 0.25]), array([0. , 0.5]))
        """
        result: Float64 = self.alpha[ranks] * relevance + self.beta[ranks]
        return result

    def scaled(self, factor: float) -> Bias:
        """Users who click so many times as often, whatever the document; for a factor of at most 1."""
        return self if factor == 1.0 else replace(self, alpha=self.alpha * factor, beta=self.beta * factor)

    def for_amounts(self, per_click: float) -> Bias:
        """How displays gain amounts, given how users click; see `Lines.for_amounts`."""
        return replace(self, beta=Lines(self.alpha, self.beta).for_amounts(per_click).beta)


class Lines(NamedTuple):
    """α and β per rank, not necessarily valid probabilities: float64, the last axis is ranks."""

    alpha: Float64
    beta: Float64

    def for_amounts(self, per_click: float) -> Lines:
        """The lines of amounts in place of clicks: ``E[amount | d, k] = α_k · G_d + β_k · v``.

        Args:
            per_click: v, the mean amount of a click: clicks that have nothing to do with relevance have it.

        Example:
            >>> Lines(np.array([0.8]), np.array([0.2])).for_amounts(0.5)
            Lines(alpha=array([0.8]), beta=array([0.1]))
        """
        return self._replace(beta=self.beta * per_click)


@runtime_checkable
class Model(Protocol):
    """A model that scores documents. Models are immutable: training returns a new one."""

    @property
    def kind(self) -> str:
        """The name under which this kind of model is stored, such as ``mlp`` or ``lightgbm``."""
        ...

    @property
    def n_features(self) -> int:
        """Number of features per document."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies these parameters, with the same text on every machine."""
        ...

    def scores(self, features: Float32) -> Float64:
        """Score documents, one score per document; higher is better."""
        ...

    def to_bytes(self) -> bytes:
        """Serialise the model, without pickle."""
        ...


class Learner(Protocol):
    """A model in training: its parameters change, the model it started from does not."""

    def scores(self, features: Float32) -> Float64:
        """Score documents with the current parameters."""
        ...

    def update(self, features: Float32, score_gradient: Float64) -> None:
        """Take one ascent step; ``score_gradient`` is the gradient of the objective by the scores."""
        ...

    def model(self) -> Model:
        """Return a model with the current parameters."""
        ...
