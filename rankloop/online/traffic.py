"""Simulated traffic: queries, and the users who issue them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop import clicks
from rankloop.clicks.simulation import check_relevance
from rankloop.errors import DataError
from rankloop.ragged import offsets_of
from rankloop.types import Dataset, Float32, Float64, Int64, Model, Split, as_whole_numbers, check_offsets


@dataclass(frozen=True, eq=False)
class Queries:
    """Documents of all queries, in one matrix or several consecutive ones; nothing is copied.

    Attributes:
        features: float32, documents × features, one matrix per part; a query lies within one part.
        offsets: queries + 1, over all parts.
    """

    features: tuple[Float32, ...]
    offsets: Int64

    def __post_init__(self) -> None:
        # Kernels do not validate their arguments, so this is the place to do it.
        parts = tuple(_read_only(part) for part in self.features)
        if not parts or any(part.ndim != 2 for part in parts) or len({part.shape[1:] for part in parts}) > 1:
            raise DataError(
                "features must be matrices of documents × features with the same features, "
                f"got shapes {[part.shape for part in parts]}"
            )
        offsets = as_whole_numbers(self.offsets, "offsets")
        check_offsets(offsets, sum(map(len, parts)))
        object.__setattr__(self, "features", parts)
        object.__setattr__(self, "offsets", offsets)
        if not np.isin(self.starts, offsets).all():
            raise DataError("the documents of a query must be in a single feature matrix")

    @classmethod
    def of(cls, *splits: Split) -> Queries:
        """Combine the queries of these splits, in this order.

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
        """Number of queries."""
        return len(self.offsets) - 1

    @property
    def n_features(self) -> int:
        """Number of features per document."""
        return int(self.features[0].shape[1])

    @property
    def starts(self) -> Int64:
        """The first document of each part, and the end of the last."""
        return offsets_of(np.array([len(part) for part in self.features]))

    def scores(self, model: Model) -> Float64:
        """Score all documents with a model."""
        return np.concatenate([model.scores(part) for part in self.features])


@dataclass(frozen=True, eq=False)
class Traffic:
    """Equally frequent queries, and simulated users who click.

    Attributes:
        queries: the queries.
        relevance: documents, in [0, 1].
        users: the users, who also determine the number of ranks to show.
    """

    queries: Queries
    relevance: Float64
    users: clicks.Users

    def __post_init__(self) -> None:
        object.__setattr__(self, "relevance", check_relevance(self.relevance, self.queries.offsets))

    @classmethod
    def of(cls, dataset: Dataset, users: str = "paper@5", *, relevance: str = "linear") -> Traffic:
        """Combine the training and validation queries of a data set with users, given by name.

        Example:
            >>> from rankloop.data import synthetic
            >>> traffic = Traffic.of(synthetic(queries=30, features=5), "cascade@3")
            >>> traffic.users
            CascadeUsers(cutoff=3, stop=0.7, noise=0.05, abandon=0.0)
        """
        parts = (dataset.train, dataset.validation)
        relevances = np.concatenate([clicks.relevance(relevance).of(part.labels) for part in parts])
        return cls(Queries.of(*parts), relevances, clicks.users(users))


def _read_only(features: Float32) -> Float32:
    """Return a read-only contiguous view, the only kind of matrix that kernels are compiled for."""
    view = np.ascontiguousarray(features, dtype=np.float32).view()
    view.flags.writeable = False
    return view
