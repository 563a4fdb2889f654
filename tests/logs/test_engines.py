"""What goes wrong inside DuckDB, and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop.errors import DataError
from rankloop.logs.engines import data_errors, engine


def test_stopping_inside_a_query_is_told_as_stopping() -> None:
    with pytest.raises(KeyboardInterrupt), data_errors():
        raise RuntimeError("Query interrupted") from KeyboardInterrupt()
    with pytest.raises(RuntimeError, match="ours"), data_errors():
        raise RuntimeError("ours")


def test_a_damaged_file_is_wrong_data(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    with pytest.raises(DataError, match="the log cannot be read"), engine() as running:
        running.table([tmp_path / "a.parquet"])
