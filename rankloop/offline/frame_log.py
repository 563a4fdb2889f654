"""A log from a frame: the frame is imported into a temporary folder, which lasts as long as the log."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankloop.errors import DataError, RankloopError
from rankloop.frames import arrow_table, is_frame, listed, write_parquet
from rankloop.logs import Columns, ImportOptions, import_columns
from rankloop.logs.schema import QUERY_DOCUMENT
from rankloop.offline.log import Log, open_log
from rankloop.offline.scores import text_ids
from rankloop.progress import Progress
from rankloop.storage.locks import scratch_folder

if TYPE_CHECKING:
    import pyarrow

# The files that frames are written to, and what messages call them.
ROWS, FEATURES = "rows.parquet", "features.parquet"
NAMES = {ROWS: "the frame", FEATURES: "the frame of features"}
# A column that does not exist, as `Columns` spells it.
NONE = "-"
# All columns of numbers that are known before a click.
AUTO = "auto"
QUERY, DOCUMENT = QUERY_DOCUMENT


def log(
    frame: Any,
    *,
    query: str | None = None,
    document: str | None = None,
    position: str | None = None,
    clicked: str | None = None,
    impression: str | Sequence[str] | None = None,
    time: str | None = None,
    policy: str | None = None,
    amount: str | None = None,
    features: Any = None,
    columns: Mapping[str, str] | None = None,
    options: ImportOptions | None = None,
    out: str | os.PathLike[str] | None = None,
    target: str = "auto",
    progress: Progress | None = None,
) -> Log:
    """The log of a frame: one row per document that was shown, as `rankloop.import_columns` imports it.

    Columns that are not named are found by their names and values; `Log.imported` says which were taken for
    what, and which defects were repaired. ``"-"`` says that there is no such column.

    Args:
        frame: a frame of pandas, polars or pyarrow, a relation of DuckDB, any other table that gives its rows
            to Arrow, or a dictionary of columns.
        query: the column with the query.
        document: the column with the document.
        position: the column with the position of the document, from 0 or from 1.
        clicked: the column that says whether it was clicked, or how often.
        impression: the column that tells impressions apart, such as the id of a search; or several columns.
        time: the column with the time of the impression.
        policy: the column with the policy that ranked; without it, one policy ranked everything.
        amount: the column with what the display was worth, such as the price of what was bought.
        features: columns of the frame that are features, with wildcards; ``"auto"`` for all columns of
            numbers that are known before a click, and text that is a category of documents; or a
            frame of features, with the query and the document, or the document alone.
        columns: the names of rarer columns, by what `rankloop.logs.Columns` calls them.
        options: options of all imports.
        out: the folder to keep the log in; None for a temporary one, which is removed with the log.
        target: what policies are fitted to and judged by; see `rankloop.open_log`.
        progress: called with what is being done.

    Raises:
        DataError: there is no such column, or the rows are not what was shown.

    Example:
        >>> rows = {
        ...     "search": [1, 1, 2, 2],
        ...     "query": ["shoes"] * 4,
        ...     "sku": ["a", "b", "b", "a"],
        ...     "rank": [1, 2, 1, 2],
        ...     "click": [1, 0, 0, 1],
        ... }
        >>> clicks = log(rows, impression="search", query="query", document="sku", position="rank",
        ...              clicked="click")
        >>> clicks.imported.impressions, clicks.imported.clicks
        (2, 2)

    Reference: docs/logs.md.
    """
    table = arrow_table(frame)
    named = {
        "query_id": query,
        "doc_id": document,
        "position": position,
        "clicked": clicked,
        "timestamp": time,
        "policy_id": policy,
        "amount": amount,
        **(columns or {}),
    }
    chosen = _columns(named, impression, list(table.column_names))
    settings = options or ImportOptions()
    settings = replace(settings, progress=progress or settings.progress)
    of_table, of_frame = _split_features(features, list(table.column_names))
    with ExitStack() as stack:
        scratch = stack.enter_context(scratch_folder())
        source = write_parquet(table, scratch / ROWS)
        if of_frame is not None:
            written = write_parquet(_feature_table(of_frame, query, document), scratch / FEATURES)
            settings = replace(settings, features=written)
        try:
            import_columns(
                source,
                scratch / "log" if out is None else out,
                columns=chosen,
                feature_columns=of_table,
                options=settings,
            )
        except RankloopError as error:
            _rename_files(error, scratch)
            raise
        for file in NAMES:
            (scratch / file).unlink(missing_ok=True)
        result = open_log(scratch / "log" if out is None else out, target=target)
        if out is None:
            weakref.finalize(result, stack.pop_all().close)
    return result


def _columns(
    named: Mapping[str, str | None], impression: str | Sequence[str] | None, present: Sequence[str]
) -> Columns:
    """The names of the columns; those that are not given are guessed."""
    together = (
        () if impression is None else (impression,) if isinstance(impression, str) else tuple(impression)
    )
    missing = [
        name
        for name in (*named.values(), *together)
        if name is not None and name != NONE and name not in present
    ]
    if missing:
        raise DataError(f"the frame has no column {listed(missing)}; its columns are {listed(present)}")
    given: dict[str, Any] = {
        name: None if column == NONE else column for name, column in named.items() if column is not None
    }
    if len(together) == 1:
        given["impression_id"] = None if together[0] == NONE else together[0]
    try:
        chosen = Columns(**given)
    except TypeError as error:
        known = ", ".join(field.name for field in fields(Columns))
        raise DataError(f"columns names {listed(list(given))}, and its keys are {known}") from error
    return chosen.identified_by(",".join(together)) if len(together) > 1 else chosen


def _split_features(features: Any, present: Sequence[str]) -> tuple[tuple[str, ...], Any]:
    """The names of columns that are features, and a frame of features: one of the two."""
    if features is None:
        return (), None
    if is_frame(features) or isinstance(features, dict):
        return (), features
    named = (features,) if isinstance(features, str) else tuple(features)
    exact = [name for name in named if name not in present and name != AUTO and not set("*?[") & set(name)]
    if exact:
        raise DataError(f"the frame has no column {listed(exact)}; its columns are {listed(present)}")
    return named, None


def _feature_table(frame: Any, query: str | None, document: str | None) -> pyarrow.Table:
    """A frame of features with the names of ids that files of features have."""
    table = arrow_table(frame)
    called = {query: QUERY, document: DOCUMENT}
    table = table.rename_columns([called.get(name, name) for name in table.column_names])
    if DOCUMENT not in table.column_names:
        raise DataError(
            f"the frame of features has no column {document or DOCUMENT!r}; its columns are "
            f"{listed(table.column_names)}"
        )
    return text_ids(table)


def _rename_files(error: RankloopError, scratch: Path) -> None:
    """Let a message name the frames, and not the files that they were written to."""
    text = str(error)
    for file, name in NAMES.items():
        text = text.replace(f", or look at the proposal with `rankloop import {scratch / file}`", "")
        text = text.replace(str(scratch / file), name)
    # Advice for the command line, as Python has it.
    text = re.sub(r"--columns '(\w+)=([^']*)'", r"columns={'\1': '\2'}", text)
    error.args = (text, *error.args[1:])
