"""Stores of earlier versions are brought up to date."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from sqlalchemy import create_engine, text

from rankloop.live import open_store
from rankloop.live.learner.notes import add_entry
from rankloop.live.overview import read_diary
from rankloop.live.store.database import read


def test_the_diary_of_an_earlier_store_is_kept(tmp_path: Path) -> None:
    """It was called `verdicts`."""
    with closing(open_store(str(tmp_path / "store"))) as store, store.engine.begin() as connection:
        add_entry(connection, "learned", "something was learned", {})
    engine = create_engine(f"sqlite:///{tmp_path / 'store' / 'store.sqlite'}")
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE diary RENAME TO verdicts"))
        connection.execute(text("DELETE FROM migrations WHERE number > 1"))
    engine.dispose()
    with closing(open_store(str(tmp_path / "store"))) as store, read(store) as connection:
        assert [one["text"] for one in read_diary(connection)] == ["something was learned"]
