"""The path of a log is a path: it never changes what is read."""

from __future__ import annotations

import random
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

import rankloop
from rankloop.errors import DataError
from rankloop.logs import import_columns
from tests.logs.logs_of import Row, write_rows

# Letters that DuckDB, Arrow or Spark give a meaning to, and a few that they do not.
LETTERS = "ab[]*?{}=!^-,:;%$#@~'\" é\n&+"


def rows(mark: str) -> list[Row]:
    """Two queries; the mark tells one log from another."""
    return [Row(f"i{n}", f"q{n % 2}", "p", 1, f"{mark}{n}", n == 0) for n in range(4)]


def read(folder: Path) -> tuple[list[str], list[str]]:
    counts = rankloop.open_log(folder).count()
    return counts.query_ids.tolist(), counts.doc_ids.tolist()


@pytest.mark.parametrize(
    "name", ["log[1]", "log*", "log?", "[a-z]", "query_id=5", "doc_id=x,policy_id=y", "s3:", "~", "a\\b"]
)
def test_a_path_is_not_a_pattern(tmp_path: Path, name: str) -> None:
    """Before: ``log[1]`` read ``log1``, and below ``query_id=5`` all queries were query 5."""
    for other in ("log1", "logx", "m", name):
        write_rows(tmp_path / other / "log", rows(other))
    assert read(tmp_path / name / "log") == (["q0", "q1"], [f"{name}{n}" for n in (0, 2, 1, 3)])


def test_any_path_is_read_as_it_is_spelt(tmp_path: Path) -> None:
    chosen = random.Random(18)
    for number in range(40):
        name = "".join(chosen.choices(LETTERS, k=chosen.randint(1, 8)))
        folder = write_rows(tmp_path / f"{number}" / name / "log", rows("d"))
        assert read(folder) == (["q0", "q1"], ["d0", "d2", "d1", "d3"]), name


def test_a_relative_path_is_not_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(tmp_path / "http:" / "log", rows("d"))
    assert read(Path("http:") / "log")[0] == ["q0", "q1"]


def test_a_path_that_duckdb_cannot_be_given_is_refused(tmp_path: Path) -> None:
    folder = write_rows(tmp_path / "a\\[b]" / "log", rows("d"))
    with pytest.raises(DataError, match="backslash together with"):
        read(folder)


def test_an_import_does_not_depend_on_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: with ``query_id=abc`` in TMPDIR every row of an import became query abc."""
    scratch = tmp_path / "query_id=abc" / "[x]*"
    scratch.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    source = tmp_path / "log.csv"
    source.write_text(
        "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked\ni,1,q1,p,1,d,1\nj,2,q2,p,1,d,0\n"
    )
    import_columns(source, tmp_path / "log")
    assert read(tmp_path / "log")[0] == ["q1", "q2"]


def test_a_log_divided_by_time_does_not_depend_on_its_path(tmp_path: Path) -> None:
    """Before: Arrow added a column for a folder called ``query_id=5``."""
    from rankloop.offline.division import _earlier

    day = 86_400_000_000
    timed = [row._replace(timestamp=n * day) for n, row in enumerate(rows("d"))]
    log = rankloop.open_log(write_rows(tmp_path / "query_id=5" / "log", timed))
    with _earlier(log, datetime(1970, 1, 3, tzinfo=UTC)) as earlier:
        assert earlier.count().query_ids.tolist() == ["q0", "q1"]
