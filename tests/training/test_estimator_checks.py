"""The ranker passes scikit-learn's own checks of estimators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankloop import Ranker, Settings

ROWS_PER_QUERY = 5
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


def _queries(y: Any) -> Any:
    return None if y is None else np.arange(len(y)) // ROWS_PER_QUERY


def exceptions(_: Any) -> dict[str, str]:
    return EXCEPTIONS


@pytest.mark.filterwarnings("ignore")  # the checks call their own functions in deprecated ways
@parametrize_with_checks(
    [RankerOfRows(model, settings=Settings(epochs=1)) for model in ("linear", "lightgbm(rounds=3)")],
    expected_failed_checks=exceptions,
)
def test_checks_of_scikit_learn(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)
