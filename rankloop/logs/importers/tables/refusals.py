"""Refuse tables that cannot be a log, and say why and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from rankloop.errors import DataError
from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.formats import recognise
from rankloop.logs.importers.parsing import is_missing, shortened
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.guesses import Guess
from rankloop.logs.importers.tables.lists import ColumnPath
from rankloop.logs.importers.tables.profile import Sample, are_counts, are_kinds, are_marks

HOW_TO_NAME = "Name columns as in --columns 'doc_id=sku, position=rank'."
# Share of rows without a mark from which on it is no accident.
MANY = 0.1
# Kinds of events in a message.
MANY_KINDS = 6
# The longest value in a message.
LONGEST = 20
# What a column that is missing holds, and what to do if there is none.
MISSING = {
    "doc_id": "the documents that were shown",
    "position": "positions",
    "impression_id": "ids of impressions, which tell what was shown together",
}
REMEDIES = {
    "position": "If documents are in the order in which they were shown, say so: --columns position=-.",
    "impression_id": "If several columns together tell impressions apart, name them: --impression "
    "session_id,query,timestamp. If each row was shown alone, say so: --columns impression_id=-.",
}


class MissingColumnError(DataError):
    """A table may be a log, but it is not known which of its columns hold what."""


def refuse_unusable(sample: Sample, guess: Guess, *, clicks_elsewhere: bool, filtered: bool = False) -> None:
    """Raise an error if a table has no clicks, holds nothing but clicks, or is a table of sums.

    Args:
        sample: the first rows of the table.
        guess: what its columns mean.
        clicks_elsewhere: whether clicks are in another table, or in events.
        filtered: whether only some of the rows are imported.
    """
    names = guess.columns
    if not len(sample) or recognise(sample.rows[0]) in ("ubi", "metarank"):
        return
    if any(str(value).startswith("qid:") for value in (*sample.columns, *sample.rows[0].values())):
        raise DataError(
            "the rows look like SVMlight, documents with labels and features, which is not a log of clicks: "
            "`rankloop train` learns from it"
        )
    unknown = [field for field in MISSING if _is_missing(field, names, sample)]
    clicked = names.clicked is not None and ColumnPath(names.clicked).is_in(sample.columns)
    if unknown and (counts := _counts(sample)) is not None:
        raise DataError(
            f"the rows are sums: the column {counts} says how often a document was shown. A log has one row "
            f"for each time that a document was shown, and an id for what was shown together: export the "
            f"searches themselves"
        )
    only_clicks = [name for name in sample.columns if _is_of_clicks(name)]
    is_of_clicks = "doc_id" in unknown or names.doc_id in only_clicks
    if only_clicks and not clicked and not clicks_elsewhere and is_of_clicks:
        raise DataError(
            f"the rows are clicks ({', '.join(only_clicks)}), and do not say what else was shown. A log "
            f"needs what was shown and not clicked, too: give a table of it, and this one as --clicks TABLE"
        )
    if clicked and not filtered and (found := _kind_with_marks(sample, names)) is not None:
        column, value, share = found
        raise DataError(
            f"{names.clicked} is empty in {share:.0%} of the rows, and only rows where {column} is {value} "
            f"have a value: what happened to the others was not logged. Import the rows that have one with "
            f"--only {column}={value}"
        )
    if unknown and (clicked or clicks_elsewhere or sample.is_unnamed):
        raise _missing_columns(unknown, guess, sample)
    if not clicked and not clicks_elsewhere and "doc_id" not in unknown:
        why = dict(guess.rejected).get("clicked", "")
        marks = [name for name in sample.columns if sample.present(name) and are_marks(sample.present(name))]
        name = marks[0] if len(marks) == 1 else "NAME"
        raise MissingColumnError(
            f"the rows have no clicks{f' ({why})' if why else ''}: name the column that contains them "
            f"(--columns clicked={name}), or give a table with one row per click (--clicks TABLE). "
            f"{_on_kinds(sample)}If each row is a click, what was shown and not clicked is missing. The "
            f"columns are {', '.join(sample.columns)}"
        )


def _on_kinds(sample: Sample) -> str:
    """A sentence on a column with kinds of events, of which none is known to be a click."""
    for column in sample.columns:
        present = sample.present(column)
        if not {*words.EVENT}.isdisjoint(words.spellings(column)) and present and are_kinds(present):
            kinds = ", ".join(list(dict.fromkeys(map(str, present)))[:MANY_KINDS])
            return (
                f"If {column} tells clicks (the first rows have {kinds}), name its kinds: --columns "
                f"event={column} --shown-event KIND --click-event KIND. "
            )
    return ""


def _kind_with_marks(sample: Sample, names: Columns) -> tuple[str, str, float] | None:
    """A column and its only value with which rows say whether they were clicked; and the share of the others.

    Only if clicked rows and others have values in the column of clicks, and many rows have none.
    """
    marks = sample.values(str(names.clicked))
    there = [not is_missing(mark) for mark in marks]
    values = {str(mark) for mark, is_there in zip(marks, there, strict=True) if is_there}
    missing = there.count(False) / len(there)
    if len(values) < 2 or missing <= MANY:
        return None
    others = (names.query_id, names.doc_id, names.position, names.timestamp, names.clicked)
    for column in sample.columns:
        # An id or a place may tell rows apart by accident.
        if column in (*names.impression_columns, *others):
            continue
        kinds = list(map(str, sample.values(column)))
        having = {kind for kind, is_there in zip(kinds, there, strict=True) if is_there}
        lacking = {kind for kind, is_there in zip(kinds, there, strict=True) if not is_there}
        if len(having) == 1 and having.isdisjoint(lacking):
            return column, having.pop(), missing
    return None


def _is_missing(field: str, names: Columns, sample: Sample) -> bool:
    """Whether a column under its default name is neither there nor was found under another."""
    name = getattr(names, field)
    usual = name == getattr(Columns(), field)
    return usual and not ColumnPath(str(name)).is_in(sample.columns)


def _missing_columns(unknown: Sequence[str], guess: Guess, sample: Sample) -> MissingColumnError:
    rejected = dict(guess.rejected)
    reasons = []
    columns = sample.columns
    for field in unknown:
        why = f" ({rejected[field]})" if rejected.get(field) else ""
        reasons.append(f"no column is known to hold {MISSING[field]}{why}")
    listed = ", ".join(filter(None, columns))
    if sample.is_unnamed:
        row = max(sample.rows, key=lambda values: sum(value != "" for value in values.values()))
        first = ", ".join(f"{name}={shortened(value, LONGEST)}" for name, value in row.items())
        listed = f"not named in the first line. One row is {first}. Documents may be a range, as in c6..c15"
    remedies = " ".join([*(REMEDIES[field] for field in unknown if field in REMEDIES), HOW_TO_NAME])
    return MissingColumnError(f"{'; '.join(reasons)}. {remedies} The columns are {listed}")


def _counts(sample: Sample) -> str | None:
    """A column that says how often something was shown."""
    for column in sample.columns:
        present = sample.present(column)
        if set(words.spellings(column)) & {*words.COUNTS} and present and are_counts(present):
            return column
    return None


def _is_of_clicks(name: str) -> bool:
    parts = words.normalised(name).split("_")
    return any(part.startswith("click") for part in parts) and any(
        part in ("url", "doc", "item", "id", "product", "page", "rank", "position") for part in parts
    )
