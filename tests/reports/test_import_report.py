"""The report on an import."""

from __future__ import annotations

from pathlib import Path

from rankloop.logs import Columns, ImportOptions, ImportReport, import_columns
from rankloop.reports.html import html_page
from rankloop.reports.import_report import import_document
from tests.reports.shown import shown

HEAD = "impression_id,query_id,position,doc_id,clicked,split\n"
TABLE = HEAD + "i,q,1,x,1,a\ni,q,1,x,1,a\nj,q,1,<b>,no clue,a\nk,q,1,x,0,b\n"


def imported(folder: Path, text: str) -> ImportReport:
    (folder / "t.csv").write_text(text)
    columns, options = Columns(timestamp=None), ImportOptions(max_loss=1.0)
    source, only = folder / "t.csv", {"split": "a"}
    return import_columns(source, folder / "log", columns=columns, policy="p", only=only, options=options)


def test_the_page_says_what_the_report_says(tmp_path: Path) -> None:
    report = imported(tmp_path, TABLE)
    page = html_page(import_document(report))
    assert "The log has 1 impressions with 1 clicks" in page
    assert "rows that repeat the impression, position and document of another: kept once" in page
    assert f"<code>{tmp_path}/t.csv, line 4: clicked is &#x27;no clue&#x27;; expected true, false" in page
    assert "set aside: rows where split is not &#x27;a&#x27;" in page
    assert "in the source, from 1" in page
    assert "The log has no candidates" in page
    assert page == html_page(import_document(report))


def test_the_terminal_shows_what_matters(tmp_path: Path) -> None:
    lines = shown(import_document(imported(tmp_path, TABLE)))
    assert "note: The log has no candidates" in lines
    assert "│ duplicate_rows │     1 │        1 │" in lines
    assert f"duplicate_rows: for example {tmp_path}/t.csv, line 3: impression 'i'" in lines


def test_a_clean_import_says_so(tmp_path: Path) -> None:
    page = html_page(import_document(imported(tmp_path, HEAD + "i,q,1,x,1,a\n")))
    assert "Problems of the source: none found." in page
