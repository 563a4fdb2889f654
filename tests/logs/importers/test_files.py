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
    path.write_text('{"a": 1}\n\n{"a": \n[1]\n{"a": 2}')
    records, broken = read(path)
    assert records == [(f"{path}, line 1", {"a": 1}), (f"{path}, line 5", {"a": 2})]
    assert broken[0] == f"{path}, line 3: not JSON (Expecting value, at character 6)"
    assert broken[1] == f"{path}, line 4: not a JSON object but list"


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


def test_an_unclosed_quote_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('a,b\n1,2\n3,"4\n5,6\n7,8\n')
    with pytest.raises(DataError, match=r"log.csv, line 3: a quote is opened and never closed"):
        read(path)


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


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "log.xlsx",
            "",
            r"log.xlsx: expected clicks in a file whose name ends in .jsonl, .ndjson, .json, .csv, .ts",
        ),
        ("log.json", '[{"a": 1}]', "log.json, line 1: this is one JSON array; expected JSON lines"),
    ],
)
def test_files_of_another_kind_are_rejected(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read(tmp_path / name)


def test_an_import_without_files_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no files to import"):
        read()
    with pytest.raises(DataError, match=r"none.csv is not a file"):
        read(tmp_path / "none.csv")
