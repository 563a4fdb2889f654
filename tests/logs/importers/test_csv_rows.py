"""Rows of delimited text."""

from __future__ import annotations

from pathlib import Path

from rankloop.logs.importers.csv_rows import read_csv_rows


def test_rows_before_the_first_readable_heading_have_empty_headings() -> None:
    """The first line of a search is not UTF-8; rows after it used to end in a traceback."""
    search = [b"11,1,0", b"12,2,1", b"13,3,0", b"14,4,0"]
    lines = [b"1,\xff", *search, b"2,20", *search, b"3,30", *search]
    broken: list[tuple[int, object]] = []
    numbered = ((number, line + b"\n") for number, line in enumerate(lines, start=1))
    rows = list(read_csv_rows(numbered, Path("clicks.csv"), ",", lambda *line: broken.append(line)))
    assert broken == [(1, "not UTF-8")]
    assert [row["h1"] for _, row in rows] == [""] * 4 + ["2"] * 4 + ["3"] * 4
    assert rows[0] == (2, {"h1": "", "h2": "", "c1": "11", "c2": "1", "c3": "0"})
