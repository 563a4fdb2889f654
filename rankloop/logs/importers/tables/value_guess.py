"""Columns that are recognised by the values of others: lists, what was clicked in them, and clicks elsewhere.

Names come first. Where they say nothing, values do: a list of 0 and 1 that is as long as the list beside it
says what was clicked, and ids that are elements of a list were clicked in it. A click in an event, or in a
table of clicks, names its document; or the row that was clicked, if every row has an id; or the position. To
which impression it belongs, it says by the same columns as the rows; or only by some of them, such as session
and query: it then belongs to the last impression before it that shows its document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.lists import OR, STEP, ColumnPath, are_labelled, are_lists, as_flags
from rankloop.logs.importers.tables.profile import HALF, MOST, Sample, are_positions
from rankloop.logs.importers.tables.words import find_family

# Lists from which on it is no accident that a column always names the same element of them.
ENOUGH = 20


def guess_documents(sample: Sample, clicks: Sample | None, taken: Iterable[str]) -> str | None:
    """The column of lists of documents, if its name does not tell; None if there is no such column.

    Args:
        sample: the first rows that show documents.
        clicks: the first rows of the table of clicks, if there is one.
        taken: the columns that are known to be something else.

    Example:
        >>> rows = [{"q": "cat", "wares": [7, 8, 9], "hits": [0, 1, 0]}] * 3
        >>> guess_documents(Sample(rows), None, ())
        'wares'
    """
    known = set(taken)
    lists = {name: sample.lists(name) for name in sample.columns if name not in known}
    lists = {name: found for name, found in lists.items() if _are_ids(found)}
    if clicks is None:
        clicked = [name for name in sample.columns if name not in known and speaks_of_clicks(name)]
        shown = [
            name
            for name, found in lists.items()
            if name not in clicked
            and (flags_beside(sample, found, known) or any(_are_in(sample, one, found) for one in clicked))
        ]
    else:
        ids = [{str(value) for value in clicks.present(name)} for name in clicks.columns]
        shown = [
            name
            for name, found in lists.items()
            if any(values and values <= {str(one) for row in found for one in row} for values in ids)
        ]
    return shown[0] if len(shown) == 1 else None


def guess_siblings(sample: Sample, positions: str, taken: Iterable[str]) -> str | None:
    """The documents of lists whose positions are known: fields of the same objects, or lists as long."""
    parent, known = positions.rpartition(STEP)[0], {*taken, positions}
    lengths = [len(one) for one in sample.lists(positions)]
    order = {name: number for number, name in reversed(list(enumerate(words.DOCUMENT)))}
    found = []
    for number, column in enumerate(sample.columns):
        if column in known or speaks_of_clicks(column):
            continue
        lists = sample.lists(column)
        if [len(one) for one in lists] != lengths or not _are_distinct(lists):
            continue
        rank = min((order[name] for name in words.spellings(column) if name in order), default=len(order))
        is_id = words.LIKE_ID.search(words.normalised(column)) is not None
        found.append((column.rpartition(STEP)[0] != parent, rank, not is_id, number, column))
    return min(found)[-1] if found else None


def guess_clicked(sample: Sample, documents: str, taken: Iterable[str]) -> str | None:
    """The column that says which documents of a list were clicked."""
    known = {*taken, documents}
    name = find_family(sample.columns, words.CLICKED)
    if name is None and are_labelled(sample.present(documents)):
        name = documents
    if name is not None:
        return name
    shown = sample.lists(documents)
    columns = [column for column in sample.columns if column not in known]
    named = [column for column in columns if speaks_of_clicks(column)]
    others = [column for column in columns if column not in named]
    flags = [column for column in named if _are_flags(sample.lists(column), shown)]
    inside = [column for column in named if _are_in(sample, column, shown)]
    inside += [column for column in others if _are_in(sample, column, shown, anywhere=True)]
    by_position = [column for column in named if words.LIKE_POSITION.search(words.normalised(column))]
    found = [*flags, *inside, *by_position, *named]
    if found:
        return found[0]
    marks = flags_beside(sample, shown, known)
    return marks[0] if len(marks) == 1 else None


def speaks_of_clicks(column: str) -> bool:
    """Whether a name, or that of an object that it is a field of, is one such as clicked_urls.

    >>> speaks_of_clicks("clickedUrls"), speaks_of_clicks("clicks.rank"), speaks_of_clicks("results.rank")
    (True, True, False)
    """
    steps = column.split(STEP)
    return any(part.startswith("click") for step in steps for part in words.normalised(step).split("_"))


def flags_beside(sample: Sample, shown: Sequence[list[Any]], known: set[str]) -> list[str]:
    """Columns with one 0 or 1 for each element of lists."""
    columns = (column for column in sample.columns if column not in known)
    return [column for column in columns if _are_flags(sample.lists(column), shown)]


def _are_flags(marks: Sequence[list[Any]], shown: Sequence[list[Any]]) -> bool:
    """Whether lists are as long as others and have nothing but 0 and 1, some of both."""
    found: set[bool] = set()
    several = False
    for row, documents in zip(marks, shown, strict=True):
        flags = as_flags(row)
        if len(row) != len(documents) or (row and flags is None):
            return False
        found.update(flags or ())
        several |= len(row) > 1
    return several and found == {True, False}


def _are_ids(lists: Sequence[list[Any]]) -> bool:
    """Whether most rows have a list of several elements that can be ids, each of them once."""
    there = [one for one in lists if one]
    return (
        bool(there)
        and sum(len(one) > 1 for one in there) >= MOST * len(lists)
        and all(isinstance(element, str | int) for one in there for element in one)
        and _are_distinct(lists)
    )


def _are_distinct(lists: Sequence[list[Any]]) -> bool:
    there = [one for one in lists if one]
    return sum(len(set(map(str, one))) == len(one) for one in there) >= MOST * len(there) > 0


def _are_in(sample: Sample, column: str, shown: Sequence[list[Any]], *, anywhere: bool = False) -> bool:
    """Whether the values of a column are elements of the lists: the documents that were clicked.

    Args:
        sample: the first rows.
        column: the column.
        shown: the lists.
        anywhere: whether it must not always be the same element, such as the first: that is no click.
    """
    right = there = 0
    places: set[int] = set()
    for value, row in zip(sample.lists(column), shown, strict=True):
        given, listed = [str(one) for one in value if one is not None], [str(one) for one in row]
        there += bool(given and listed)
        if given and listed and set(given) <= set(listed):
            right += 1
            places.update(map(listed.index, given))
    moves = not anywhere or len(places) > 1 or there < ENOUGH
    return there > 0 and right >= MOST * there and moves


# Share of clicks on documents among the first rows from which on clicks and displays are rows of their own.
FEW = 0.05
# The number of clicks that it takes to say that they are not.
ENOUGH_CLICKS = 5
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
    if position is None or not keys or len(clicks) < ENOUGH_CLICKS:
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
    return len(clicked) < ENOUGH_CLICKS or sum(pair in shown for pair in clicked) > FEW * len(clicked)
