"""What goes wrong inside DuckDB, and how it is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop.errors import DataError
from rankloop.logs import engines
from rankloop.logs.engines import MEMORY, data_errors, engine, share_of_memory


def test_stopping_inside_a_query_is_told_as_stopping() -> None:
    with pytest.raises(KeyboardInterrupt), data_errors():
        raise RuntimeError("Query interrupted") from KeyboardInterrupt()
    with pytest.raises(RuntimeError, match="ours"), data_errors():
        raise RuntimeError("ours")


def test_a_damaged_file_is_wrong_data(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    with pytest.raises(DataError, match="the log cannot be read"), engine() as running:
        running.table([tmp_path / "a.parquet"])


def test_an_import_uses_no_more_than_a_share_of_what_a_container_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(engines, "CONTAINER_LIMIT", limit)
    whole = share_of_memory()
    assert whole >= MEMORY
    limit.write_text("max\n")
    assert share_of_memory() == whole
    limit.write_text(f"{10**9}\n")
    assert share_of_memory() == MEMORY
