"""What the columns of a table without names seem to mean, if it has one row per document.

Positions count up and begin again. Between two beginnings, columns that stay the same are those of the
search, and a column that is never the same has the documents.
"""

from __future__ import annotations

from rankloop.logs.importers.parsing import BadValueError, whole
from rankloop.logs.importers.tables.sample import Sample
from rankloop.logs.importers.tables.value_kinds import MOST, are_marks, are_positions, are_times

# Rows per impression, on average, from which on positions count up.
LEAST = 2
UNKNOWN = "NAME"


def suggest_columns(sample: Sample) -> str | None:
    """What to give as ``--columns``, with NAME where values do not tell; None if no column has positions.

    Example:
        >>> def row(*values):
        ...     return {f"c{number}": value for number, value in enumerate(values, 1)}
        >>> rows = [row(f"s{i // 3}", "cat" if i < 6 else "dog", i % 3, f"d{(i * 5 + i // 3) % 7}", i % 2)
        ...         for i in range(12)]
        >>> suggest_columns(Sample(rows))
        'impression_id=c1, query_id=c2, position=c3, doc_id=c4, clicked=c5, timestamp=-'
    """
    runs = None
    position = ""
    for position in sample.columns:
        runs = _runs(sample, position)
        if runs is not None:
            break
    if runs is None:
        return None
    starts = dict.fromkeys(runs)
    same: list[str] = []
    different: list[str] = []
    marks: list[str] = []
    times: list[str] = []
    for column in sample.columns:
        values = list(map(str, sample.values(column)))
        if column == position or len(sample.present(column)) < MOST * len(sample):
            continue
        by_run: dict[int, list[str]] = {start: [] for start in starts}
        for start, value in zip(runs, values, strict=True):
            by_run[start].append(value)
        if all(len(set(some)) == 1 for some in by_run.values()):
            (times if are_times(sample.present(column)) else same).append(column)
        elif are_marks(sample.present(column)) and len(set(values)) > 1:
            marks.append(column)
        elif sum(len(set(some)) == len(some) for some in by_run.values()) >= MOST * len(by_run):
            different.append(column)
    counts = {column: len(set(map(str, sample.values(column)))) for column in same}
    each = [column for column in same if counts[column] >= MOST * len(starts)]
    again = [column for column in same if 1 < counts[column] < MOST * len(starts)]
    ids = [column for column in different if _come_again(sample, column)] or different
    found = {
        "impression_id": each[0] if each else "-",
        "query_id": _only(again, "-"),
        "position": position,
        "doc_id": _only(ids, UNKNOWN),
        "clicked": _only(marks, UNKNOWN),
        "timestamp": _only(times, "-"),
    }
    return ", ".join(f"{field}={column}" for field, column in found.items())


def _only(columns: list[str], otherwise: str) -> str:
    """The only column; what to write if there is none, or NAME if there are several."""
    return columns[0] if len(columns) == 1 else UNKNOWN if columns else otherwise


def _come_again(sample: Sample, column: str) -> bool:
    """Whether many values come again, as documents do, and numbers of rows do not."""
    values = list(map(str, sample.values(column)))
    return len(set(values)) < MOST * len(values)


def _runs(sample: Sample, column: str) -> list[int] | None:
    """For each row, where its impression begins; None if a column does not count up and begin again."""
    present = sample.present(column)
    if len(present) < len(sample) or not are_positions(present):
        return None
    try:
        places = [whole(value, column) for value in present]
    except BadValueError:
        return None
    lowest, start, right = min(places), 0, 0
    runs = []
    for number, place in enumerate(places):
        follows = number > 0 and place == places[number - 1] + 1
        start = start if follows else number
        right += follows or place == lowest
        runs.append(start)
    enough = len(set(runs)) > 1 and LEAST * len(set(runs)) <= len(runs)
    return runs if enough and right >= MOST * len(places) else None
