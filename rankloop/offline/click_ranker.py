"""A ranker that learns from clicks, with the interface of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from rankloop.errors import DataError
from rankloop.logs import LogWriter
from rankloop.logs.feature_tables import Categories
from rankloop.logs.features import feature_arrays
from rankloop.logs.schema import FEATURES, IMPRESSIONS
from rankloop.models.specs import LightGBMSpec, model_spec
from rankloop.offline._evaluate import evaluate
from rankloop.offline.assumptions import BiasSource
from rankloop.offline.comparison import Comparison
from rankloop.offline.fit_result import Fit
from rankloop.offline.log import Log, open_log
from rankloop.storage.locks import scratch_folder
from rankloop.training.ranker import feature_rows
from rankloop.types import Bias, Float32, Float64, Int64, Model, Str

# The policy of rows that name none.
PRODUCTION = "production"


class ClickRanker(BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Learn to rank from clicks on what was shown: ``fit(X, clicked, query=…, position=…)``, ``predict``.

    A row is a document that was shown. The bias of clicks, by position and by trust, is estimated from the
    same rows, and the ranker learns relevance; see `rankloop.fit`.

    Args:
        model: ``lightgbm``, ``mlp`` or ``linear``, with options as in ``lightgbm(rounds=300)``.
        bias: how users click: a bias, the path of a stored one, the name of simulated users, or None to
            estimate it from the rows.
        learning: estimator, optimiser, stopping and metric, as in `rankloop.fit`.
        metric: the value of a ranking that `evaluate` and `score` report: ``dcg``, ``dcg@10`` or ``clicks``.
        validation: the share of the queries that decide when to stop.
        judge: ``none``; or ``folds`` to judge each query by a model that never saw it, in `comparison_`.
        seed: the random seed.

    Attributes:
        fit_: the fit, with its notes; `rankloop.Fit`.
        model_: the trained model.
        bias_: how users click.
        comparison_: the ranker and production on queries that it never saw; None unless something judges it.
        feature_names_in_: the names of the columns, if a frame was given; every later frame needs the same.
        categories_: by the name of each column of text, its values; others count as missing.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> price, shown = rng.random((200, 4)), np.tile(np.arange(1, 5), 200)
        >>> cheap_is_clicked = rng.random(800) < 0.9 * (1 - price.ravel()) / shown
        >>> ranker = ClickRanker("linear", bias="position@4")
        >>> query = np.repeat(np.arange(200), 4)
        >>> ranker = ranker.fit(price.reshape(-1, 1), cheap_is_clicked, query=query, position=shown)
        >>> cheap, dear = ranker.predict([[0.1], [0.9]])
        >>> bool(cheap > dear)
        True

    Reference: docs/training.md.
    """

    def __init__(
        self,
        model: str = "lightgbm",
        *,
        bias: BiasSource = None,
        learning: str = "doubly-robust",
        metric: str = "dcg",
        validation: float = 0.2,
        judge: Literal["none", "folds", "split"] = "none",
        seed: int = 0,
    ) -> None:
        self.model = model
        self.bias = bias
        self.learning = learning
        self.metric = metric
        self.validation = validation
        self.judge = judge
        self.seed = seed

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        query: Any = None,
        position: Any = None,
        impression: Any = None,
        document: Any = None,
        policy: Any = None,
    ) -> Self:
        """Learn from clicks.

        Args:
            X: rows × features, an array or a frame.
            y: whether each row was clicked, or how often.
            query: the query of each row.
            position: the position of each row, from 1; None if rows are in the order in which they were
                shown.
            impression: the impression of each row; None if rows of one impression are adjacent and in the
                order of their positions.
            document: the document of each row; None to take rows of a query with equal features for one
                document.
            policy: the policy that ranked, of each row, or one name for all; None for ``production``.
        """
        rows = self._rows(X, reset=True)
        named = (query, position, impression, document, policy)
        with _written(rows, self._names(rows), self.categories_, y, *named) as log:
            fitted = log.fit(
                self.model,
                bias=self.bias,
                learning=self.learning,
                held_out=self.validation,
                judge=self.judge,
                seed=self.seed,
            )
        self.fit_: Fit = fitted
        self.model_: Model = fitted.model
        self.bias_: Bias = fitted.bias
        self.comparison_: Comparison | None = fitted.comparison
        return self

    def predict(self, X: Any) -> Float64:
        """Return one score per row; sort the rows of a query by it, highest first.

        Raises:
            ValueError: the columns are not those that `fit` was given, in their order.
        """
        check_is_fitted(self, "model_")
        return self.model_.scores(self._rows(X))

    def evaluate(
        self,
        X: Any,
        y: Any,
        *,
        query: Any = None,
        position: Any = None,
        impression: Any = None,
        document: Any = None,
        policy: Any = None,
    ) -> Comparison:
        """Compare the ranker with what ranked these rows, by their clicks; see `rankloop.evaluate`.

        Arguments are those of `fit`; the rows are others than those of `fit`, unless ``judge`` is ``folds``.
        It is compared with the policy of the last row.
        """
        check_is_fitted(self, "model_")
        named = (query, position, impression, document, policy)
        return self._compare(self.fit_, X, y, *named)

    def score(
        self,
        X: Any,
        y: Any,
        *,
        query: Any = None,
        position: Any = None,
        impression: Any = None,
        document: Any = None,
        policy: Any = None,
    ) -> float:
        """Return how much better the ranker is than what ranked these rows, per impression.

        It is the estimate of `evaluate` without its interval; on the rows of `fit` it is too high, as
        training scores are.
        """
        check_is_fitted(self, "model_")
        named = (query, position, impression, document, policy)
        return self._compare(self.model_, X, y, *named).difference.estimate.value

    def _compare(self, ranker: Fit | Model, X: Any, y: Any, *named: Any) -> Comparison:
        """The ranker and the policy of the last row."""
        rows = self._rows(X)
        with _written(rows, self._names(rows), self.categories_, y, *named) as log:
            policy = named[-1]
            against = PRODUCTION if policy is None else str(_ids("policy", policy, len(rows))[-1])
            return evaluate(log, ranker, against, bias=self.bias_, metric=self.metric)

    def _rows(self, X: Any, *, reset: bool = False) -> Float32:
        return feature_rows(self, X, reset=reset, missing=self._takes_missing())

    def _names(self, rows: Float32) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"x{number}" for number in range(rows.shape[1])] if names is None else list(map(str, names))

    def _takes_missing(self) -> bool:
        return isinstance(model_spec(self.model), LightGBMSpec)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._takes_missing()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags


@contextmanager
def _written(
    rows: Float32,
    names: list[str],
    categories: Categories,
    clicked: Any,
    query: Any,
    position: Any,
    impression: Any,
    document: Any,
    policy: Any,
) -> Iterator[Log]:
    """The log of these rows, for as long as the block lasts."""
    if clicked is None:
        raise DataError(
            "a ranker requires y to be passed, but the target y is None: say which rows were clicked"
        )
    if query is None:
        raise DataError("give the query of each row: query=…")
    clicks = column_or_1d(np.asarray(clicked), warn=True)
    if len(clicks) != len(rows):
        raise DataError(f"X has {len(rows)} rows and y has {len(clicks)}: every row needs a click or none")
    if not np.isfinite(clicks.astype(np.float64)).all() or (clicks.astype(np.float64) < 0).any():
        raise DataError("y holds values that are not numbers of clicks: use 0 and 1, or how often")
    queries = _ids("query", query, len(rows))
    impressions, positions = _impressions(queries, impression, position)
    policies = _ids("policy", PRODUCTION if policy is None else policy, len(rows))
    documents = _same_features(rows) if document is None else _ids("document", document, len(rows))
    _refuse_repeated(impressions, positions)
    with scratch_folder() as scratch:
        with LogWriter(scratch / "log") as writer:
            writer.write(
                IMPRESSIONS,
                {
                    "impression_id": pa.array(impressions.astype(np.str_).tolist()),
                    "timestamp": pa.nulls(len(rows), pa.timestamp("us", tz="UTC")),
                    "query_id": pa.array(queries.tolist()),
                    "policy_id": pa.array(policies.tolist()),
                    "position": pa.array(positions.astype(np.int32)),
                    "doc_id": pa.array(documents.tolist()),
                    "clicked": pa.array(clicks.astype(np.float64) > 0),
                },
            )
            last = _last_of_each(queries, documents)
            columns = feature_arrays(rows[last], tuple(names), categories)
            ids = {"query_id": queries[last].tolist(), "doc_id": documents[last].tolist()}
            writer.write(FEATURES, {**ids, **columns})
        yield open_log(scratch / "log")


def _ids(what: str, values: Any, rows: int) -> Str:
    """One id per row, as text."""
    if isinstance(values, str):
        return np.full(rows, values)
    ids = np.asarray(values)
    if ids.shape != (rows,):
        raise DataError(f"{what} needs a value for each of the {rows:,} rows, got shape {ids.shape}")
    return ids.astype(np.str_)


def _codes(ids: Str) -> Int64:
    codes: Int64 = np.unique(ids, return_inverse=True)[1].astype(np.int64)
    return codes


def _impressions(queries: Str, impression: Any, position: Any) -> tuple[Int64, Int64]:
    """The impression of each row, and its position, from 1; what is not given follows from the order."""
    rows = len(queries)
    begins = queries[1:] != queries[:-1]
    if position is not None:
        positions = _whole_numbers(position, rows)
        begins |= positions[1:] <= positions[:-1]
    runs = np.concatenate([[0], np.cumsum(begins)]).astype(np.int64)
    impressions = runs if impression is None else _codes(_ids("impression", impression, rows))
    if position is None:
        order = np.argsort(impressions, kind="stable")
        starts = np.flatnonzero(np.diff(impressions[order], prepend=-1))
        positions = np.empty(rows, np.int64)
        positions[order] = np.arange(rows) - np.repeat(starts, np.diff(np.append(starts, rows))) + 1
    return impressions, positions


def _whole_numbers(position: Any, rows: int) -> Int64:
    values = np.asarray(position)
    if values.shape != (rows,):
        raise DataError(f"position needs a value for each of the {rows:,} rows, got shape {values.shape}")
    numbers = values.astype(np.float64)
    if not ((numbers >= 1) & (numbers == np.round(numbers))).all():
        raise DataError("positions are whole numbers from 1: add 1 to positions that count from 0")
    return numbers.astype(np.int64)


def _same_features(rows: Float32) -> Str:
    """A document for each different row of features; missing values are equal to each other."""
    # -0.0 is 0.0, and every NaN has the same bits.
    plain = np.where(np.isnan(rows), np.float32(np.nan), rows + np.float32(0.0))
    whole = np.ascontiguousarray(plain).view(np.dtype((np.void, plain.itemsize * plain.shape[1]))).ravel()
    numbers: NDArray[np.int64] = np.unique(whole, return_inverse=True)[1]
    return numbers.astype(np.str_)


def _refuse_repeated(impressions: Int64, positions: Int64) -> None:
    pairs, counts = np.unique(np.stack([impressions, positions], axis=1), axis=0, return_counts=True)
    again = np.flatnonzero(counts > 1)
    if len(again):
        raise DataError(
            f"{len(again):,} positions are taken by several rows of one impression (the first is position "
            f"{pairs[again[0], 1]}): give the impression of each row, impression=…"
        )


def _last_of_each(queries: Str, documents: Str) -> Int64:
    """The last row of each document of a query, in the order of the rows."""
    pairs = np.stack([_codes(queries), _codes(documents)], axis=1)
    first = np.unique(pairs[::-1], axis=0, return_index=True)[1]
    return np.sort(len(pairs) - 1 - first)
