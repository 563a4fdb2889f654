"""What used to be lost or misread without a word: it is read, or refused with the reason."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rankloop.errors import DataError
from rankloop.logs import ImportOptions, ImportReport, import_columns, import_ubi
from tests.logs.importers.decoys import decoys, world
from tests.logs.importers.reading import counts, rows_of, shown, write_lines
from tests.logs.importers.searches import EXPECTED, ONLY_ROWS, SEARCHES, content, flat, table


def test_the_index_of_a_data_frame_is_no_feature(tmp_path: Path) -> None:
    decoy = next(one for one in decoys() if one.name == "shop pandas index")
    names = ["" if name == "Unnamed_0" else name for name in decoy.header]
    path = table(tmp_path / "t.csv", names, decoy.rows(world()))
    report = import_columns(path, tmp_path / "log", feature_columns=("auto",))
    assert set(rows_of(report.log, "features")[0]) == {"query_id", "doc_id", "price"}
    assert "1 column of the table is a feature." in report.hints


def test_a_table_may_begin_with_a_bracket(tmp_path: Path) -> None:
    rows = [[f"[{row[2]}]", *row[:2], *row[3:]] for row in flat()]
    names = ["[query]", "search_id", "ts", "item", "pos", "clicked"]
    report = import_columns(table(tmp_path / "t.tsv", names, rows, "\t"), tmp_path / "log")
    assert content(report) == EXPECTED


def test_a_folder_of_parts(tmp_path: Path) -> None:
    """As Spark writes them: parts without an ending, plain or compressed, beside files that are none."""
    (tmp_path / "t").mkdir()
    for number, packed in enumerate((True, False)):
        part = flat()[80 * number : 80 * number + 80]
        text = table(tmp_path / "part.csv", list(ONLY_ROWS), part).read_bytes()
        name = f"part-0000{number}{'.gz' if packed else ''}"
        (tmp_path / "t" / name).write_bytes(gzip.compress(text) if packed else text)
    (tmp_path / "t" / "_SUCCESS").touch()
    (tmp_path / "t" / ".part-00000.crc").write_bytes(b"crc\0")
    assert content(import_columns(tmp_path / "t", tmp_path / "log")) == EXPECTED


def test_searches_that_only_time_tells_apart(tmp_path: Path) -> None:
    """A session searches twice for the same thing, and sees the same page twice."""
    rows: list[list[Any]] = []
    for search in SEARCHES:
        for again in (0, 1):
            rows += [
                [
                    search.session,
                    search.query,
                    search.time + 60 * again,
                    place,
                    document,
                    int(mark and not again),
                ]
                for place, document, mark in search.rows()
            ]
    path = table(tmp_path / "t.csv", ["session_id", "query", "ts", "position", "sku", "clicked"], rows)
    report = import_columns(path, tmp_path / "log")
    assert (report.impressions, report.rows, report.problems) == (2 * len(SEARCHES), len(rows), ())
    assert report.clicks == sum(row[-1] for row in rows)


def with_clicks(folder: Path, shift: int, **options: Any) -> ImportReport:
    """Clicks in a table of their own, some seconds after their impressions, by another clock."""
    rows = [[f"r{s.number}", s.time, s.query, place, one] for s in SEARCHES for place, one, _ in s.rows()]
    marks = [[f"r{s.number}", s.time + 5 - shift, one] for s in SEARCHES for one in s.clicked]
    names = ["search_id", "ts", "query", "position", "sku"]
    path = table(folder / "shown.csv", names, rows)
    clicks = table(folder / "clicks.csv", ["search_id", "ts", "sku"], marks)
    return import_columns(path, folder / "log", clicks=clicks, options=ImportOptions(**options))


def test_clicks_of_another_time_zone_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"48 of 48 clicks are earlier .*about 2 h 00 min .* --max-loss 1"):
        with_clicks(tmp_path, 7200)
    assert not (tmp_path / "log").exists()
    report = with_clicks(tmp_path, 7200, max_loss=1.0)
    assert (content(report), counts(report)) == (EXPECTED, {"early_clicks": 48})


def test_clicks_in_time_are_not(tmp_path: Path) -> None:
    report = with_clicks(tmp_path, 0)
    assert (content(report), report.problems) == (EXPECTED, ())


def old_ubi(action: str) -> list[dict[str, Any]]:
    """Records as UBI wrote them before version 1.0."""
    records: list[dict[str, Any]] = []
    for search in SEARCHES:
        time = datetime.fromtimestamp(search.time, UTC).isoformat()
        records.append(
            {"query_id": f"r{search.number}", "user_query": search.query, "timestamp": time,
             "query_response_id": f"x{search.number}", "query_response_object_ids": search.documents}
        )  # fmt: skip
        records += [
            {"query_id": f"r{search.number}", "action_name": action, "timestamp": time,
             "event_attributes": {"object": {"object_id": one}}}
            for one in search.clicked
        ]  # fmt: skip
    return records


def test_ubi_of_before_its_first_version(tmp_path: Path) -> None:
    report = import_ubi(write_lines(tmp_path / "old.jsonl", old_ubi("item_click")), tmp_path / "log")
    assert (content(report), report.impressions, report.losses) == (EXPECTED, len(SEARCHES), ())


def test_ubi_whose_clicks_have_another_name_is_refused(tmp_path: Path) -> None:
    source = write_lines(tmp_path / "old.jsonl", old_ubi("product_click"))
    with pytest.raises(DataError, match=r"no event is a click: .*48 events of action 'product_click'"):
        import_ubi(source, tmp_path / "log")
    report = import_ubi(source, tmp_path / "log", clicks=["product_click"])
    assert len(shown(report.log)) == len(EXPECTED)
