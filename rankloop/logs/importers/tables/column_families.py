"""Columns that together are a list: ``doc_1`` to ``doc_10``, ``click_1`` to ``click_10``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rankloop.logs.importers.tables.paths import RANGE
from rankloop.logs.importers.tables.words import normalised

_NUMBERED = re.compile(r"(.*\D)(\d+)$")
# Two columns with numbers are hardly a list of results.
LEAST = 3


def find_family(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """The range of columns whose common name is one of these; None if there is none.

    >>> find_family(["query", "doc_1", "doc_2", "doc_3"], ["doc", "item"])
    'doc_1..doc_3'
    """
    numbers: dict[str, list[int]] = {}
    for column in columns:
        if match := _NUMBERED.match(column):
            numbers.setdefault(match[1], []).append(int(match[2]))
    for stem, found in numbers.items():
        together = sorted(found) == list(range(min(found), max(found) + 1))
        if len(found) >= LEAST and together and normalised(stem) in names:
            return f"{stem}{min(found)}{RANGE}{stem}{max(found)}"
    return None
