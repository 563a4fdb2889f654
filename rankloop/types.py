"""The nouns: a split of ranked queries, a data set of three splits, and what a model can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Str = NDArray[np.str_]


def check_offsets(offsets: Int64, n_docs: int) -> None:
    """Refuse offsets that do not cut ``n_docs`` documents into queries of at least one document."""
    if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != n_docs:
        raise DataError(
            f"offsets must be one-dimensional, start at 0 and end at the number of documents ({n_docs}); "
            f"got shape {offsets.shape}, from {offsets[:1].tolist()} to {offsets[-1:].tolist()}"
        )
    empty = np.flatnonzero(np.diff(offsets) <= 0)
    if len(empty):
        raise DataError(f"query number {empty[0]} has no documents: every query needs at least one")


@dataclass(frozen=True, eq=False)
class Split:
    """Queries with their documents, as flat arrays: query q owns rows ``offsets[q]:offsets[q + 1]``.

    Validated once, here; nothing downstream checks again.

    Attributes:
        features: float32, documents × features, finite.
        labels: float64, one relevance grade a document, finite and not negative.
        offsets: int64, queries + 1.
        query_ids: one string a query, all different.
        doc_ids: one string a document, or None where the source names none.

    Example:
        >>> import numpy as np
        >>> split = Split.build(np.eye(3), [0, 2, 1], sizes=[2, 1])
        >>> split.n_queries, split.n_docs, split.n_features
        (2, 3, 3)
        >>> split.select([1]).labels
        array([1.])
    """

    features: Float32
    labels: Float64
    offsets: Int64
    query_ids: Str
    doc_ids: Str | None = None

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.features.dtype != np.float32:
            raise DataError(
                f"features must be a float32 matrix of documents × features, "
                f"got {self.features.dtype} of shape {self.features.shape}"
            )
        n_docs = len(self.features)
        check_offsets(self.offsets, n_docs)
        if self.labels.shape != (n_docs,):
            raise DataError(f"{n_docs} documents need {n_docs} labels, got shape {self.labels.shape}")
        if self.query_ids.shape != (self.n_queries,):
            raise DataError(f"{self.n_queries} queries need as many ids, got {self.query_ids.shape}")
        if self.doc_ids is not None and self.doc_ids.shape != (n_docs,):
            raise DataError(f"{n_docs} documents need as many document ids, got {self.doc_ids.shape}")
        # Finite float32 values cannot overflow a float64 sum: a sum that is not finite has a bad term.
        row_sums = self.features.sum(axis=1, dtype=np.float64)
        self._refuse(~np.isfinite(row_sums), "a feature that is not finite")
        self._refuse(~np.isfinite(self.labels), "a label that is not finite")
        self._refuse(self.labels < 0, "a negative label")
        ids, counts = np.unique(self.query_ids, return_counts=True)
        if len(ids) < self.n_queries:
            raise DataError(f"query id {str(ids[counts > 1][0])!r} names more than one query")

    def _refuse(self, bad: NDArray[np.bool_], what: str) -> None:
        rows = np.flatnonzero(bad)
        if len(rows):
            q = int(np.searchsorted(self.offsets, rows[0], side="right")) - 1
            raise DataError(
                f"query {str(self.query_ids[q])!r} (number {q}), document {rows[0] - self.offsets[q]}: "
                f"{what} ({len(rows)} such documents in all)"
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
    ) -> Split:
        """Make a split from anything array-like and the number of documents of each query."""
        size_array = np.asarray(sizes, dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(size_array)])
        ids = np.arange(len(size_array)) if query_ids is None else query_ids
        return cls(
            features=np.ascontiguousarray(features, dtype=np.float32),
            labels=np.ascontiguousarray(labels, dtype=np.float64),
            offsets=offsets,
            query_ids=np.asarray(ids).astype(np.str_),
            doc_ids=None if doc_ids is None else np.asarray(doc_ids).astype(np.str_),
        )

    @property
    def n_queries(self) -> int:
        """How many queries there are."""
        return len(self.offsets) - 1

    @property
    def n_docs(self) -> int:
        """How many documents there are, over all queries."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """How many features each document has."""
        return int(self.features.shape[1])

    @property
    def sizes(self) -> Int64:
        """How many documents each query has."""
        return np.diff(self.offsets)

    def select(self, queries: object) -> Split:
        """The split that holds these queries (by number, in this order)."""
        chosen = np.asarray(queries)
        if chosen.ndim != 1 or len(chosen) == 0 or chosen.dtype.kind not in "iu":
            raise DataError(f"queries are chosen by a list of their numbers, got {queries!r}")
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
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three splits of one collection; they share the meaning of their features.

    Attributes:
        name: what figures and reports call it.
        train: what parameters are fitted to.
        validation: what early stopping looks at.
        test: what is reported.
    """

    name: str
    train: Split
    validation: Split
    test: Split

    def __post_init__(self) -> None:
        widths = {part: getattr(self, part).n_features for part in ("train", "validation", "test")}
        if len(set(widths.values())) > 1:
            raise DataError(f"the splits of {self.name!r} differ in their number of features: {widths}")

    @property
    def n_features(self) -> int:
        """How many features each document has."""
        return self.train.n_features

    @property
    def max_label(self) -> float:
        """The highest relevance grade that occurs in any split."""
        return float(max(split.labels.max() for split in (self.train, self.validation, self.test)))


@dataclass(frozen=True, eq=False)
class Bias:
    """How users click: an item of relevance R shown at rank k is clicked with chance ``α_k · R + β_k``.

    Past the last rank nothing is shown, so nothing is clicked: item-selection bias.

    Attributes:
        alpha: float64, ranks; what relevance adds to the chance of a click.
        beta: float64, ranks; clicks that relevance has nothing to do with.
        examination: float64, ranks; the chance that the item at a rank is looked at.
    """

    alpha: Float64
    beta: Float64
    examination: Float64

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "examination"):
            values = np.array(getattr(self, name), dtype=np.float64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
            if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
                raise DataError(f"{name} must be finite numbers, one a rank, got {values.tolist()}")
        if not len(self.alpha) == len(self.beta) == len(self.examination):
            raise DataError("alpha, beta and examination must have one number for each of the same ranks")
        lowest, highest = self.beta, self.alpha + self.beta
        if min(lowest.min(), highest.min()) < 0 or max(lowest.max(), highest.max()) > 1:
            raise DataError(
                "beta and alpha + beta are chances of a click (on an irrelevant and on a relevant item): "
                f"they must lie in [0, 1], got {lowest.tolist()} and {highest.tolist()}"
            )

    @property
    def ranks(self) -> int:
        """How many ranks are shown."""
        return len(self.alpha)


@runtime_checkable
class Model(Protocol):
    """What scores documents. A model is a value: training returns a new one."""

    @property
    def kind(self) -> str:
        """The name under which this kind of model is stored, such as ``mlp`` or ``lightgbm``."""
        ...

    @property
    def n_features(self) -> int:
        """How many features a document must have."""
        ...

    @property
    def fingerprint(self) -> str:
        """A name for exactly these parameters, the same on every machine and for ever."""
        ...

    def scores(self, features: Float32) -> Float64:
        """One score a document; higher is better."""
        ...

    def to_bytes(self) -> bytes:
        """The whole model, without pickle."""
        ...


class Learner(Protocol):
    """A model while it is being trained: the parameters move, the model it came from does not."""

    def scores(self, features: Float32) -> Float64:
        """One score a document, with the parameters as they are now."""
        ...

    def update(self, features: Float32, score_gradient: Float64) -> None:
        """One step of ascent: ``score_gradient`` is the objective's gradient on these documents' scores."""
        ...

    def model(self) -> Model:
        """The parameters as they are now, as a model of their own."""
        ...
