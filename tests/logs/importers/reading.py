"""Helpers for the tests of importers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rankloop.logs import ImportReport


def write_lines(path: Path, records: list[Any]) -> Path:
    """JSON lines; text as it is."""
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records))
    return path


def rows_of(folder: Path, table: str = "impressions") -> list[dict[str, Any]]:
    """The rows of a table of a log."""
    rows: list[dict[str, Any]] = pq.read_table(folder / f"{table}.parquet").to_pylist()
    return rows


def shown(folder: Path) -> list[tuple[str, str, str, int, str, bool]]:
    """Rows of impressions without their times."""
    names = ("impression_id", "query_id", "policy_id", "position", "doc_id", "clicked")
    return [tuple(row[name] for name in names) for row in rows_of(folder)]  # type: ignore[misc]


def counts(report: ImportReport) -> dict[str, int]:
    """How often each problem was found."""
    return {problem.name: problem.count for problem in report.problems}


def examples(report: ImportReport, name: str) -> tuple[str, ...]:
    """Examples of a problem."""
    (problem,) = (problem for problem in report.problems if problem.name == name)
    return problem.examples
