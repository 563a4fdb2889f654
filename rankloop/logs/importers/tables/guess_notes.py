"""What is said of the columns that were guessed, so that a wrong guess is seen and can be corrected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.events import Events
from rankloop.logs.importers.tables.sample import Sample
from rankloop.logs.importers.times import are_slashed


def describe_guesses(
    columns: Columns,
    events: Events | None,
    found: Mapping[str, Any],
    rejected: Mapping[str, str],
    sample: Sample,
) -> Iterable[str]:
    """One sentence for each kind of guess.

    Args:
        columns: all columns, given or guessed.
        events: the kinds of events, if rows are events.
        found: the guesses by field; None where nothing was found.
        rejected: by field, why a column with a fitting name was not taken.
        sample: the first rows.
    """
    guessed = {name: value for name, value in found.items() if value is not None}
    if guessed:
        named = ", ".join(f"{name}={_joined(value)}" for name, value in guessed.items())
        yield f"Columns were guessed: {named}. Correct a guess with --columns, as in 'doc_id=sku'."
    if columns.event is not None and events is not None:
        yield events.sentence
    if "query_id" in found and columns.query_id is None:
        why = f" ({rejected['query_id']})" if "query_id" in rejected else ""
        yield (
            f"No column holds queries{why}: each impression is a query of its own. Learn from features "
            f"and from documents that come again (--columns query_id=NAME names a column)."
        )
    if columns.page is not None:
        yield (
            f"Positions begin again on every page ({columns.page}): they are counted on from page to "
            f"page (--columns page=- prevents it)."
        )
    if "timestamp" in found and columns.timestamp is None:
        names = [name for name in sample.columns if set(words.spellings(name)) & {*words.TIME}]
        why = f": {_no_times(names[0], sample)}" if names else ""
        yield f"No column holds times{why}. Impressions are kept without them."


def _no_times(column: str, sample: Sample) -> str:
    if are_slashed(sample.present(column)):
        return f"in {column}, it is not known whether the day or the month comes first (write 2024-05-31)"
    return f"{column} does not hold dates or numbers since 1970"


def _joined(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else "+".join(value)
