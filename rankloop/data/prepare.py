"""Prepare data sets for training: scale features, drop constant features, split queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from rankloop.errors import DataError
from rankloop.ragged import counts_by_share
from rankloop.types import Dataset, Float32, Int64, Split


def normalise_queries(split: Split) -> Split:
    """Scale every feature to [0, 1] within each query; a feature that is constant in a query becomes 0.

        x'_df = (x_df − min_q x_·f) / (max_q x_·f − min_q x_·f),   d in query q

    Scores are only compared within a query, so the level of a feature over a whole query is not needed.
    Scaling makes raw counts of long and short queries comparable.

    Args:
        split: the queries to scale, with features documents × features; it is not modified.

    Example:
        >>> split = Split.build([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0], [9.0, 0.0]], [0, 1, 2, 0], sizes=[3, 1])
        >>> normalise_queries(split).features.tolist()
        [[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.0, 0.0]]

    Reference:
        Qin and Liu, "Introducing LETOR 4.0 Datasets", 2013: "query level normalisation".
    """
    scaled = np.empty_like(split.features, order="C")
    min_max_into(split.features, split.offsets, out=scaled)
    return replace(split, features=scaled)


def min_max_into(features: Float32, offsets: Int64, out: Float32) -> None:
    """Write the features scaled within each query to ``out``, which may be ``features`` itself.

    This loops over queries in Python. It takes 10 µs per query, a thousandth of the time for parsing, and
    loading a compiled kernel would take longer than loading a cached file of typical size.
    """
    for start, stop in pairwise(offsets.tolist()):
        block = out[start:stop]
        # Halved, because the difference of two float32 numbers may overflow. Halving is exact.
        np.multiply(features[start:stop], 0.5, out=block)
        block -= np.minimum.reduce(block)
        span = np.maximum.reduce(block)
        span[span == 0] = 1
        block /= span


def varying_features(split: Split) -> Int64:
    """Find the columns with more than one value, in order.

    Example:
        >>> varying_features(Split.build([[1.0, 5.0], [3.0, 5.0]], [0, 1], sizes=[2]))
        array([0])
    """
    return np.flatnonzero(split.features.max(axis=0) > split.features.min(axis=0))


def drop_constant(dataset: Dataset) -> Dataset:
    """Drop the features that are constant over the training split.

    No parameter can be learned for such a feature, even if it varies in the other splits. `varying_features`
    of the training split returns the columns that are kept.

    Example:
        >>> split = Split.build([[1.0, 5.0], [3.0, 5.0]], [0, 1], sizes=[2])
        >>> drop_constant(Dataset("tiny", split, split, split)).train.features.tolist()
        [[1.0], [3.0]]
    """
    columns = varying_features(dataset.train)
    if not len(columns):
        raise DataError(
            f"every feature of {dataset.name!r} is constant over its training split, so a model cannot learn "
            f"from it: check that the files contain features, or load it with drop_constant=False"
        )
    if len(columns) == dataset.n_features:
        return dataset
    train, validation, test = (
        replace(part, features=np.ascontiguousarray(part.features[:, columns]))
        for part in (dataset.train, dataset.validation, dataset.test)
    )
    return replace(dataset, train=train, validation=validation, test=test)


def split_queries(split: Split, shares: Sequence[float], rng: np.random.Generator) -> tuple[Split, ...]:
    """Split queries at random into disjoint parts with these shares.

    Args:
        split: the queries to split. Queries keep their order within each part.
        shares: one positive number per part; only their ratios matter. Every part gets at least one query.
        rng: random generator.

    Example:
        >>> import numpy as np
        >>> split = Split.build(np.zeros((10, 1)), np.zeros(10), sizes=np.ones(10))
        >>> [part.n_queries for part in split_queries(split, (0.6, 0.2, 0.2), np.random.default_rng(0))]
        [6, 2, 2]
    """
    counts = counts_by_share(split.n_queries, shares)
    parts = np.split(rng.permutation(split.n_queries), np.cumsum(counts)[:-1])
    return tuple(split.select(np.sort(part)) for part in parts)
