"""Queries that differ by case, white space or forms of Unicode alone are one, however they are read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop.errors import DataError
from rankloop.logs import Columns, ImportOptions, ImportReport, import_columns, import_metarank
from rankloop.logs.importers.mapped import import_files
from rankloop.logs.importers.mapping import read_mapping
from tests.logs.importers.reading import rows_of, write_lines

TEXTS = ["Blue  Shoes", "blue shoes", "BLUE\u00a0SHOES ", "Straße", "STRASSE", "cafe\u0301", "Café", "red"]
QUERIES = ["blue shoes"] * 3 + ["strasse"] * 2 + ["café"] * 2 + ["red"]
NAMES = "impression_id=i, query_id=q, position=p, doc_id=d, clicked=c, timestamp=-, policy_id=-"
GROUPED = ImportOptions(normalise=("query",))
NOTE = "Different queries: 8 before, 4 after."


def rows() -> list[dict[str, object]]:
    return [
        {"i": f"i{at}", "q": text, "p": place, "d": f"d{place}", "c": place - 1, "price": at}
        for at, text in enumerate(TEXTS)
        for place in (1, 2)
    ]


def lists() -> list[dict[str, object]]:
    return [{"i": f"i{at}", "q": text, "d": ["d1", "d2"], "c": ["d2"]} for at, text in enumerate(TEXTS)]


def as_csv(path: Path) -> Path:
    lines = [",".join(f'"{value}"' for value in row.values()) for row in rows()]
    path.write_text("\n".join(["i,q,p,d,c,price", *lines, ""]), encoding="utf-8")
    return path


def as_parquet(path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows()), path)
    return path


def as_codes(path: Path) -> Path:
    table = pa.Table.from_pylist(rows())
    pq.write_table(table.set_column(1, "q", table["q"].dictionary_encode()), path)
    return path


def as_rows(path: Path) -> Path:
    """Positions that only the reading of single rows accepts."""
    return write_lines(path, [{**row, "p": float(str(row["p"]))} for row in rows()])


def queries(report: ImportReport) -> list[str]:
    found = {row["impression_id"]: row["query_id"] for row in rows_of(report.log)}
    return [found[f"i{at}"] for at in range(len(TEXTS))]


@pytest.mark.parametrize(
    ("write", "position"),
    [(as_csv, "p"), (as_parquet, "p"), (as_codes, "p"), (as_rows, "p"), (None, "-")],
)
def test_queries_are_grouped_on_every_path(tmp_path: Path, write: object, position: str) -> None:
    path = tmp_path / "table"
    source = write(path) if callable(write) else write_lines(path, lists())
    columns = Columns.parse(NAMES.replace("position=p", f"position={position}"))
    plain = import_columns(source, tmp_path / "plain", columns=columns)
    report = import_columns(source, tmp_path / "log", columns=columns, options=GROUPED)
    assert queries(plain) == TEXTS
    assert queries(report) == QUERIES
    assert any(NOTE in hint for hint in report.hints)
    assert (report.rows, report.clicks) == (plain.rows, plain.clicks)
    again = import_files(source, tmp_path / "again", mapping=report.log / "mapping.toml")
    assert rows_of(again.log) == rows_of(report.log)


def test_features_of_the_table_follow_its_queries(tmp_path: Path) -> None:
    """Of a document of a query that came again, the last row counts."""
    report = import_columns(
        as_csv(tmp_path / "t.csv"),
        tmp_path / "log",
        columns=Columns.parse(NAMES),
        feature_columns=["price"],
        options=GROUPED,
    )
    table = pq.read_table(report.log / "features.parquet").to_pylist()
    found = {(row["query_id"], row["doc_id"]): row["price"] for row in table}
    last = {"blue shoes": 2.0, "strasse": 4.0, "café": 6.0, "red": 7.0}
    assert found == {(query, doc): price for query, price in last.items() for doc in ("d1", "d2")}


def test_queries_of_other_formats_are_grouped(tmp_path: Path) -> None:
    events = [
        {
            "event": "ranking", "id": f"i{at}", "timestamp": 1_700_000_000_000 + at, "user": "u",
            "session": f"s{at}", "fields": [{"name": "query", "value": text}],
            "items": [{"id": "d1"}, {"id": "d2"}],
        }
        for at, text in enumerate(TEXTS)
    ]  # fmt: skip
    source = write_lines(tmp_path / "e.jsonl", events)
    report = import_metarank(source, tmp_path / "log", options=GROUPED)
    assert queries(report) == QUERIES
    assert read_mapping(report.log / "mapping.toml").normalise == ("query",)


def test_queries_of_frames_are_grouped() -> None:
    table = pa.Table.from_pylist(rows())
    log = rankloop.log(
        table, impression="i", query="q", document="d", position="p", clicked="c", options=GROUPED
    )
    assert log.count().query_ids.tolist() == sorted(set(QUERIES))


@pytest.mark.parametrize(("before", "after"), [((), ("query",)), (("query",), ())])
def test_grouped_queries_are_not_added_to_others(
    tmp_path: Path, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    source, columns = as_csv(tmp_path / "t.csv"), Columns.parse(NAMES)
    import_columns(source, tmp_path / "log", columns=columns, options=ImportOptions(normalise=before))
    adding = ImportOptions(normalise=after, append=True)
    with pytest.raises(DataError, match="--normalise query, or all files at once"):
        import_columns(source, tmp_path / "log", columns=columns, options=adding)
    same = ImportOptions(normalise=before, append=True)
    assert import_columns(source, tmp_path / "log", columns=columns, options=same).imports == 2


@pytest.mark.parametrize("value", ['["title"]', '"query"'])
def test_what_cannot_be_normalised_is_refused(tmp_path: Path, value: str) -> None:
    path = tmp_path / "m.toml"
    path.write_text(f'[fields]\ndoc_id = "d"\n[options]\nnormalise = {value}\n')
    with pytest.raises(DataError, match=r"m\.toml, \[options\]: normalise is a list that may have 'query'"):
        read_mapping(path)


def test_a_table_without_queries_has_none_to_normalise(tmp_path: Path) -> None:
    columns = Columns.parse(NAMES.replace("query_id=q", "query_id=-"))
    with pytest.raises(DataError, match="no query to normalise"):
        import_columns(as_csv(tmp_path / "t.csv"), tmp_path / "log", columns=columns, options=GROUPED)
