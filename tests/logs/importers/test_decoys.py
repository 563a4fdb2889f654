"""Tables with a misleading column are imported right, or are a question; never wrong without a word."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rankloop.logs import Columns
from rankloop.logs.importers.columns import run_table
from rankloop.logs.importers.mapping import TableMapping
from rankloop.logs.importers.proposal import Proposal, propose_table
from tests.logs.importers.decoys import CONTENT, Decoy, decoys, world
from tests.logs.importers.reading import rows_of
from tests.logs.importers.searches import table

WORLD = world()
DECOYS = decoys()
NUMBERS = {str(CONTENT[what](row)): row.query for row in WORLD for what in ("text", "queryno")}
OUTCOMES: Counter[int] = Counter()


def truth(decoy: Decoy) -> Counter[Any]:
    """What must be in the log: the search by its content, for each row."""
    documents = CONTENT[next(what for what in ("doc", "docno", "url") if what in decoy.columns)]
    queries = {"text", "queryno"} & set(decoy.columns)
    return Counter(
        (
            documents(row) if isinstance(documents(row), str) else str(documents(row)),
            row.place + 1,
            row.clicked,
            row.time if {"iso", "epoch", "millis"} & set(decoy.columns) else None,
            row.query if queries else -1,
        )
        for row in WORLD
    )


def content(folder: Path, decoy: Decoy) -> Counter[Any]:
    timed = bool({"iso", "epoch", "millis"} & set(decoy.columns))
    queries = {"text", "queryno"} & set(decoy.columns)
    return Counter(
        (
            row["doc_id"], row["position"], row["clicked"],
            int(row["timestamp"].timestamp()) if timed and row["timestamp"] is not None else None,
            NUMBERS.get(row["query_id"], row["query_id"]) if queries else -1,
        )
        for row in rows_of(folder)
    )  # fmt: skip


def answers(proposal: Proposal, decoy: Decoy) -> dict[str, str]:
    """The lines of the mapping that a person edits: what is asked, and what is missing."""
    edits = {}
    for question in proposal.questions:
        right = decoy.truths(question.field) or ["-"]
        edits[question.field] = next((one for one in right if one in question.options), right[0])
    return edits


@pytest.mark.parametrize("decoy", DECOYS, ids=lambda decoy: decoy.name)
def test_a_misleading_column_is_noticed(tmp_path: Path, decoy: Decoy) -> None:
    path = table(tmp_path / "t.csv", decoy.header, decoy.rows(WORLD))
    proposal = propose_table(path, TableMapping())
    edits = answers(proposal, decoy)
    names = {name: None if value == "-" else value for name, value in edits.items()}
    settled = Columns(**names)  # type: ignore[arg-type]
    again = propose_table(path, TableMapping(columns=settled))
    more = answers(again, decoy)
    edits |= more
    if more:
        settled = replace(settled, **more)
        again = propose_table(path, TableMapping(columns=settled))
    OUTCOMES[len(edits)] += 1
    again.check(path)
    mapping = again.mapping
    assert isinstance(mapping, TableMapping)
    run_table(mapping, path, tmp_path / "log")
    assert content(tmp_path / "log", decoy) == truth(decoy), (edits, mapping.columns)


def test_most_tables_need_at_most_one_line() -> None:
    if sum(OUTCOMES.values()) < len(DECOYS):
        pytest.skip("needs the tables above, in the same process")
    assert len(DECOYS) >= 60
    assert OUTCOMES[0] + OUTCOMES[1] >= 0.85 * len(DECOYS)
