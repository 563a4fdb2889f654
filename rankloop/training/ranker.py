"""A ranker with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from rankloop.data import split_queries
from rankloop.errors import DataError
from rankloop.evaluation import ranking_metrics
from rankloop.frames import is_frame, listed, number_categories, text_categories
from rankloop.models.feature_names import with_names
from rankloop.models.specs import LightGBMSpec, model_spec
from rankloop.training import Settings, Training, train
from rankloop.types import Dataset, Float32, Float64, Model, Split


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
        feature_names_in_: the names of the columns, if a frame was given; every later frame needs the same.
        categories_: by the name of each column of text, its values; others count as missing.

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

        Columns of text in a frame are categories, which trees take (``lightgbm``).

        Args:
            X: documents × features, an array or a frame; the rows of a query are adjacent.
            y: labels, not negative; higher is better.
            qid: the query of each row.
            group: instead of ``qid``, the number of rows of each query, in order.
            eval_set: (X, y) to stop early on, instead of a share of the queries.
            eval_qid: the query of each row of ``eval_set``.
            eval_group: instead of ``eval_qid``, the number of rows of each query of ``eval_set``.
        """
        given = self._split(X, y, qid, group, reset=True)
        if eval_set is None:
            if eval_qid is not None or eval_group is not None:
                raise DataError("eval_qid and eval_group need the rows of eval_set, which were not given")
            shares = (1.0 - self.validation, self.validation)
            given, held_out = split_queries(given, shares, np.random.default_rng(self.seed))
        else:
            held_out = self._split(*eval_set, eval_qid, eval_group)
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
        names = getattr(self, "feature_names_in_", None)
        given_names = None if names is None else tuple(map(str, names))
        self.model_: Model = with_names(self.training_.model, given_names, self.categories_)
        return self

    def predict(self, X: Any) -> Float64:
        """Return one score per row; sort the rows of a query by it, highest first.

        Raises:
            ValueError: the columns are not those that `fit` was given, in their order.
        """
        check_is_fitted(self, "model_")
        return self.model_.scores(self._rows(X))

    def score(self, X: Any, y: Any, *, qid: Any = None, group: Any = None) -> float:
        """Return the mean of the metric over the queries, ranked by `predict`."""
        check_is_fitted(self, "model_")
        split = self._split(X, y, qid, group)
        (value,) = ranking_metrics(self.model_.scores(split.features), split, [self.metric]).values()
        return value

    def _split(self, X: Any, y: Any, qid: Any, group: Any, *, reset: bool = False) -> Split:
        rows = self._rows(X, reset=reset)
        return as_split(
            rows,
            y,
            qid=qid,
            group=group,
            missing=self._takes_missing(),
            categorical=categorical_columns(self),
        )

    def _takes_missing(self) -> bool:
        return isinstance(model_spec(self.model), LightGBMSpec)

    def _rows(self, X: Any, *, reset: bool = False) -> Float32:
        return feature_rows(self, X, reset=reset, missing=self._takes_missing())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._takes_missing()
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags


def feature_rows(estimator: BaseEstimator, X: Any, *, reset: bool = False, missing: bool = False) -> Float32:
    """The features as a matrix; their number and names are remembered, or compared with what was.

    So are the categories of a frame, its columns of text, in ``categories_``.

    Args:
        estimator: what remembers them.
        X: documents × features, an array or a frame.
        reset: whether to remember them, and not to compare.
        missing: whether values may be missing.

    Raises:
        ValueError: the columns are not those that were remembered, in their order.
    """
    finite = "allow-nan" if missing else True
    frame = is_frame(X)
    if reset:
        estimator.categories_ = text_categories(X) if frame else {}
        if estimator.categories_ and not missing:
            raise DataError(
                f"X has columns of text, {listed([*estimator.categories_])}: trees take categories "
                f"(model='lightgbm'), and other models do not: give numbers instead, or leave them out"
            )
    categories = getattr(estimator, "categories_", {})
    if frame and (categories or text_categories(X)):
        X = number_categories(X, categories)
    rows = validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=np.float32, ensure_all_finite=finite
    )
    dense: Float32 = rows.toarray() if hasattr(rows, "toarray") else rows
    return np.ascontiguousarray(dense)


def categorical_columns(estimator: BaseEstimator) -> tuple[int, ...]:
    """The columns of an estimator's rows that are categories."""
    names = getattr(estimator, "feature_names_in_", ())
    return tuple(place for place, name in enumerate(names) if name in estimator.categories_)


def as_split(
    X: Any,
    y: Any,
    *,
    qid: Any = None,
    group: Any = None,
    missing: bool = False,
    categorical: tuple[int, ...] = (),
) -> Split:
    """Build a split from the query of each row, or from the number of rows of each query."""
    if y is None:
        raise DataError("a ranker requires y to be passed, but the target y is None: give a label per row")
    if (qid is None) == (group is None):
        raise DataError("give the query of each row: either qid (one per row) or group (rows per query)")
    if len(X) != len(y):
        raise DataError(f"X has {len(X)} rows and y has {len(y)}: every row needs a label")
    if group is not None:
        sizes = np.asarray(group, dtype=np.int64)
        if sizes.ndim != 1 or sizes.sum() != len(y):
            raise DataError(f"group must add up to the {len(y)} rows, got {sizes.sum()}")
        return Split.build(X, y, sizes, missing=missing, categorical=categorical)
    ids = np.asarray(qid)
    if ids.shape != (len(y),):
        raise DataError(f"qid must name the query of each of the {len(y)} rows, got shape {ids.shape}")
    starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
    if len(np.unique(ids)) < len(starts):
        names, counts = np.unique(ids[starts], return_counts=True)
        repeated = names[counts > 1][0].item()
        raise DataError(f"the rows of query {repeated!r} are not adjacent: sort the rows by query")
    sizes = np.diff(np.append(starts, len(ids)))
    return Split.build(X, y, sizes, query_ids=ids[starts], missing=missing, categorical=categorical)
