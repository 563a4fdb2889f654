"""Two imports into one folder, and folders that change while an import runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.logs import ImportOptions, import_columns
from rankloop.progress import Update
from tests.logs.importers.reading import shown

HEADER = "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked\n"


def source(folder: Path, query: str) -> Path:
    path = folder / f"{query}.csv"
    path.write_text(HEADER + f"i,1,{query},a,1,d,0\n")
    return path


def test_what_appears_in_the_folder_meanwhile_is_not_deleted(tmp_path: Path) -> None:
    log = tmp_path / "log"

    def interfere(_: Update) -> None:
        log.mkdir(exist_ok=True)
        (log / "precious").touch()

    with pytest.raises(DataError, match="log exists: choose another folder"):
        import_columns(source(tmp_path, "q"), log, options=ImportOptions(progress=interfere))
    assert (log / "precious").exists()


def test_a_log_that_gets_other_files_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    import_columns(source(tmp_path, "old"), log)

    def interfere(_: Update) -> None:
        (log / "notes.txt").touch()

    with pytest.raises(DataError, match=r"contains other files than a log \(notes.txt\)"):
        import_columns(
            source(tmp_path, "new"), log, options=ImportOptions(overwrite=True, progress=interfere)
        )
    assert [row[1] for row in shown(log)] == ["old"]


@pytest.mark.parametrize("how", [ImportOptions(), ImportOptions(overwrite=True), ImportOptions(append=True)])
def test_a_second_import_into_the_same_folder_is_refused(tmp_path: Path, how: ImportOptions) -> None:
    errors = []

    def start_another(_: Update) -> None:
        try:
            import_columns(source(tmp_path, "second"), tmp_path / "log", options=how)
        except RankloopError as error:
            errors.append(str(error))

    first = source(tmp_path, "first")
    import_columns(first, tmp_path / "log", options=ImportOptions(progress=start_another))
    # Once while it reads, and once when the log is in place and the import still holds the folder.
    assert errors
    assert all("is being written by process" in error for error in errors)
    assert [row[1] for row in shown(tmp_path / "log")] == ["first"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first.csv", "log", "second.csv"]
