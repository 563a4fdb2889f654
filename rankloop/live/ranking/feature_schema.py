"""The features of a service: their names, and the values of candidates in one matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from rankloop.errors import RankloopError
from rankloop.live.ranking.rules import RequestError
from rankloop.logs.schema import QUERY_DOCUMENT
from rankloop.types import Float32

Values = Mapping[str, float | None] | Sequence[float | None] | None


def check_feature_names(names: Iterable[str]) -> None:
    """Refuse names that columns of the log cannot have.

    Raises:
        RankloopError: a name is that of another column, is empty, or differs from another one by case alone.

    Example:
        >>> check_feature_names(["age", "doc_id"])
        Traceback (most recent call last):
            ...
        rankloop.errors.RankloopError: a feature cannot be called 'doc_id': the log has a column of that name,
        for ids; rename the feature
    """
    known: dict[str, str] = {}
    for name in names:
        if name.lower() in QUERY_DOCUMENT:
            raise RankloopError(
                f"a feature cannot be called {name!r}: the log has a column of that name, for ids; rename "
                f"the feature"
            )
        if not name or not name.isprintable():
            raise RankloopError(f"names of features are printable and not empty, unlike {name!r}: rename it")
        other = known.setdefault(name.lower(), name)
        if other != name:
            raise RankloopError(
                f"the features {other!r} and {name!r} would be the same column for programs that read the "
                f"log: rename one of them"
            )


class FeatureSchema:
    """Turns the features of candidates into a matrix, in one order for the whole service.

    Args:
        names: names of the features.
        table: values by document id, for documents whose features were loaded before.

    Example:
        >>> schema = FeatureSchema(("age", "price"))
        >>> schema.matrix(["a", "b"], [{"price": 2, "age": 1}, [3, None]])
        array([[ 1.,  2.],
               [ 3., nan]], dtype=float32)
    """

    def __init__(self, names: Iterable[str], table: Mapping[str, Float32] | None = None) -> None:
        self.names = tuple(names)
        self.columns = {name: column for column, name in enumerate(self.names)}
        self._table = table or {}
        self._width = len(self.names)
        self._pick = itemgetter(*self.names) if self._width > 1 else None
        self._missing = np.full(self._width, np.nan, np.float32)

    def matrix(self, documents: Sequence[str], values: Sequence[Values]) -> Float32:
        """The features of candidates: float32, candidates × features; NaN where a value is missing.

        Raises:
            RequestError: a feature is unknown, or a value is too large.
        """
        rows = [self._row(document, given) for document, given in zip(documents, values, strict=True)]
        with np.errstate(over="ignore"):
            matrix: Float32 = np.array(rows, np.float32).reshape(len(rows), self._width)
        if np.isinf(matrix).any():
            row, column = map(int, np.argwhere(np.isinf(matrix))[0])
            raise RequestError(
                f"candidate {documents[row]!r}: the feature {self.names[column]!r} is too large: values are "
                f"at most {np.finfo(np.float32).max:.2g}"
            )
        return matrix

    def _row(self, document: str, given: Values) -> Any:
        if isinstance(given, dict):
            if self._pick is not None and len(given) == self._width:
                try:
                    return self._pick(given)
                except KeyError:
                    pass
            return self._merged(document, given)
        if given is None:
            return self._table.get(document, self._missing)
        if len(given) != self._width:
            raise RequestError(
                f"candidate {document!r}: {len(given)} features, but there are {self._width}; "
                f"`GET /policies` lists their order, or give them by name"
            )
        return given

    def _merged(self, document: str, given: Mapping[str, float | None]) -> Any:
        row = np.array(self._table.get(document, self._missing), np.float64)
        for name, value in given.items():
            if name not in self.columns:
                raise RequestError(
                    f"candidate {document!r}: there is no feature {name!r}; the features are: "
                    f"{', '.join(self.names) or 'none (name them when the service starts)'}"
                )
            row[self.columns[name]] = np.nan if value is None else value
        return row
