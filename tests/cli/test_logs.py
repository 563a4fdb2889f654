"""The commands on logs: what `import` and `check` print and write, and what they refuse."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.logs import MetarankFields, import_metarank, import_ubi, write_simulated
from rankloop.offline import open_log
from tests.cli.commands import Run
from tests.logs.importers.decoys import decoys, world
from tests.logs.importers.reading import rows_of, shown, write_lines
from tests.logs.importers.searches import table as write_table
from tests.logs.logs_of import Row, simulated, write_rows


def query(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "query_id": f"i{number}",
        "user_query": "cat",
        "timestamp": f"2024-05-01T12:00:{number:02}Z",
        "query_response_hit_ids": ["x", "y"],
        "query_attributes": {"policy_id": "a", "scores": {"x": 1.0, "y": 0.5, "z": 0.0}},
        **changes,
    }


def click(number: int, document: str = "x", action: str = "click") -> dict[str, Any]:
    attributes = {"object": {"object_id": document}}
    time = f"2024-05-01T12:01:{number:02}Z"
    return {
        "action_name": action,
        "query_id": f"i{number}",
        "timestamp": time,
        "event_attributes": attributes,
    }


QUERIES = [query(1), query(2, query_attributes={}), query(3, query_response_hit_ids=["y", "x"])]
EVENTS = [click(1), click(2), click(3, "w"), click(1, "y", "tap"), click(1, "y", "buy")]
RANKING = {
    "event": "ranking",
    "id": "i1",
    "timestamp": 1_714_564_800_000,
    "fields": [{"name": "q", "value": "cat"}, {"name": "variant", "value": "b"}],
    "items": [{"id": "x", "relevancy": 2.0}, {"id": "y", "relevancy": 1.0}],
}
IMPRESSION = {"event": "interaction", "ranking": "i1", "timestamp": 1_714_564_801_000, "item": "y"}
HEAD = "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked"
GOOD = f"{HEAD}\ni,5,cat,a,1,x,1\ni,5,cat,a,2,y,0\n"
FEATURES = "query_id,doc_id,f\ncat,x,1\ncat,y,2\ncat,z,3\n"


def test_import_ubi_with_every_option(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "q.jsonl", QUERIES)
    write_lines(tmp_path / "e.jsonl", EVENTS)
    (tmp_path / "f.csv").write_text(FEATURES)
    options = ["--policy", "old", "--ranks", "1", "--clicks", "click", "--clicks", "tap"]
    options += ["--features", "f.csv", "--position-base", "1", "--report", "page.html"]
    options += ["--shown", "hits", "--max-loss", "0.7", "--amount", "buy=5", "--randomised", "old"]
    code, out, err = run("import", "ubi", "q.jsonl", "e.jsonl", "-o", "log", *options)
    assert (code, err) == (0, "")
    assert shown(tmp_path / "log") == [
        ("i1", "cat", "a", 1, "x", True),
        ("i2", "cat", "old", 1, "x", True),
        ("i3", "cat", "a", 1, "y", False),
    ]
    assert re.search(r"│ clicks_not_shown +│ +3 │ +3 │", out)
    assert [row["amount"] for row in rows_of(tmp_path / "log")] == [1.0, 1.0, 0.0]
    assert open_log(tmp_path / "log").randomised == ("old",)
    assert "clicks_not_shown: for example e.jsonl, line 3: impression 'i3', doc 'w'" in out
    assert out.endswith("wrote log\nwrote page.html\n")
    assert max(len(line) for line in out.splitlines() if line[0] in "┏┃┡│└") <= 80
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_a_large_loss_is_no_success(run: Run, tmp_path: Path) -> None:
    """Before: exit code 0 and a log without half of the clicks.

    Now the report is printed, nothing is written, and the exit code is 3.
    """
    write_lines(tmp_path / "q.jsonl", [query(1)])
    write_lines(tmp_path / "e.jsonl", [click(1), click(1, "w")])
    code, out, err = run("import", "ubi", "q.jsonl", "e.jsonl")
    assert code == 3
    assert "clicks_not_shown" in out
    assert "wrote" not in out
    assert "1 of 2 clicks (50.0%) would be left out, which is more than max_loss allows (10%)" in err
    assert not (tmp_path / "log").exists()
    assert run("import", "ubi", "q.jsonl", "e.jsonl", "--json").code == 3
    assert run("import", "ubi", "q.jsonl", "e.jsonl", "--max-loss", "0.51").code == 0
    assert run("import", "ubi", "q.jsonl", "e.jsonl", "--max-loss", "0.51", "--append").code == 0
    assert len(shown(tmp_path / "log")) == 2


def test_import_prints_the_report_as_json(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "q.jsonl", [query(1)])
    write_lines(tmp_path / "e.jsonl", [click(1), click(1)])
    code, out, err = run("import", "ubi", "q.jsonl", "e.jsonl", "--json")
    assert (code, err) == (0, "")
    expected = import_ubi(["q.jsonl", "e.jsonl"], "other").to_dict()
    assert json.loads(out) == expected | {"log": "log"}
    refused = run("import", "ubi", "q.jsonl", "e.jsonl")
    assert (refused.code, refused.err) == (
        2,
        "rankloop: log exists: choose another folder, or replace it with --overwrite (overwrite=True)\n",
    )
    assert run("import", "ubi", "q.jsonl", "e.jsonl", "--overwrite").code == 0


def test_import_metarank_with_every_option(run: Run, tmp_path: Path) -> None:
    write_lines(tmp_path / "e.jsonl", [RANKING, IMPRESSION | {"type": "like"}])
    fields = ["--query", "q", "--policy-field", "variant", "--score-field", "relevancy"]
    code, _, err = run("import", "metarank", "e.jsonl", *fields, "--clicks", "like", "--strict")
    assert (code, err) == (0, "")
    named = MetarankFields(query="q", policy="variant", score="relevancy")
    report = import_metarank("e.jsonl", "other", fields=named, clicks=["like"])
    for table in ("impressions", "candidates"):
        assert rows_of(tmp_path / "log", table) == rows_of(report.log, table)
    assert shown(tmp_path / "log")[1] == ("i1", "cat", "b", 2, "y", True)
    defaults = write_lines(
        tmp_path / "d.jsonl",
        [RANKING | {"fields": [{"name": "query", "value": "cat"}]}, IMPRESSION | {"type": "x"}],
    )
    assert run("import", "metarank", defaults.name, "-o", "plain", "--policy", "old").code == 0
    assert shown(tmp_path / "plain")[0][2] == "old"


def test_import_columns_with_every_option(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    head = "session,text,rank,sku,part\n"
    (tmp_path / "t" / "1.csv").write_text(head + "i,cat,0,x,a\ni,cat,1,y,a\n")
    (tmp_path / "t" / "2.csv").write_text(head + "j,cat,0,y,b\nk,cat,0,y,a\n")
    (tmp_path / "c.csv").write_text("session,sku\ni,y\n")
    (tmp_path / "s.csv").write_text("text,sku,score\ncat,x,1\ncat,y,0.5\n")
    names = "impression_id=session, query_id=text, position=rank, doc_id=sku, timestamp=-"
    options = ["--columns", names, "--policy", "p", "--clicks", "c.csv", "--candidates", "s.csv"]
    code, out, err = run(
        "import", "columns", "t", *options, "--only", "part=a", "--position-base", "0", "--out", "deep/er/log"
    )
    assert (code, err) == (0, "")
    assert shown(tmp_path / "deep" / "er" / "log") == [
        ("i", "cat", "p", 1, "x", False),
        ("i", "cat", "p", 2, "y", True),
        ("k", "cat", "p", 1, "y", False),
    ]
    assert "set aside: rows where part is not 'a'" in out
    assert "Problems of the source: none found." in out


def test_check_prints_what_the_check_finds(run: Run, tmp_path: Path) -> None:
    split, gathered = simulated()
    write_simulated(tmp_path / "log", split, gathered)
    found = open_log("log").check()
    code, out, err = run("check", "log", "--report", "page.html")
    assert code == 0
    assert [line for line in err.splitlines() if not line.startswith("compiling")] == []
    assert f"{found.impressions:,} impressions of {found.queries:,} queries" in out
    policies = re.findall(r"^│ ([az]) +│ +60 │ +2020-01-01 +(?:00:0\d )?│ +2020-01-01", out, re.MULTILINE)
    assert policies == ["z", "a"]
    for rank, rate in enumerate(found.policies[0].click_rate_by_position, 1):
        assert re.search(rf"│ {rank} +│ {rate:.3f} \(", out)
    assert out.startswith(f"{found.summary}\n")
    assert "Problems of the log: none found." in out
    assert out.endswith(f"{found.next_step}\n{found.command}\nwrote page.html\n")
    assert max(len(line) for line in out.splitlines() if line[:1] in set("┃│┏└")) <= 80
    assert "<figure>" in (tmp_path / "page.html").read_text()
    as_json = run("check", "log", "--json")
    assert json.loads(as_json.out) == json.loads(json.dumps(found.to_dict() | {"log": "log"}))


def test_check_warns_and_says_what_the_import_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{HEAD}\n" + "".join(f"{i},5,cat,a,1,x,1\n" for i in "iij"))
    (tmp_path / "f.csv").write_text("query_id,doc_id,f\ncat,y,1\n")
    imported = run("import", "columns", "t.csv", "--features", "f.csv")
    assert re.search(r"│ missing_features +│ +1 │ +0 │", imported.out)
    code, out, _ = run("check", "log")
    assert code == 0
    assert "note: policy 'a' does not explore" in out
    assert "note: policy 'a' has no candidates" in out
    assert "note: 1 documents have no features" in out
    assert "Found when the log was imported: 1 duplicate_rows, 1 missing_features" in out


def test_check_says_why_features_cannot_be_used(run: Run, tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "log", [Row("i", "q", "a", 1, "x", True, 5)])
    pq.write_table(pa.table({"query_id": ["q"], "doc_id": ["x"], "f": [np.inf]}), folder / "features.parquet")
    code, out, _ = run("check", "log")
    assert code == 0
    assert "note: log/features.parquet: query 'q', document 'x': feature 'f' is inf" in out


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _parquet(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def _own(**changes: Any) -> dict[str, Any]:
    """Columns of a log's own table, with these changed."""
    ids = {"impression_id": ["i"], "timestamp": pa.nulls(1), "query_id": ["q"], "policy_id": ["a"]}
    columns = ids | {"position": [1], "doc_id": ["x"], "clicked": [True]} | changes
    return {name: values for name, values in columns.items() if values is not None}


LINES = b"".join(json.dumps(query(n)).encode() + b"\n" for n in range(50))
COLUMNS, UBI = ["import", "columns", "table"], ["import", "ubi", "queries", "events.jsonl"]
# Files, the command, and what it says; `table` and `queries` stand for the file's name.
WRONG: dict[str, tuple[str, str | bytes, list[str], str]] = {
    "wrong columns": (
        "t.csv", "session,query_id\ni,q\n", COLUMNS,
        "t.csv, line 2: the column 'position' is missing.*but found: session, query_id. Name columns as in",
    ),
    "wrong types": (
        "t.csv", f"{HEAD}\ni,5,q,a,first,x,1\n", COLUMNS,
        "t.csv: no impression could be read: 1 lines .*line 2: position is 'first'; expected a whole number",
    ),
    "mixed position bases": (
        "t.csv", f"{HEAD}\ni,5,q,a,0,x,1\nj,5,q,a,1,x,1\n", COLUMNS,
        "positions seem to count from 0 in 1 impressions .* and from 1 in 1 impressions",
    ),
    "an empty table": ("t.csv", "", COLUMNS, "t.csv: no impression could be read: the files are empty"),
    "a table without rows": ("t.csv", f"{HEAD}\n", COLUMNS, "t.csv: no impression could be read: the files"),
    "a cut archive": ("t.zip", "PK\3\4", COLUMNS, "t.zip, after line 0: the compressed file is damaged"),
    "Metarank's events": (
        "t.csv", json.dumps(RANKING), COLUMNS, "t.csv, line 1: this looks like Metarank's events, not",
    ),
    "a broken line, strictly": (
        "t.csv", f"{GOOD}i,5,q\n", [*COLUMNS, "--strict"],
        "t.csv: strict import failed: 1 lines .*t.csv, line 4: 3 fields where the first line has 7",
    ),
    "a quote that is never closed": (
        "t.csv", f'{GOOD}"i,5,q,a,1,x,1\n', COLUMNS, "t.csv, line 4: a quote is opened and never closed",
    ),
    "unreadable --columns": ("t.csv", GOOD, [*COLUMNS, "--columns", "query=q"], "cannot parse 'query=q'"),
    "unreadable --only": ("t.csv", GOOD, [*COLUMNS, "--only", "train"], "--only expects column=value"),
    "another base": ("t.csv", GOOD, [*COLUMNS, "--position-base", "2"], "position_base must be 0, 1 or None"),
    "a page that cannot be": (
        "t.csv", GOOD, [*COLUMNS, "--report", "t.csv/page.html"], "t.csv/page.html cannot be written",
    ),
    "a log that cannot be": ("t.csv", GOOD, [*COLUMNS, "-o", "t.csv/log"], "t.csv/log cannot be written"),
    "an output that is there": ("t.csv", GOOD, [*COLUMNS, "-o", "there"], "there exists: choose another"),
    "an output that is no log": (
        "t.csv", GOOD, [*COLUMNS, "-o", "there", "--overwrite"], "there is not a log, and is not overwritten",
    ),
    "parquet, cut short": (
        "t.parquet", _cut(_parquet(a=list(range(5000)))), COLUMNS,
        "t.parquet: this is not a Parquet file, or part of it is missing: write or copy it again",
    ),
    "gzip, cut short": (
        "q.jsonl.gz", _cut(gzip.compress(LINES)), UBI,
        r"q.jsonl.gz, after line \d+: the compressed file is damaged or ends early",
    ),
    "broken JSON, strictly": (
        "q.jsonl", LINES + b'{"query_id": \n', [*UBI, "--strict"],
        r"q.jsonl, events.jsonl: strict import failed: 1 lines .*q.jsonl, line 51: not JSON \(Expecting v",
    ),
    "a JSON array": ("q.json", b"[" + LINES + b"]", UBI, r"q.json, line 2: not JSON \(Expecting"),
    "no events": (
        "q.jsonl", LINES, ["import", "ubi", "queries", "nowhere.jsonl"], "nowhere.jsonl is not a file",
    ),
    "rankings alone are missing": (
        "q.jsonl", json.dumps(IMPRESSION | {"type": "click"}), ["import", "metarank", "queries"],
        "q.jsonl: no impression could be read",
    ),
    "features without some": (
        "f.csv", "query_id,doc_id,f\ncat,x,1\n",
        ["import", "columns", "good.csv", "--strict", "--features", "table"],
        "strict import failed: 1 documents without features: .*good.csv, line 3: query 'cat', doc 'y'",
    ),
    "infinite features": (
        "f.csv", "query_id,doc_id,f\ncat,x,1\ncat,y,inf\n",
        ["import", "columns", "good.csv", "--features", "table"],
        "f.csv: query 'cat', document 'y': feature 'f' is inf; features must be finite",
    ),
    "features twice": (
        "f.csv", "query_id,doc_id,f\ncat,x,1\ncat,x,2\n",
        ["import", "columns", "good.csv", "--features", "table"],
        "f.csv: 2 rows for query 'cat', document 'x'",
    ),
    "features of another kind": (
        "f.txt", "x", ["import", "columns", "good.csv", "--features", "table"],
        "f.txt: the features cannot be read as Parquet",
    ),
    "no log": ("t.csv", GOOD, ["check", "nowhere"], "nowhere is not a folder: a log is a folder that"),
    "a folder that is no log": ("t.csv", GOOD, ["check", "there"], r"there is not a log: .*only \['thesis"),
    "an empty log": (
        "impressions.parquet",
        _parquet(**{name: pa.array(values)[:0] for name, values in _own().items()}),
        ["check", "."],
        r"\.: the log is empty: it has no rows of impressions",
    ),
    "a log with wrong columns": (
        "impressions.parquet", _parquet(**_own(doc_id=None)), ["check", "."],
        "impressions.parquet: the column 'doc_id' is missing; a table of impressions has",
    ),
    "a log with wrong types": (
        "impressions.parquet", _parquet(**_own(clicked=[1.0])), ["check", "."],
        "impressions.parquet: the column 'clicked' holds double; expected true or false",
    ),
    "a log with positions from 0": (
        "impressions.parquet", _parquet(**_own(position=[0])), ["check", "."],
        "document 'x': the position is 0, but positions count from 1",
    ),
    "a log, cut short": (
        "impressions.parquet", _cut(_parquet(**_own())), ["check", "."],
        "impressions.parquet: this is not a Parquet file, or its end is missing",
    ),
    "another engine": (
        "impressions.parquet", _parquet(**_own()), ["check", ".", "--engine", "hive"],
        "unknown engine 'hive': choose duckdb, spark or postgres",
    ),
    "a master of DuckDB": (
        "impressions.parquet", _parquet(**_own()), ["check", ".", "--master", "local"], "is for Spark",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_left(run: Run, tmp_path: Path, case: str) -> None:
    name, content, command, message = WRONG[case]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    (tmp_path / "good.csv").write_text(GOOD)
    write_lines(tmp_path / "events.jsonl", [click(1)])
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "thesis.txt").touch()
    before = {path: path.stat().st_size for path in tmp_path.rglob("*")}
    code, out, err = run(*(name if word in ("table", "queries") else word for word in command))
    said = [line for line in err.splitlines() if not line.startswith("compiling kernels")]
    assert (code, out) == (2, "")
    assert len(said) == 1
    assert re.match(f"rankloop: .*{message}", said[0])
    assert {path: path.stat().st_size for path in tmp_path.rglob("*")} == before


def test_files_are_looked_at_and_imported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "my clicks.csv").write_text(GOOD)
    code, out, err = run("import", "my clicks.csv", "--dry-run")
    assert (code, err) == (0, "")
    assert "  cat    1970-01-01 00:00:05    a\n      1  ● x\n      2    y\n" in out
    assert not (tmp_path / "log").exists()
    code, out, err = run("import", "my clicks.csv", "--out", "new", "--json")
    assert (code, err, json.loads(out)["rows"]) == (0, "", 2)
    assert run("import", "my clicks.csv", "--map", "new/mapping.toml", "-o", "again").code == 0
    assert rows_of(tmp_path / "again") == rows_of(tmp_path / "new")
    code, out, err = run("import", "colums", "my clicks.csv")
    assert (code, out) == (2, "")
    assert err.startswith("rankloop: unknown format or file 'colums', did you mean 'columns'? There are: ")


def test_what_has_to_be_decided_is_written_and_named(run: Run, tmp_path: Path) -> None:
    """Two columns that both could be the position: nobody can be asked here, so nothing is imported."""
    decoy = next(one for one in decoys() if one.name == "shop rank of retrieval")
    write_table(tmp_path / "t.csv", decoy.header, decoy.rows(world()))
    for options in ((), ("--yes",)):
        code, _, err = run("import", "t.csv", "-o", "new", *options)
        assert code == 2
        assert "position could be rank or slot. Nothing was imported. Decide it in new-mapping.toml" in err
        assert err.endswith("then run: rankloop import t.csv --map new-mapping.toml -o new\n")
        assert not (tmp_path / "new").exists()
    mapping = tmp_path / "new-mapping.toml"
    assert run("import", "t.csv", "--map", mapping.name, "-o", "new").code == 2
    mapping.write_text(mapping.read_text().replace('"? rank or slot"', '"slot"'))
    assert run("import", "t.csv", "--map", mapping.name, "-o", "new").code == 0
    assert max(row["position"] for row in rows_of(tmp_path / "new")) == 6


def test_a_page_is_not_begun_for_a_log_that_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{HEAD}\n")
    for command in (["import", "columns", "t.csv"], ["check", "log"]):
        assert run(*command, "--report", "pages/page.html").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
