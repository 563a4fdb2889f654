"""Guess how clicks in events or in a table of their own say what they are on.

A click names its document; or the row that was clicked, if every row has an id; or the position. To which
impression it belongs, it says by the same columns as the rows; or only by some of them, such as session and
query: it then belongs to the last impression before it that shows its document.
"""

from __future__ import annotations

import re
from typing import Any

from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.lists import are_lists
from rankloop.logs.importers.tables.paths import OR, ColumnPath
from rankloop.logs.importers.tables.sample import Sample
from rankloop.logs.importers.tables.value_kinds import HALF, MOST, are_positions

# Share of clicks on documents among the first rows from which on clicks and displays are rows of their own.
FEW = 0.05
# The number of clicks that it takes to say that they are not.
ENOUGH = 5
# What a click calls the row that it is on.
_ROW = re.compile(
    r"(^|_)(impression|imp|row|result|display|shown|view|record|log|item)_?(row_?)?(id|uuid|key)$"
)


def guess_document(sample: Sample, clicks: Sample, shown: str) -> str | None:
    """The column of clicks with their documents, by its name or its values; None if there is none."""
    order = {name: number for number, name in reversed(list(enumerate(words.DOCUMENT)))}
    documents = {str(one) for row in sample.lists(shown) for one in row}
    unlike = re.compile("categor")
    named, valued = [], []
    for number, column in enumerate(clicks.columns):
        present = clicks.present(column)
        if len(present) < HALF * len(clicks) or are_lists(present):
            continue
        spelled = words.spellings(column)
        rank = min((order[name] for name in spelled if name in order), default=len(order))
        like = any(words.LIKE_DOCUMENT.search(name) and not unlike.search(name) for name in spelled)
        found = sum(str(value) in documents for value in present)
        if rank < len(order) or like:
            # Ids of other things, such as of the click, are not among the documents.
            named.append((found == 0, rank, column.count("."), number, column))
        elif found >= MOST * len(present) and not are_positions(present):
            valued.append(column)
    if named and not min(named)[0]:
        return min(named)[-1]
    if len(valued) == 1:
        return valued[0]
    return min(named)[-1] if named else None


def guess_row_id(sample: Sample, clicks: Sample) -> str | None:
    """The column with ids of rows that clicks name, as ``id|row_id`` if they call it otherwise."""
    unique = {}
    for column in sample.columns:
        values = sample.present(column)
        if len(values) == len(sample) > 1 and not any(isinstance(value, list | dict) for value in values):
            ids = set(map(str, values))
            if len(ids) == len(values):
                unique[column] = ids
    found = []
    for column, ids in unique.items():
        same = [name for name in clicks.columns if name == column]
        others = [name for name in clicks.columns if _ROW.search(words.normalised(name))]
        found += [
            column if name == column else f"{column}{OR}{name}"
            for name in (same if same and words.normalised(column) != "id" else others)
            if not ids.isdisjoint(map(str, clicks.present(name)))
        ]
    return found[0] if len(found) == 1 else None


def guess_position(clicks: Sample, shown: str) -> str | None:
    """The column of clicks with their positions; None if there is none, or if it is called as for rows."""
    if clicks.present(shown):
        return None
    named = [
        column
        for column in clicks.columns
        if {*words.spellings(column)} & {*words.POSITION}
        or words.LIKE_POSITION.search(words.normalised(column))
    ]
    found = [name for name in named if clicks.present(name) and are_positions(clicks.present(name))]
    return found[0] if found else None


def shared_columns(names: Columns, clicks: Sample | None) -> tuple[str, ...]:
    """The columns by which clicks say to which impression they belong, if these are not all of them.

    A click comes later than what was shown, so that the time does not tell to what it belongs.

    >>> names = Columns(impression_id=("session", "query", "time"), timestamp="time")
    >>> shared_columns(names, Sample([{"session": "s1", "query": "cat", "time": 7}]))
    ('session', 'query')
    """
    columns = names.impression_columns
    if clicks is None or not len(clicks) or len(columns) < 2:
        return ()
    times = () if names.timestamp is None else ColumnPath(names.timestamp).alternatives
    shared = tuple(name for name in columns if clicks.present(name) and name not in (names.timestamp, *times))
    return () if len(shared) == len(columns) else shared


def are_rows_of_their_own(sample: Sample, clicks: Sample, names: Columns) -> bool:
    """Whether clicks are on documents that other rows show; otherwise their rows show them."""
    position, keys = names.position, names.impression_columns
    if position is None or not keys or len(clicks) < ENOUGH:
        return True
    rows = (*keys, names.doc_id)

    def pairs(some: Sample) -> list[tuple[Any, ...]]:
        return list(zip(*(map(str, some.values(name)) for name in rows), strict=True))

    values = [clicks.present(name) for name in (*rows, position)]
    if not all(len(some) == len(clicks) for some in values) or any(
        isinstance(some[0], list) for some in values
    ):
        return True
    known = {key[:-1] for key in pairs(sample)}
    clicked = [pair for pair in pairs(clicks) if pair[:-1] in known]
    shown = set(pairs(sample))
    return len(clicked) < ENOUGH or sum(pair in shown for pair in clicked) > FEW * len(clicked)
