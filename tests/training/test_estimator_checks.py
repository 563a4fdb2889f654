"""The rankers pass scikit-learn's own checks of estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankloop import Bias, ClickRanker, Ranker, Settings

ROWS_PER_QUERY = 5
SHOWN = 2
BIAS = Bias([0.9, 0.5], [0.1, 0.1], [1.0, 1.0])
EXCEPTIONS = {
    "check_fit2d_1sample": "one query cannot be divided into one to train on and one to stop by",
    "check_array_api_input": "it needs the environment variable SCIPY_ARRAY_API",
}


class RankerOfRows(Ranker):
    """The checks know nothing of queries: each five rows are one."""

    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        return super().fit(X, y, qid=_queries(y))

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]
        return super().score(X, y, qid=_queries(y))


class ClickRankerOfRows(ClickRanker):
    """The same for clicks: two rows are an impression of a query of its own; large values are clicks."""

    def fit(self, X: Any, y: Any) -> Self:  # type: ignore[override]
        return super().fit(X, _clicks(y), query=_queries(y, SHOWN))

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]
        return super().score(X, _clicks(y), query=_queries(y, SHOWN))


def _clicks(y: Any) -> Any:
    if y is None:
        return None
    values = np.asarray(y)
    numbers = values.astype(np.float64) if values.dtype.kind == "O" else values
    return numbers > numbers.mean() if np.isfinite(numbers).all() else y


def _queries(y: Any, rows: int = ROWS_PER_QUERY) -> Any:
    return None if y is None else np.arange(len(y)) // rows


def exceptions(_: Any) -> dict[str, str]:
    return EXCEPTIONS


@pytest.mark.filterwarnings("ignore")  # the checks call their own functions in deprecated ways
@parametrize_with_checks(
    [
        *(RankerOfRows(model, settings=Settings(epochs=1)) for model in ("linear", "lightgbm(rounds=3)")),
        ClickRankerOfRows("lightgbm(rounds=3, objective=lambdarank)", bias=BIAS, learning="robust"),
    ],
    expected_failed_checks=exceptions,
)
def test_checks_of_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
