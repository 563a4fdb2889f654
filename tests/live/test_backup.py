"""Backups while the service runs, and databases and logs of which one is older; a store that vanishes."""

from __future__ import annotations

import json
import shutil
import threading
import time
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from rankloop import open_log
from rankloop.cli import app
from rankloop.errors import RankloopError
from rankloop.live import Client, RankRequest, Service, Store, open_store, prepare
from rankloop.live.backup import back_up
from rankloop.live.learner.learner import LiveLearner
from rankloop.live.learner.retention import forget_rows
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.store.database import DATABASE_FILE, StoreLostError
from tests.live.conftest import serving

sqlite_only = pytest.mark.parametrize("location", ["sqlite"], indirect=True)
SEALING = LearnerSettings(window=0.0)


def visit(store: Store, *names: str) -> None:
    """Rank a page that is new for each name."""
    service = Service(store, names=("a",))
    for name in names:
        service.rank(RankRequest("cat", ("x", "y"), ([float(len(name))], [1.0]), id=name))
    service.close()


def logged(store: Store) -> list[str]:
    table = pq.read_table(store.log / "impressions.parquet", columns=["impression_id", "position"])
    return sorted(row["impression_id"] for row in table.to_pylist() if row["position"] == 1)


def step(store: Store) -> list[str]:
    return LiveLearner(store, SEALING, sealing_only=True).step()


@sqlite_only
def test_a_backup_of_a_running_service_has_what_was_acknowledged(store: Store, tmp_path: Path) -> None:
    prepare(store)
    acknowledged: list[str] = []
    stop = threading.Event()
    with serving(store, names=("a",)) as url, closing(Client(url)) as client:

        def visit_and_seal() -> None:
            while not stop.is_set():
                name = f"page{len(acknowledged)}"
                client.rank("cat", {"x": [len(acknowledged)], "y": [1.0]}, id=name)
                acknowledged.append(name)
                if len(acknowledged) % 5 == 0:
                    step(store)

        thread = threading.Thread(target=visit_and_seal)
        thread.start()
        while len(acknowledged) < 12:
            time.sleep(0.01)
        before = acknowledged.copy()
        done = CliRunner().invoke(app, ["backup", store.location, str(tmp_path / "copy")])
        assert done.exit_code == 0, done.output
        stop.set()
        thread.join()
    with closing(open_store(tmp_path / "copy")) as copy:
        step(copy)
        assert {*before} <= {*logged(copy)} <= {*acknowledged}
        assert len(logged(copy)) == len({*logged(copy)})
        assert open_log(copy.log).check().impressions == len(logged(copy))
        assert (tmp_path / "copy" / DATABASE_FILE).stat().st_mode & 0o077 == 0


@sqlite_only
def test_a_backup_does_not_overwrite(store: Store, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "notes.txt").write_text("mine")
    with pytest.raises(RankloopError, match="other files"):
        back_up(store, tmp_path / "copy")
    assert [file.name for file in (tmp_path / "copy").iterdir()] == ["notes.txt"]


@sqlite_only
def test_an_older_database_beside_a_newer_log(store: Store, tmp_path: Path) -> None:
    prepare(store)
    visit(store, "first")
    step(store)
    visit(store, "second")
    back_up(store, tmp_path / "copy")
    step(store)
    visit(store, "third")
    step(store)
    assert logged(store) == ["first", "second", "third"]
    shutil.rmtree(tmp_path / "copy" / "log")
    shutil.copytree(store.log, tmp_path / "copy" / "log")
    with closing(open_store(tmp_path / "copy")) as restored:
        done = step(restored)
        assert "2 parts of the log that the database does not know were moved to" in done[0]
        # The second page is sealed again, once; of the third the database knows nothing.
        assert logged(restored) == ["first", "second"]
        assert open_log(restored.log).check().impressions == 2
        (aside,) = (tmp_path / "copy").glob("log-unknown-*")
        assert len([*aside.rglob("impressions.parquet/part-*")]) == 2
        assert step(restored) == []


def test_an_older_log_beside_a_newer_database(store: Store) -> None:
    prepare(store)
    for name in ("first", "second", "third"):
        visit(store, name)
        step(store)
    content = {file: file.read_bytes() for file in store.log.rglob("part-*")}
    # The pages of the first part are in the log alone.
    assert forget_rows(store, time.time() + 1, counted=1) == 1
    shutil.rmtree(store.log)
    assert [line.partition(":")[0] for line in step(store)] == [
        "part 1 of the log is missing, and so are its pages in the database",
        "part 2 of the log was missing and was written again",
        "part 3 of the log was missing and was written again",
    ]
    assert logged(store) == ["second", "third"]
    assert all(content[file] == file.read_bytes() for file in store.log.rglob("part-*"))
    assert step(store) == []


@sqlite_only
def test_other_files_in_the_log_are_put_aside(store: Store) -> None:
    """A copy that somebody made would be read as more pages, and a damaged manifest is written again."""
    prepare(store)
    visit(store, "one")
    step(store)
    folder = store.log / "impressions.parquet"
    (part,) = folder.iterdir()
    shutil.copy(part, folder / "part-00000001 (copy).parquet")
    shutil.copy(part, folder / "old.parquet")
    (store.log / "manifest.json").write_text("[]")
    (said,) = step(store)
    assert said.startswith("2 parts of the log that the database does not know were moved to")
    assert [*folder.iterdir()] == [part]
    assert step(store) == []


@sqlite_only
def test_the_log_of_another_store_is_left_alone(store: Store, tmp_path: Path) -> None:
    prepare(store)
    visit(store, "first")
    step(store)
    with closing(open_store(tmp_path / "other", log=store.log)) as other:
        prepare(other)
        visit(other, "strange")
        with pytest.raises(RankloopError, match="the log of another store"):
            step(other)
    assert logged(store) == ["first"]


@sqlite_only
@pytest.mark.parametrize("how", ["folder", "database", "journal", "replaced"])
def test_a_store_that_vanishes_is_noticed(store: Store, how: str) -> None:
    prepare(store)
    place = Path(store.location)
    with serving(store, names=("a",)) as url, closing(Client(url, retries=0)) as client:
        client.rank("cat", {"x": [1.0], "y": [2.0]})
        assert client.send("GET", "/readyz")["ready"]
        if how == "folder":
            shutil.rmtree(place)
        elif how == "journal":
            (place / f"{DATABASE_FILE}-wal").unlink()
        else:
            (place / DATABASE_FILE).unlink()
        if how == "replaced":
            with closing(open_store(place, log=store.log)) as other:
                prepare(other)
        for path, body in (("/readyz", None), ("/rank", {"query": "cat", "candidates": [{"id": "x"}]})):
            data = None if body is None else json.dumps(body).encode()
            asked = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(asked, timeout=120)
            with caught.value as answer:
                text = answer.read().decode()
                # SQLite may notice by itself that another file has taken the place.
                assert answer.status == 503, text
                assert "deleted or replaced" in text or "the store cannot be" in text, text
    with pytest.raises(StoreLostError):
        step(store)
