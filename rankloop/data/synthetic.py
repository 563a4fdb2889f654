"""Generate a collection that resembles the public ones; the default data of every command.

A nonlinear teacher maps the features of every document to a value. Labels are quantiles of that value, so
they have the requested shares for any teacher.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankloop.data.prepare import min_max_into
from rankloop.errors import DataError
from rankloop.ragged import counts_by_share, offsets_of, segment_index
from rankloop.types import Dataset, Float32, Float64, Int64, Split


@dataclass(frozen=True)
class Shape:
    """The dimensions and distributions of a generated collection.

    Attributes:
        name: name of the shape; the data set is named after it.
        documents: mean number of documents per query; sizes are rounded draws from a gamma distribution.
        spread: standard deviation of the sizes, relative to their mean.
        max_documents: maximum number of documents per query.
        features: number of features.
        zeros: approximate share of feature values that are 0 before scaling.
        label_shares: shares of documents with label 0, 1, 2, …
        split_shares: shares of train, validation and test; only their ratios matter.
        noise: standard deviation of what no feature explains, relative to that of what features explain.
    """

    name: str
    documents: float
    spread: float
    max_documents: int
    features: int
    zeros: float
    label_shares: tuple[float, ...]
    split_shares: tuple[float, float, float] = (0.6, 0.2, 0.2)
    noise: float = 0.8

    def __post_init__(self) -> None:
        shares = np.asarray(self.label_shares, dtype=np.float64)
        # Shares are often given to two digits.
        if not len(shares) or (shares < 0).any() or abs(shares.sum() - 1) > 0.01:
            raise DataError(f"label_shares must be non-negative and add up to 1, got {self.label_shares}")
        if not (1 <= self.documents <= self.max_documents and self.spread >= 0):
            raise DataError(
                f"documents must be between 1 and max_documents ({self.max_documents}), and spread must not "
                f"be negative; "
                f"got documents={self.documents}, spread={self.spread}"
            )
        if self.features < 1 or not 0 <= self.zeros < 1:
            raise DataError(
                f"features must be at least 1 and zeros in [0, 1); got {self.features} and {self.zeros}"
            )
        if not 0 <= self.noise < np.inf:
            raise DataError(f"noise must be a number that is at least 0, got {self.noise}")


YAHOO = Shape(
    name="yahoo",
    documents=24,
    spread=0.7,
    max_documents=139,
    features=700,
    zeros=0.6,
    label_shares=(0.26, 0.36, 0.28, 0.08, 0.02),
    split_shares=(19_944, 2_994, 6_983),
)
MSLR = Shape(
    name="mslr",
    documents=120,
    spread=0.6,
    max_documents=1_251,
    features=136,
    zeros=0.4,
    label_shares=(0.52, 0.32, 0.13, 0.02, 0.01),
)
SHAPES = {shape.name: shape for shape in (YAHOO, MSLR)}

# Features of a document are correlated through this many common factors, like counts of the same thing in
# title, body and anchors. The factors explain this share of a feature's variance.
FACTORS, COMMON = 16, 0.5
# The share of zeros differs between features. It has a beta distribution whose parameters sum to ZEROS_BETA,
# within bounds that avoid features which are always or never 0.
ZEROS_BETA, ZEROS_BOUNDS = 3.0, (0.001, 0.98)
# The importance of features decays by a factor e per this many features, so about as many matter among 700 as
# among 100.
IMPORTANCE_DECAY = 10
# Number of projections that the teacher uses, and the slope inside its network.
DIRECTIONS, STEEPNESS = 8, 2.0
# The share of the teacher's variance within queries that is linear in the projections; the rest is
# orthogonal to it. The query shift is a standard deviation relative to that of the teacher. With the noise of
# a shape, the values were chosen so that a small network clearly beats a linear model; docs/data.md has the
# numbers.
LINEAR_SHARE, QUERY_SHIFT = 0.55, 2.5
# Number of queries used to scale the teacher.
PILOT_QUERIES = 200
# Number of values drawn at a time: 8 MB of float32, so that memory use stays close to that of the matrix.
VALUES_PER_BLOCK = 2_000_000


def synthetic(
    shape: str | Shape = "yahoo",
    *,
    queries: int = 2_000,
    features: int | None = None,
    noise: float | None = None,
    seed: int = 0,
) -> Dataset:
    """Generate a data set of this shape that a model can learn.

    A document with features x, scaled to [0, 1] within its query, has the value

        v = w·u + a·tanh(2u + b) + Σ_i c_i u_i u_{i−1} + QUERY_SHIFT·ε_q + noise·ε_d,   u = D x

    Its label is determined by the quantile of v among all documents. The rows of D are DIRECTIONS random
    projections in which a few features matter most. ε is standard normal, one value per query and one per
    document. The first three terms together have unit variance within queries, LINEAR_SHARE of it linear in
    u.

    Args:
        shape: ``yahoo``, ``mslr`` or a custom `Shape`.
        queries: total number of queries in all three splits.
        features: number of features; by default that of the shape.
        noise: how much of the labels no model can learn; by default that of the shape.
        seed: random seed. The teacher depends on the seed and the shape, not on the number of queries or the
            noise: a larger or noisier data set has the same teacher.

    Example:
        >>> data = synthetic("yahoo", queries=50, features=10)
        >>> data.name, data.train.n_queries, data.validation.n_queries, data.test.n_queries
        ('synthetic-yahoo', 33, 5, 12)
        >>> float(data.train.features.min()), float(data.train.features.max()), data.max_label
        (0.0, 1.0, 4.0)
    """
    spec = _spec(shape, features=features, noise=noise)
    teacher_rng, size_rng, document_rng = np.random.default_rng(seed).spawn(3)
    counts = counts_by_share(queries, spec.split_shares)
    source = _Source.draw(spec, teacher_rng)

    first = np.concatenate([[0], np.cumsum(counts)])
    sizes = _sizes(spec, queries, size_rng)
    offsets = [offsets_of(sizes[a:b]) for a, b in pairwise(first)]
    matrices = [np.empty((part[-1], spec.features), np.float32) for part in offsets]
    values = [
        source.fill(matrix, part, spec.noise, document_rng)
        for matrix, part in zip(matrices, offsets, strict=True)
    ]
    edges = np.quantile(np.concatenate(values), np.cumsum(spec.label_shares)[:-1].clip(0, 1))
    train, validation, test = (
        Split(
            features=matrices[i],
            labels=np.searchsorted(edges, values[i], side="right").astype(np.float64),
            offsets=offsets[i],
            query_ids=np.arange(first[i], first[i + 1]).astype(np.str_),
        )
        for i in range(3)
    )
    return Dataset(f"synthetic-{spec.name}", train, validation, test)


def noise_free_scores(features: Float32, shape: str | Shape = "yahoo", *, seed: int = 0) -> Float64:
    """The teacher's values of generated documents, without noise and without what a query adds to all of its.

    No ranker can expect a higher metric than sorting by these.

    Args:
        features: documents × features, as `synthetic` generates them.
        shape: the shape that they were generated in.
        seed: the seed that they were generated with.

    Example:
        >>> data = synthetic(queries=50, features=10, noise=0, seed=3)
        >>> scores = noise_free_scores(data.test.features, seed=3)
        >>> first = slice(*data.test.offsets[:2])
        >>> bool(np.all(np.diff(data.test.labels[first][np.argsort(scores[first])]) >= 0))
        True
    """
    spec = _spec(shape, features=features.shape[1])
    teacher_rng, *_ = np.random.default_rng(seed).spawn(3)
    values: Float64 = np.sum(_Source.draw(spec, teacher_rng)._parts(features), axis=0)
    return values


def _spec(shape: str | Shape, **changes: float | None) -> Shape:
    if isinstance(shape, str):
        if shape not in SHAPES:
            raise DataError(f"unknown shape {shape!r}: use one of {sorted(SHAPES)}, or a custom Shape")
        shape = SHAPES[shape]
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    return replace(shape, **given)


def _sizes(spec: Shape, queries: int, rng: np.random.Generator) -> Int64:
    variance_ratio = spec.spread**2
    if variance_ratio == 0:
        drawn = np.full(queries, spec.documents)
    else:
        drawn = rng.gamma(1 / variance_ratio, spec.documents * variance_ratio, queries)
    sizes: Int64 = np.clip(np.rint(drawn), 1, spec.max_documents).astype(np.int64)
    return sizes


@dataclass(frozen=True, eq=False)
class _Source:
    """Draws documents and computes their values.

    Attributes:
        loadings: factors × features.
        thresholds: features; values below the threshold become 0.
        directions: features × DIRECTIONS, the projections u.
        centre: DIRECTIONS; the mean of u, which is subtracted.
        bias: DIRECTIONS; the bias inside the network.
        weights: 3 × DIRECTIONS; weights of the linear part, the network and the products.
    """

    loadings: Float32
    thresholds: Float32
    directions: Float32
    centre: Float32
    bias: Float64
    weights: Float64

    @classmethod
    def draw(cls, spec: Shape, rng: np.random.Generator) -> _Source:
        """Draw a source whose projections and value have unit variance within pilot queries."""
        loadings = rng.standard_normal((FACTORS, spec.features))
        loadings *= np.sqrt(COMMON / (loadings**2).sum(axis=0))
        mean_zeros = np.clip(spec.zeros, *ZEROS_BOUNDS)
        zeros = rng.beta(ZEROS_BETA * mean_zeros, ZEROS_BETA * (1 - mean_zeros), spec.features)
        quantile = NormalDist().inv_cdf
        importance = np.exp(-rng.permutation(spec.features) / IMPORTANCE_DECAY)
        rough = cls(
            loadings=loadings.astype(np.float32),
            thresholds=np.array([quantile(share) for share in zeros.clip(*ZEROS_BOUNDS)], np.float32),
            directions=(importance[:, None] * rng.standard_normal((spec.features, DIRECTIONS))).astype(
                np.float32
            ),
            centre=np.zeros(DIRECTIONS, np.float32),
            bias=rng.standard_normal(DIRECTIONS),
            weights=rng.standard_normal((3, DIRECTIONS)),
        )
        offsets = offsets_of(_sizes(spec, PILOT_QUERIES, rng))
        pilot = np.empty((offsets[-1], spec.features), np.float32)
        rough._draw_documents(pilot, offsets, rng)
        return rough._scaled(pilot, offsets)

    def _scaled(self, pilot: Float32, offsets: Int64) -> _Source:
        raw = pilot @ self.directions
        size = _deviation(_within(raw, offsets)).astype(np.float32)
        scaled = replace(self, directions=self.directions / size, centre=raw.mean(axis=0) / size)
        linear, network, products = (_within(part, offsets) for part in scaled._parts(pilot))
        network_size, products_size = _deviation(network), _deviation(products)
        curved = network / network_size + products / products_size
        # Removes the linear component of the curved part, so that LINEAR_SHARE holds exactly.
        u = _within(pilot @ scaled.directions, offsets)
        projection = np.linalg.lstsq(u, curved, rcond=None)[0]
        a = np.sqrt(LINEAR_SHARE) / _deviation(linear)
        b = np.sqrt(1 - LINEAR_SHARE) / _deviation(curved - u @ projection)
        w_linear, w_network, w_products = self.weights
        weights = [
            a * w_linear - b * projection,
            b / network_size * w_network,
            b / products_size * w_products,
        ]
        return replace(scaled, weights=np.array(weights))

    def fill(self, matrix: Float32, offsets: Int64, noise: float, rng: np.random.Generator) -> Float64:
        """Fill the matrix with documents, one block of queries at a time, and return their values."""
        values = np.empty(len(matrix))
        rows = max(1, VALUES_PER_BLOCK // matrix.shape[1])
        cuts = np.searchsorted(offsets, np.arange(0, offsets[-1], rows)[1:])
        edges = np.unique(np.concatenate([[0], cuts, [len(offsets) - 1]]))
        for a, b in pairwise(edges):
            block, local = matrix[offsets[a] : offsets[b]], offsets[a : b + 1] - offsets[a]
            self._draw_documents(block, local, rng)
            shift = QUERY_SHIFT * rng.standard_normal(b - a)
            unexplained = noise * rng.standard_normal(len(block))
            explained = sum(self._parts(block)) + shift[segment_index(local)]
            values[offsets[a] : offsets[b]] = explained + unexplained
        return values

    def _draw_documents(self, block: Float32, offsets: Int64, rng: np.random.Generator) -> None:
        rng.standard_normal(dtype=np.float32, out=block)
        block *= np.float32(np.sqrt(1 - COMMON))
        block += rng.standard_normal((len(block), FACTORS), dtype=np.float32) @ self.loadings
        block -= self.thresholds
        np.maximum(block, 0, out=block)
        min_max_into(block, offsets, out=block)

    def _parts(self, features: Float32) -> tuple[Float64, Float64, Float64]:
        """Compute the linear part, the network and the products."""
        u = (features @ self.directions - self.centre).astype(np.float64)
        linear, network, products = self.weights
        return (
            u @ linear,
            np.tanh(STEEPNESS * u + self.bias) @ network,
            (u * np.roll(u, 1, axis=1)) @ products,
        )


def _within(values: NDArray[Any], offsets: Int64) -> Float64:
    """Subtract the query mean from the values."""
    means = np.add.reduceat(values, offsets[:-1], axis=0, dtype=np.float64)
    means /= np.diff(offsets).reshape(-1, *[1] * (values.ndim - 1))
    centred: Float64 = values - means[segment_index(offsets)]
    return centred


def _deviation(values: Float64) -> Float64:
    """Compute the root mean square of each column; 1 for columns of zeros, to avoid division by zero."""
    size = np.sqrt((values**2).mean(axis=0))
    return np.where(size > 0, size, 1.0)
