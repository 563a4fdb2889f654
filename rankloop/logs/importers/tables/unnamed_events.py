"""Guess what the columns of events mean if they have no names, from what searches and clicks share.

A click names a document that a search of the same session shows: where it does, the documents of the search
and of the click are known. Columns that agree for both tell to which search a click belongs.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from rankloop.logs.importers.tables.lists import before_comma
from rankloop.logs.importers.tables.paths import OR, RANGE
from rankloop.logs.importers.tables.sample import Sample
from rankloop.logs.importers.tables.value_kinds import MOST

# Share of the clicked documents from which on it is no accident that a column has them.
FEW = 0.05
# The number of columns that often have them: an id that searches and clicks share has a column of its own.
LEAST = 3
# Share of documents that two searches for the same thing have in common at least.
ALIKE = 0.25
Row = dict[str, Any]


class UnnamedEvents(NamedTuple):
    """The columns: the documents, the id of a search, and the query if there is one."""

    documents: str
    impression: tuple[str, ...]
    query: str | None


def guess_unnamed(shown: Sample, clicks: Sample, event: str) -> UnnamedEvents | None:
    """Guess the columns of events without names; None if clicks do not name what searches show.

    Args:
        shown: the first searches.
        clicks: the first clicks.
        event: the column with the kind of event.

    Example:
        >>> def row(*values):
        ...     return {f"c{number}": value for number, value in enumerate(values, 1)}
        >>> shown = Sample([row("s1", "Q", "cat", "a", "b", "d"), row("s2", "Q", "cat", "b", "a", "d")])
        >>> clicks = Sample([row("s1", "C", "a"), row("s2", "C", "a"), row("s2", "C", "d")])
        >>> guess_unnamed(shown, clicks, "c2")
        UnnamedEvents(documents='c4..c6|c3', impression=('c1',), query='c3')
    """
    columns = [name for name in shown.columns if shown.present(name)]
    if not columns or not len(clicks):
        return None
    session = columns[0]
    searches = defaultdict(list)
    for row in shown.rows:
        searches[row[session]].append(row)
    others = [name for name in clicks.columns if name not in (session, event) and clicks.present(name)]
    found = {
        clicked: [
            (click, row, name)
            for click in clicks.rows
            for row in searches[click[session]]
            for name in columns
            if name not in (session, event) and before_comma(row[name]) == click[clicked] != ""
        ]
        for clicked in others
    }
    clicked = max(others, key=lambda name: len(_often(found[name])), default="")
    pairs = found.get(clicked, [])
    often = _often(pairs)
    if len(often) < LEAST:
        return None
    documents = columns[_first(often, columns) :]
    if len({id(click) for click, _, name in pairs if name in documents}) < MOST * len(clicks):
        return None
    before = [name for name in columns if name not in (*documents, event)]
    same = [name for name in before if _agrees(name, pairs, documents)]
    rest = [name for name in before if name not in same]
    query = max(rest, key=lambda name: _shared(shown.rows, name, documents), default=None)
    if query is not None and _shared(shown.rows, query, documents) < ALIKE:
        query = None
    return UnnamedEvents(f"{documents[0]}{RANGE}{documents[-1]}{OR}{clicked}", tuple(same), query)


def _often(pairs: Sequence[tuple[Row, Row, str]]) -> list[str]:
    """The columns that often have what clicks name, the most frequent first."""
    counts = Counter(name for *_, name in pairs)
    return [name for name, count in counts.most_common() if count > FEW * counts.total()]


def _first(often: Sequence[str], columns: Sequence[str]) -> int:
    """The first of the neighbours of the most frequent column."""
    first = columns.index(often[0])
    while first and columns[first - 1] in often:
        first -= 1
    return first


def _agrees(name: str, pairs: Sequence[tuple[Row, Row, str]], documents: Sequence[str]) -> bool:
    """Whether a click has the value of the search that shows its document."""
    agree: dict[int, bool] = {}
    for click, row, place in pairs:
        if place in documents:
            agree[id(click)] = agree.get(id(click), False) or click[name] == row[name]
    return sum(agree.values()) >= MOST * len(agree)


def _shared(rows: Sequence[Row], name: str, documents: Sequence[str]) -> float:
    """The mean share of documents that two searches with one value have in common; 0 if none comes again."""
    last: dict[str, set[str]] = {}
    shares = []
    for row in rows:
        listed = {row[column] for column in documents}
        if row[name] in last:
            shares.append(len(listed & last[row[name]]) / len(listed))
        last[row[name]] = listed
    return sum(shares) / len(shares) if shares else 0.0
