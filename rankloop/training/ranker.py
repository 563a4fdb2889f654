"""A ranker with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankloop.data import split_queries
from rankloop.errors import DataError
from rankloop.evaluation import ranking_metrics
from rankloop.training import Settings, Training, train
from rankloop.types import Dataset, Float64, Model, Split


class Ranker(BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """Learn to rank from labelled documents: ``fit(X, y, qid=…)`` or ``fit(X, y, group=…)``, ``predict``.

    Args:
        model: ``mlp``, ``linear`` or ``lightgbm``, with options as in ``mlp(hidden=64-32)``.
        metric: the metric to maximise, which `score` reports.
        objective: what networks are trained on instead, such as ``pairwise-logistic``; None for the metric.
        settings: the settings of networks (`rankloop.Settings`); None for the defaults.
        validation: the share of queries held out for early stopping, unless `fit` is given an ``eval_set``.
        seed: the random seed.

    Attributes:
        model_: the trained model.
        training_: the model, and the history of its training.

    Example:
        >>> from rankloop.data import synthetic
        >>> data = synthetic(queries=60, features=10).train
        >>> query_of_each_row = np.repeat(data.query_ids, data.sizes)
        >>> ranker = Ranker("linear", settings=Settings(epochs=2))
        >>> scores = ranker.fit(data.features, data.labels, qid=query_of_each_row).predict(data.features)
        >>> scores.shape == data.labels.shape
        True
    """

    def __init__(
        self,
        model: str = "mlp",
        *,
        metric: str = "ndcg@5",
        objective: str | None = None,
        settings: Settings | None = None,
        validation: float = 0.2,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.metric = metric
        self.objective = objective
        self.settings = settings
        self.validation = validation
        self.seed = seed

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        eval_qid: Any = None,
        eval_group: Any = None,
    ) -> Self:
        """Train on features, labels, and the query that each row belongs to.

        Args:
            X: documents × features; the rows of a query are adjacent.
            y: labels, not negative; higher is better.
            qid: the query of each row.
            group: instead of ``qid``, the number of rows of each query, in order.
            eval_set: (X, y) to stop early on, instead of a share of the queries.
            eval_qid: the query of each row of ``eval_set``.
            eval_group: instead of ``eval_qid``, the number of rows of each query of ``eval_set``.
        """
        given = as_split(X, y, qid=qid, group=group)
        if eval_set is None:
            if eval_qid is not None or eval_group is not None:
                raise DataError("eval_qid and eval_group need the rows of eval_set, which were not given")
            shares = (1.0 - self.validation, self.validation)
            given, held_out = split_queries(given, shares, np.random.default_rng(self.seed))
        else:
            held_out = as_split(*eval_set, qid=eval_qid, group=eval_group)
        # Training never reads the test split.
        dataset = Dataset("fit", given, held_out, test=held_out)
        self.training_: Training = train(
            dataset,
            self.model,
            metric=self.metric,
            objective=self.objective,
            settings=self.settings,
            seed=self.seed,
        )
        self.model_: Model = self.training_.model
        self.n_features_in_ = given.n_features
        return self

    def predict(self, X: Any) -> Float64:
        """Return one score per row; sort the rows of a query by it, highest first."""
        check_is_fitted(self, "model_")
        return self.model_.scores(np.ascontiguousarray(_dense(X), dtype=np.float32))

    def score(self, X: Any, y: Any, *, qid: Any = None, group: Any = None) -> float:
        """Return the mean of the metric over the queries, ranked by `predict`."""
        split = as_split(X, y, qid=qid, group=group)
        (value,) = ranking_metrics(self.predict(split.features), split, [self.metric]).values()
        return value


def as_split(X: Any, y: Any, *, qid: Any = None, group: Any = None) -> Split:
    """Build a split from the query of each row, or from the number of rows of each query."""
    if (qid is None) == (group is None):
        raise DataError("give the query of each row: either qid (one per row) or group (rows per query)")
    features = _dense(X)
    if len(features) != len(y):
        raise DataError(f"X has {len(features)} rows and y has {len(y)}: every row needs a label")
    if group is not None:
        sizes = np.asarray(group, dtype=np.int64)
        if sizes.ndim != 1 or sizes.sum() != len(y):
            raise DataError(f"group must add up to the {len(y)} rows, got {sizes.sum()}")
        return Split.build(features, y, sizes)
    ids = np.asarray(qid)
    if ids.shape != (len(y),):
        raise DataError(f"qid must name the query of each of the {len(y)} rows, got shape {ids.shape}")
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    if len(np.unique(ids)) < len(starts):
        names, counts = np.unique(ids[starts], return_counts=True)
        repeated = names[counts > 1][0].item()
        raise DataError(f"the rows of query {repeated!r} are not adjacent: sort the rows by query")
    return Split.build(features, y, np.diff(np.append(starts, len(ids))), query_ids=ids[starts])


def _dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else X
