"""Rules of a request: which candidates may be shown, and which documents have a fixed position.

Rules are applied before the draw. What remains is drawn from the policy, into the positions that remain, so
that propensities stay exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import RankloopError
from rankloop.types import Float32


class RequestError(RankloopError):
    """A request that cannot be answered as it is; the message says why."""


@dataclass(frozen=True)
class FeatureFilter:
    """Keeps candidates whose feature lies within limits; those without a value are left out.

    Attributes:
        feature: the name of the feature.
        at_least: the lower limit, if there is one.
        at_most: the upper limit, if there is one.
    """

    feature: str
    at_least: float | None = None
    at_most: float | None = None


def allowed(
    documents: Sequence[str],
    columns: Mapping[str, int],
    features: Float32,
    *,
    exclude: Iterable[str],
    filters: Iterable[FeatureFilter],
    pinned: Iterable[str],
) -> NDArray[np.bool_]:
    """Which candidates the policy may draw: those that pass the filters and are not pinned.

    Args:
        documents: ids of the candidates.
        columns: the columns of the features, by name.
        features: candidates × features.
        exclude: ids of candidates that must not be shown.
        filters: limits of features.
        pinned: ids of documents with a fixed position.
    """
    without = {*exclude, *pinned}
    kept = np.array([document not in without for document in documents], np.bool_)
    for each in filters:
        if each.feature not in columns:
            raise RequestError(
                f"filters: there is no feature {each.feature!r}; "
                f"the features are: {', '.join(columns) or 'none'}"
            )
        # Limits may be larger than any float32.
        values = features[:, columns[each.feature]].astype(np.float64)
        low = -np.inf if each.at_least is None else each.at_least
        high = np.inf if each.at_most is None else each.at_most
        kept &= (values >= low) & (values <= high)
    return kept


def place(drawn: Sequence[str], pins: Mapping[int, str], length: int) -> dict[int, str]:
    """What is shown at each position: pinned documents at theirs, drawn ones at the others, in order.

    Args:
        drawn: documents in the order in which they were drawn.
        pins: documents by position, from 1.
        length: the number of positions.

    Example:
        >>> place(["a", "b", "c"], {2: "x"}, 3)
        {1: 'a', 2: 'x', 3: 'b'}
        >>> place(["a"], {3: "x"}, 5)  # nothing is left for the positions in between
        {1: 'a', 3: 'x'}
    """
    shown: dict[int, str] = {}
    others = iter(drawn)
    for position in range(1, length + 1):
        document = pins.get(position) or next(others, None)
        if document is not None:
            shown[position] = document
    return shown
