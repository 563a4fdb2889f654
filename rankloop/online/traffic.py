"""The queries that come, and the users who come with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop import clicks
from rankloop.clicks.simulation import check_relevance
from rankloop.errors import DataError
from rankloop.ragged import offsets_of
from rankloop.types import Dataset, Float32, Float64, Int64, Model, Split, check_offsets


@dataclass(frozen=True, eq=False)
class Queries:
    """Documents of all queries, in one matrix or in several that follow each other: nothing is copied.

    Attributes:
        features: float32, documents × features, one matrix a part; a query lies within one part.
        offsets: queries + 1, over all parts.
    """

    features: tuple[Float32, ...]
    offsets: Int64

    def __post_init__(self) -> None:
        # Kernels trust what they are given: it is made sure of once, here.
        parts = tuple(_read_only(part) for part in self.features)
        if not parts or any(part.ndim != 2 for part in parts) or len({part.shape[1:] for part in parts}) > 1:
            raise DataError(
                "features must be matrices of documents × features with the same features, "
                f"got shapes {[part.shape for part in parts]}"
            )
        offsets = np.ascontiguousarray(self.offsets, dtype=np.int64)
        check_offsets(offsets, sum(map(len, parts)))
        object.__setattr__(self, "features", parts)
        object.__setattr__(self, "offsets", offsets)
        if not np.isin(self.starts, offsets).all():
            raise DataError("a query must not lie in two matrices of features")

    @classmethod
    def of(cls, *splits: Split) -> Queries:
        """The queries of these splits, one split after the other.

        Example:
            >>> from rankloop.data import synthetic
            >>> data = synthetic(queries=30, features=5)
            >>> queries = Queries.of(data.train, data.validation)
            >>> queries.n_queries == data.train.n_queries + data.validation.n_queries
            True
        """
        sizes = np.concatenate([split.sizes for split in splits])
        return cls(tuple(split.features for split in splits), offsets_of(sizes))

    @property
    def n_queries(self) -> int:
        """How many queries there are."""
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        """How many features each document has."""
        return int(self.features[0].shape[1])

    @property
    def starts(self) -> Int64:
        """The first document of each part, and the end of the last."""
        return offsets_of(np.array([len(part) for part in self.features]))

    def scores(self, model: Model) -> Float64:
        """What a model gives every document."""
        return np.concatenate([model.scores(part) for part in self.features])


@dataclass(frozen=True, eq=False)
class Traffic:
    """Queries, each as likely to come as any other, and simulated users who click on what they are shown.

    Attributes:
        queries: which may come.
        relevance: documents, in [0, 1].
        users: who clicks; as many ranks are shown as they see.
    """

    queries: Queries
    relevance: Float64
    users: clicks.Users

    def __post_init__(self) -> None:
        object.__setattr__(self, "relevance", check_relevance(self.relevance, self.queries.offsets))

    @classmethod
    def of(cls, dataset: Dataset, users: str = "paper@5", *, relevance: str = "linear") -> Traffic:
        """The training and the validation queries of a data set, with users by their name.

        Example:
            >>> from rankloop.data import synthetic
            >>> traffic = Traffic.of(synthetic(queries=30, features=5), "cascade@3")
            >>> traffic.users
            CascadeUsers(cutoff=3, stop=0.7, noise=0.05, abandon=0.0)
        """
        parts = (dataset.train, dataset.validation)
        chances = np.concatenate([clicks.relevance(relevance).of(part.labels) for part in parts])
        return cls(Queries.of(*parts), chances, clicks.users(users))


def _read_only(features: Float32) -> Float32:
    """The same memory: kernels are compiled for one kind of matrix, and none may write to it."""
    view = np.ascontiguousarray(features, dtype=np.float32).view()
    view.flags.writeable = False
    return view
