"""Features are matched by name: the columns of a table, in the order that a model takes them."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from rankloop.errors import DataError
from rankloop.types import Int64

Names = tuple[str, ...]


def match_features(
    given: Names, wanted: Names, *, where: object, who: str, spare: bool = False
) -> Int64 | None:
    """Where each wanted feature is among the given ones; None if both are the same, in the same order.

    Args:
        given: the features of a table.
        wanted: the features that a model takes, in its order.
        where: the table, for messages.
        who: the model, for messages.
        spare: other features may be given, too; they are not used.

    Raises:
        DataError: a feature is missing, or there is one that the model does not know.

    Example:
        >>> match_features(("price", "age"), ("age", "price"), where="docs.csv", who="the policy")
        array([1, 0])
        >>> match_features(("price", "agee"), ("age", "price"), where="docs.csv", who="the policy")
        Traceback (most recent call last):
            ...
        rankloop.errors.DataError: docs.csv: the features are not those of the policy: 1 missing: 'age' (is it
        'agee'?); 1 unknown: 'agee'; give the features that it was fitted to, under the same names, in any
        order
    """
    if given == wanted:
        return None
    missing = [name for name in wanted if name not in set(given)]
    unknown = [name for name in given if name not in set(wanted)]
    if missing or (unknown and not spare):
        reasons = [
            f"{len(names):,} {what}: {', '.join(names)}"
            for what, names in (
                ("missing", [_suggest(name, unknown) for name in missing]),
                ("unknown", [repr(name) for name in unknown]),
            )
            if names
        ]
        raise DataError(
            f"{where}: the features are not those of {who}: {'; '.join(reasons)}; give the features that it "
            f"was fitted to, under the same names, in any order"
        )
    places = {name: place for place, name in enumerate(given)}
    return np.array([places[name] for name in wanted], dtype=np.int64)


def refuse_repeated(names: Sequence[str], where: object) -> None:
    """Refuse features of which two have the same name."""
    repeated = sorted(name for name, times in Counter(names).items() if times > 1)
    if repeated:
        raise DataError(
            f"{where}: more than one feature is named {', '.join(map(repr, repeated))}: features are matched "
            f"by name, so every one needs a name of its own"
        )


def _suggest(name: str, others: list[str]) -> str:
    close = difflib.get_close_matches(name, others, n=1)
    return f"{name!r} (is it {close[0]!r}?)" if close else repr(name)
