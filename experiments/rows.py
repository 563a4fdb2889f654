"""The rows behind tables: JSON, one row per line, so that an interrupted program resumes where it stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read_rows(*paths: Path) -> list[Row]:
    """The rows of these files; a file that does not exist has none."""
    return [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines()]


def append_row(path: Path, row: Row) -> None:
    """Add a row to a file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
