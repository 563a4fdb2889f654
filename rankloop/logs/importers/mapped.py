"""Import files by a mapping, and look at what it would import before it does."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rankloop.errors import DataError
from rankloop.logs.importers.columns import run_table
from rankloop.logs.importers.files import Paths
from rankloop.logs.importers.mapping import (
    AnyMapping,
    MetarankMapping,
    TableMapping,
    UbiMapping,
    read_mapping,
)
from rankloop.logs.importers.metarank import import_metarank
from rankloop.logs.importers.pipeline import DEFAULTS, ImportOptions
from rankloop.logs.importers.proposal import Proposal, propose
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.ubi import import_ubi
from rankloop.logs.schema import IMPRESSIONS

# Records of each file that are read for a look, and impressions that are shown of them.
LOOK = 20_000
EXAMPLES = 3
# Rows of an impression that are shown.
LONGEST = 10


@dataclass(frozen=True)
class ListedDocument:
    """A row of an impression: where it stood, and whether it was clicked."""

    position: int
    document: str
    clicked: bool


@dataclass(frozen=True)
class ExampleImpression:
    """An impression as it would be in the log."""

    impression: str
    query: str
    policy: str
    time: datetime | None
    rows: tuple[ListedDocument, ...]


def import_files(
    files: Paths,
    out: str | os.PathLike[str],
    *,
    mapping: AnyMapping | str | os.PathLike[str] | None = None,
    options: ImportOptions = DEFAULTS,
) -> ImportReport:
    """Import files of any kind by a mapping, which is proposed from the data if it is not given.

    Args:
        files: one path or several, of the same kind.
        out: the folder of the log; the mapping is stored in it.
        mapping: the mapping, or its TOML file.
        options: options of all imports.

    Raises:
        AmbiguousTableError: several columns could be one field, and the mapping does not say which is.
        DataError: the files cannot be imported.
    """
    given = mapping if isinstance(mapping, AnyMapping | None) else read_mapping(Path(mapping))
    proposal = propose(files, given)
    proposal.check(", ".join(map(str, files)) if isinstance(files, list | tuple) else files)
    return run_proposal(proposal, files, out, options)


def run_proposal(
    proposal: Proposal, files: Paths, out: str | os.PathLike[str], options: ImportOptions
) -> ImportReport:
    """Run a mapping of which nothing has to be decided."""
    mapping = proposal.mapping
    base = options.position_base
    options = replace(options, normalise=options.normalise or mapping.normalise)
    match mapping:
        case UbiMapping():
            return import_ubi(
                files, out, policy=mapping.policy, ranks=mapping.ranks, clicks=mapping.clicks,
                amounts=mapping.amounts, shown=mapping.shown, options=options,
            )  # fmt: skip
        case MetarankMapping():
            return import_metarank(
                files, out, policy=mapping.policy, clicks=mapping.clicks, amounts=mapping.amounts,
                fields=mapping.fields, options=options,
            )  # fmt: skip
        case TableMapping():
            notes = list(proposal.notes)
            if options.features is None and proposal.suggestion is not None:
                notes.append(proposal.suggestion)
            if proposal.unused:
                notes.append(f"Columns that nothing is read from: {', '.join(proposal.unused)}.")
            options = replace(options, position_base=mapping.position_base if base is None else base)
            return run_table(mapping, files, out, notes=notes, options=options)


def look(proposal: Proposal, files: Paths) -> tuple[ExampleImpression, ...]:
    """A few impressions as a mapping would import them, from the first records of each file.

    Raises:
        DataError: the first records cannot be imported.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = ImportOptions(max_loss=1.0, first=LOOK)
        report = run_proposal(proposal, files, Path(folder) / "log", options)
        table = pq.read_table(Path(report.log) / f"{IMPRESSIONS}.parquet")
    impressions: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        impressions.setdefault((row["policy_id"], row["impression_id"]), []).append(row)
    lists = list(impressions.values())
    clicked = [rows for rows in lists if any(row["clicked"] for row in rows) and len(rows) > 1]
    return tuple(map(_example, _spread(clicked or lists)))


def _spread(lists: Sequence[Any]) -> list[Any]:
    """A few of many, from the beginning to the end."""
    step = max(len(lists) // EXAMPLES, 1)
    return list(lists[::step][:EXAMPLES])


def _example(rows: list[dict[str, Any]]) -> ExampleImpression:
    rows = sorted(rows, key=lambda row: row["position"])
    first = rows[0]
    listed = tuple(ListedDocument(row["position"], row["doc_id"], row["clicked"]) for row in rows)
    return ExampleImpression(
        first["impression_id"], first["query_id"], first["policy_id"], first["timestamp"], listed
    )


def check_look(proposal: Proposal, files: Paths) -> tuple[tuple[ExampleImpression, ...], str]:
    """A few impressions, or why there are none."""
    try:
        return look(proposal, files), ""
    except DataError as error:
        return (), str(error)
