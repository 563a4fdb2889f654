"""Reading of files: broken lines are reported with file, line and reason."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError
from rankloop.logs.importers.files import SourceFiles
from rankloop.logs.problems import ProblemCounter


def read(*paths: Path) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    """Records with the names of their places, and what was broken."""
    found = ProblemCounter()
    files = SourceFiles(found)
    records = [(files.place_name(record.place), record.values) for record in files.records(paths, "clicks")]
    return records, [example for problem in found.problems() for example in problem.examples]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n\n{"a": \n[1]\n{"a": 2}\nnull\n')
    records, broken = read(path)
    assert records == [(f"{path}, line 1", {"a": 1}), (f"{path}, line 5", {"a": 2})]
    assert broken[0] == f"{path}, line 3: not JSON (Expecting value, at character 6)"
    assert broken[1] == f"{path}, line 4: not a JSON object but int"
    assert broken[2] == f"{path}, line 6: not a JSON object but NoneType"


def test_a_line_that_is_not_utf_8_is_broken(tmp_path: Path) -> None:
    for path, lines in (
        (tmp_path / "log.jsonl", [b'{"a": 1}', b'{"a": "\xff\xfe"}', b'{"a": 2}']),
        (tmp_path / "log.csv", [b"a", b"1", b"\xff\xfe", b"2"]),
    ):
        path.write_bytes(b"\n".join(lines) + b"\n")
        records, broken = read(path)
        assert [str(values["a"]) for _, values in records] == ["1", "2"]
        (only,) = broken
        assert "line 2: not JSON" in only or "line 3: not UTF-8" in only


def test_csv_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('\ufeffa, b\n1,"two\nlines"\n\n3\n4,5,6\n7,8\n', encoding="utf-8")
    records, broken = read(path)
    assert records == [
        (f"{path}, line 2", {"a": "1", "b": "two\nlines"}),
        (f"{path}, line 7", {"a": "7", "b": "8"}),
    ]
    assert broken == [
        f"{path}, line 5: 1 fields where the first line has 2",
        f"{path}, line 6: 3 fields where the first line has 2",
    ]


def test_tabs(tmp_path: Path) -> None:
    path = tmp_path / "log.tsv"
    path.write_text("a\tb\n1\t2,3\n")
    assert read(path)[0] == [(f"{path}, line 2", {"a": "1", "b": "2,3"})]


def test_a_file_that_ends_in_an_open_quote_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('a,b\n1,2\n3,4\n5,"6')
    with pytest.raises(DataError, match=r"log.csv, line 4: a quote is opened and never closed"):
        read(path)


@pytest.mark.parametrize("end", ["", "9,10\n", '9,"10"\n', '9,1"0\n', '9,10"\n'])
def test_a_stray_quote_hides_no_rows(tmp_path: Path, end: str) -> None:
    """The line with the quote is broken, and every other line is read, or broken itself."""
    path = tmp_path / "log.csv"
    rows = [f"{i},{i}" for i in range(100, 900)]
    path.write_text('a,b\n1,2\n3,"4\n' + "\n".join(rows) + "\n" + end)
    records, broken = read(path)
    read_rows = [values["a"] for _, values in records]
    assert read_rows[:-1] == ["1", *(row.split(",")[0] for row in rows)][: len(read_rows) - 1]
    assert len(read_rows) >= 801
    assert broken[0].startswith(f"{path}, line 3: a quote is opened and not closed, which would hide ")
    lines = path.read_text().count("\n")
    assert len(records) + len(broken) == lines - 1


def test_text_over_several_lines_is_one_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('a,b,c\n1,"two, three\nfour\nfive, six",7\n8,9,"10\n\n"\n')
    records, broken = read(path)
    assert [values["b"] for _, values in records] == ["two, three\nfour\nfive, six", "9"]
    assert records[1][1]["c"] == "10\n\n"
    assert broken == []


def test_a_stray_quote_is_a_broken_line(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('a,b\n1,"2"x\n3,4\n')
    records, (broken,) = read(path)
    assert records == [(f"{path}, line 3", {"a": "3", "b": "4"})]
    assert broken.startswith(f"{path}, line 2: ")


def test_duplicate_columns_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a,a\n1,2\n")
    with pytest.raises(DataError, match=r"log.csv, line 1: two columns have the same name"):
        read(path)


def test_gzip_is_detected_by_content(tmp_path: Path) -> None:
    for name in ("log.jsonl.gz", "log.jsonl"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(b'{"a": 1}\n'))
        assert read(path)[0] == [(f"{path}, line 1", {"a": 1})]


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_damaged_gzip_is_rejected_with_the_last_good_line(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "log.jsonl.gz"
    data = bytearray(gzip.compress(b"".join(b'{"a": %d}\n' % i for i in range(50_000))))
    if damage == "cut":
        del data[-1000:]
    else:
        data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))
    with pytest.raises(DataError, match=r"log.jsonl.gz, after line [1-9]\d*: the compressed file is damaged"):
        read(path)


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"a": [1, 2], "b": [{"c": 1}, None]}), path)
    assert read(path)[0] == [
        (f"{path}, row 1", {"a": 1, "b": {"c": 1}}),
        (f"{path}, row 2", {"a": 2, "b": None}),
    ]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=r"log.parquet: this is not a Parquet file, or part of it is missing"):
        read(path)


def test_places_in_several_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.jsonl" for name in "ab"]
    for path in paths:
        path.write_text("{}\n{}\n")
    places = [place for place, _ in read(*paths)[0]]
    assert places == [f"{path}, line {line}" for path in paths for line in (1, 2)]


def test_a_folder_is_its_files_by_name(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "notes.txt"):
        (tmp_path / name).write_text(json.dumps({"in": name}) + "\n")
    assert [values["in"] for _, values in read(tmp_path)[0]] == ["a.jsonl", "b.jsonl"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty has no files whose names end in .jsonl"):
        read(tmp_path / "empty")


@pytest.mark.parametrize("name", ["log.jsonl", "log.json", "log", "log.txt", "log.csv", "log.backup.gz"])
@pytest.mark.parametrize(
    "text", ['{"a": 1}\n{"a": 2}\n', '[{"a": 1},\n {"a": 2}]', '{\n"a": 1}\n{\n"a": 2}\n']
)
def test_json_is_recognised_by_content(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else b"\xef\xbb\xbf" + text.encode())
    records, broken = read(path)
    assert [values for _, values in records] == [{"a": 1}, {"a": 2}]
    unit = "line" if text.startswith('{"a"') else "record"
    assert [place for place, _ in records] == [f"{path}, {unit} 1", f"{path}, {unit} 2"]
    assert broken == []


@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_tables_are_recognised_by_content(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "export"
    path.write_text(f"a{delimiter}b\n1{delimiter}2\n")
    assert [values for _, values in read(path)[0]] == [{"a": "1", "b": "2"}]
    pq.write_table(pa.table({"a": [1]}), path)
    assert [values for _, values in read(path)[0]] == [{"a": 1}]


def test_search_responses_are_their_documents(tmp_path: Path) -> None:
    hits = [{"_index": "i", "_id": str(i), "_source": {"a": i}} for i in range(4)]
    response = {"took": 1, "hits": {"total": {"value": 4}, "hits": hits[:2]}}
    scroll = {"_scroll_id": "x", "hits": {"hits": hits[2:]}}
    several = {"responses": [response, scroll]}
    for text in (
        json.dumps(several),
        json.dumps(several, indent=2),
        f"{json.dumps(response)}\n{json.dumps(scroll)}\n",
        json.dumps([response, scroll]),
    ):
        (tmp_path / "response.json").write_text(text)
        records, broken = read(tmp_path / "response.json")
        assert [values for _, values in records] == hits
        assert len({place for place, _ in records}) == 4
        assert broken == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected clicks as JSON, CSV, TSV .* but this is none of them"),
        (b"one column\n", "expected clicks as JSON, CSV"),
        (b"PK\x03\x04rest", "the compressed file is damaged or ends early"),
        (b"\x28\xb5\x2f\xfdrest", "the compressed file is damaged or ends early"),
        (b"\xff\xfea", "the text begins as UTF-16, but is not"),
        (b"<?xml version='1.0'?><session/>", "expected clicks, but this is XML"),
        (b'[{"a": 1},\n{"a": ', r"log, line 2: not JSON \(.*truncated or damaged"),
    ],
)
def test_files_of_another_kind_are_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "log").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read(tmp_path / "log")


def test_an_import_without_files_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no files to import"):
        read()
    with pytest.raises(DataError, match=r"none.csv is not a file"):
        read(tmp_path / "none.csv")


def test_empty_lines_before_the_names_of_columns_are_skipped(tmp_path: Path) -> None:
    """They were taken for names: every row was broken, and every empty line a row."""
    path = tmp_path / "log.csv"
    path.write_text("\n\r\na,b\n1,2\n\n3,4\n")
    records, broken = read(path)
    assert records == [(f"{path}, line 4", {"a": "1", "b": "2"}), (f"{path}, line 6", {"a": "3", "b": "4"})]
    assert not broken


def test_parquet_that_is_not_whole_is_rejected(tmp_path: Path) -> None:
    """Text that is not UTF-8 raised the error of another library where it was first used."""
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"name": ["first", "second"]}), path, compression="none")
    good = path.read_bytes()
    for before, after in ((b"second", b"\xff\xfecond"), (b"name", b"\xffame")):
        path.write_bytes(good.replace(before, after))
        with pytest.raises(DataError, match="not a Parquet file"):
            read(path)
