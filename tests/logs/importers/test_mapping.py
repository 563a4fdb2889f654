"""Mappings: what runs is what the file says, and the log keeps it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from rankloop.errors import DataError
from rankloop.logs import Columns, Events, import_columns
from rankloop.logs.importers.mapped import import_files, look
from rankloop.logs.importers.mapping import (
    MetarankMapping,
    TableMapping,
    UbiMapping,
    mapping_text,
    read_mapping,
    stored_text,
)
from rankloop.logs.importers.proposal import AmbiguousTableError, propose
from tests.logs.importers.decoys import decoys, world
from tests.logs.importers.reading import rows_of, write_lines
from tests.logs.importers.searches import EXPECTED, ONLY_ROWS, SEARCHES, content, flat, table

TABLES = {decoy.name: decoy for decoy in decoys()}
MAPPINGS = [
    TableMapping(
        columns=Columns.parse(
            "impression_id=a, query_id=b c, position=-, doc_id=d1..d3, clicked=d, event=kind"
        ),
        events=Events(("shown", 'sa"id'), ("click",)),
        policy="p",
        clicks="clicks.csv",
        only={"part of": "train"},
        amounts={"buy": 5.0},
        features=("x", "y"),
        position_base=0,
        is_decided=True,
    ),
    UbiMapping(policy="é\n", ranks=10, clicks=("tap",), amounts={"buy": 2.5}, shown="hits"),
    MetarankMapping(clicks=("like",)),
]


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_a_file_says_what_its_mapping_says(tmp_path: Path, mapping: TableMapping | UbiMapping) -> None:
    path = tmp_path / "mapping.toml"
    path.write_text(mapping_text(mapping), encoding="utf-8")
    again = read_mapping(path)
    assert mapping_text(again) == mapping_text(mapping)
    assert type(again) is type(mapping)


def test_the_mapping_of_a_log_imports_the_next_day(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", list(ONLY_ROWS), flat())
    report = import_columns(path, tmp_path / "log")
    kept = tmp_path / "log" / "mapping.toml"
    mapping = read_mapping(kept)
    assert isinstance(mapping, TableMapping)
    assert (mapping.position_base, mapping.is_complete, mapping.is_decided) == (1, True, True)
    again = import_files(path, tmp_path / "again", mapping=kept)
    assert rows_of(again.log) == rows_of(report.log)
    assert content(again) == EXPECTED
    assert (again.log / "mapping.toml").read_text() == kept.read_text()


def test_nothing_is_guessed_if_a_mapping_is_given(tmp_path: Path) -> None:
    """A column that the mapping does not name is not read, whatever it is called."""
    path = table(
        tmp_path / "t.csv", ["search_id", "timestamp", "query", "doc_id", "position", "clicked"], flat()
    )
    text = '[fields]\nimpression_id = "search_id"\ndoc_id = "doc_id"\n'
    text += 'position = "position"\nclicked = "clicked"\n'
    (tmp_path / "m.toml").write_text(text)
    report = import_files(path, tmp_path / "log", mapping=tmp_path / "m.toml")
    assert all(row["timestamp"] is None for row in rows_of(report.log))
    assert {row["query_id"] for row in rows_of(report.log)} == {row[0] for row in flat()}


def test_what_is_not_decided_is_not_run(tmp_path: Path) -> None:
    decoy = TABLES["shop rank of retrieval"]
    path = table(tmp_path / "t.csv", decoy.header, decoy.rows(world()))
    with pytest.raises(AmbiguousTableError, match="position could be rank or slot") as caught:
        import_columns(path, tmp_path / "log")
    (tmp_path / "m.toml").write_text(caught.value.proposal.to_toml())
    with pytest.raises(DataError, match="position is not decided: write one of rank or slot in its place"):
        read_mapping(tmp_path / "m.toml")
    assert not (tmp_path / "log").exists()
    answered = caught.value.proposal.answered({"position": "slot"})
    report = import_files(path, tmp_path / "log", mapping=answered)
    assert max(row["position"] for row in rows_of(report.log)) == 6


def test_a_look_shows_impressions_as_they_would_be(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", list(ONLY_ROWS), flat())
    examples = look(propose(path), path)
    assert len(examples) == 3
    report = import_columns(path, tmp_path / "log")
    for example in examples:
        rows = [row for row in rows_of(report.log) if row["impression_id"] == example.impression]
        assert [(row["position"], row["doc_id"], row["clicked"]) for row in rows] == [
            (row.position, row.document, row.clicked) for row in example.rows
        ]
        assert {(row["query_id"], row["timestamp"]) for row in rows} == {(example.query, example.time)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fields", "this is not a mapping in TOML"),
        ('format = "xml"', "the format is 'xml'; expected table, ubi, metarank"),
        ('[fields]\ndocument = "x"', "'document' is not known here; known are impression_id"),
        ('[fields]\nquery_id = "x"', r"\[fields\] has no doc_id"),
        ('[fields]\ndoc_id = "x"\n[reading]\nlist = true', "'list' is not known here; known are lists"),
        ('[fields]\ndoc_id = "x"\n[amounts]\nbuy = "much"', "a value of this mapping has the wrong type"),
    ],
)
def test_what_is_wrong_with_a_mapping(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(DataError, match=message):
        read_mapping(tmp_path / "m.toml")


def test_reading_is_stored_and_said_to_be_found_out() -> None:
    text = stored_text(UbiMapping())(None, ["q.json"])
    assert text.startswith("# How q.json was imported")


def test_the_examples_of_the_page_are_mappings(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "logs.md").read_text(encoding="utf-8")
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 11
    for text in examples:
        (tmp_path / "m.toml").write_text(text)
        read_mapping(tmp_path / "m.toml")


def test_the_examples_of_lists_and_events_import(tmp_path: Path) -> None:
    """The second and the third mapping of the page, with tables as they describe."""
    page = (Path(__file__).parents[3] / "docs" / "logs.md").read_text(encoding="utf-8")
    _, lists, events, *_ = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "lists.toml").write_text(lists)
    (tmp_path / "events.toml").write_text(events)
    rows = [
        {"query": one.query, "ts": one.time, "results": one.documents, "clicked_ids": one.clicked}
        for one in SEARCHES
    ]
    path = write_lines(tmp_path / "lists.json", rows)
    assert content(import_files(path, tmp_path / "a", mapping=tmp_path / "lists.toml")) == EXPECTED
    kinds: list[dict[str, Any]] = []
    for one in SEARCHES:
        shared = {"session_id": one.session, "query": one.query}
        kinds.append({"type": "search", "ts": one.time, "skus": one.documents, **shared})
        kinds += [{"type": "product_click", "ts": one.time + 5, "sku": sku, **shared} for sku in one.clicked]
    path = write_lines(tmp_path / "events.json", kinds)
    assert content(import_files(path, tmp_path / "b", mapping=tmp_path / "events.toml")) == EXPECTED
