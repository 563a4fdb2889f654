"""Lists that share an id, such as that of a session: each is an impression, and clicks find theirs.

The first list of an id has the id as its name, later ones ``id#2``, and so on. A click belongs to the last
list before it that shows its document; to the first one if there is none before it, because clocks differ.

Rows of documents may share an id, too, which may also be that of a single row. A click that does not name its
document is on the one at its position, or on the only one of its row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa

from rankloop.logs.importers.staging import CLICKS, SCHEMAS, TIME, Staging

LISTS, RAW_CLICKS = "session_lists", "session_clicks"
_TEXT = pa.string()
RAW_SCHEMAS = {
    LISTS: pa.schema(
        [
            ("session", _TEXT),
            ("impression_id", _TEXT),
            ("timestamp", TIME),
            ("place", pa.int64()),
            ("doc_id", _TEXT),
            ("position", pa.int64()),
        ]
    ),
    RAW_CLICKS: SCHEMAS[CLICKS],
}

_LAST_BEFORE = """
WITH pairs AS (
    SELECT clicks.place AS click, clicks.doc_id AS clicked, lists.impression_id AS found,
        lists.doc_id AS document, lists.timestamp AS shown_at, lists.place AS shown_place,
        clicks.place >= lists.place AS follows,
        coalesce(lists.timestamp <= clicks.timestamp, clicks.place >= lists.place) AS before
    FROM read_parquet(?) AS clicks JOIN read_parquet(?) AS lists
        ON clicks.impression_id = lists.session AND (clicks.doc_id = lists.doc_id OR (clicks.doc_id IS NULL
            AND coalesce(clicks.position = lists.position, true)))
), chosen AS (
    SELECT click, clicked, found, document FROM pairs
    QUALIFY row_number() OVER (PARTITION BY click, clicked ORDER BY before DESC,
        CASE WHEN before THEN shown_at END DESC NULLS LAST, CASE WHEN before THEN follows END DESC,
        CASE WHEN before THEN shown_place END DESC, shown_at, shown_place) = 1
)
SELECT clicks.* REPLACE (coalesce(chosen.found, clicks.impression_id) AS impression_id,
    coalesce(clicks.doc_id, chosen.document) AS doc_id)
FROM read_parquet(?) AS clicks LEFT JOIN chosen
    ON clicks.place = chosen.click AND clicks.doc_id IS NOT DISTINCT FROM chosen.clicked ORDER BY clicks.place
"""


class SessionLists:
    """Names lists, and collects what clicks need to find theirs.

    Args:
        folder: where to put files.
        with_clicks: whether rows hold their own clicks. The same list again is then the same impression, and
            one more click on it; otherwise every row is an impression.

    Attributes:
        shared: number of ids with several lists.
        example: the name of a list that is not the first of its id.
    """

    def __init__(self, folder: Path, *, with_clicks: bool) -> None:
        self.with_clicks = with_clicks
        self.shared = 0
        self.example = ""
        self._last: dict[str, tuple[int, int, int | None]] = {}
        self._staging = Staging(folder, tuple(RAW_SCHEMAS), RAW_SCHEMAS)

    def __enter__(self) -> Self:
        self._staging.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._staging.__exit__(kind, error, trace)

    def name(self, session: str, documents: Sequence[str], time: int | None, place: int) -> str:
        """The impression of a list."""
        number, content, at = self._last.get(session, (0, 0, None))
        shown = hash(tuple(documents))
        # The same list at the same time is a row that was written twice.
        if not number or shown != content or not (self.with_clicks or (time is not None and time == at)):
            number += 1
        self._last[session] = (number, shown, time)
        name = session if number == 1 else f"{session}#{number}"
        if number > 1:
            self.shared += number == 2
            self.example = self.example or name
        if not self.with_clicks:
            rows = [(session, name, time, place, document, at) for at, document in enumerate(documents, 1)]
            self._staging.add(LISTS, rows)
        return name

    def add_row(
        self, key: str, impression: str, time: int | None, place: int, shown: tuple[str, int]
    ) -> None:
        """Collect a document and its position, for clicks that name the key of its row or impression."""
        self._staging.add(LISTS, [(key, impression, time, place, *shown)])

    def add_clicks(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Collect clicks; their impression is that of the session."""
        self._staging.add(RAW_CLICKS, rows)

    def clicks(self) -> Iterator[pa.Table]:
        """The clicks with the impressions that they are on, after the context has ended."""
        raw, lists = (str(self._staging.path(table)) for table in (RAW_CLICKS, LISTS))
        with duckdb.connect() as connection:
            found = connection.execute(_LAST_BEFORE, [raw, lists, raw])
            # Older versions of DuckDB use another name.
            reader = found.to_arrow_reader if hasattr(found, "to_arrow_reader") else found.fetch_record_batch
            for batch in reader():
                yield pa.Table.from_batches([batch])

    @property
    def note(self) -> str | None:
        """A sentence on ids with several lists; None if there are none."""
        if not self.shared:
            return None
        return (
            f"{self.shared:,} ids have several lists of results, each of which is an impression of its own, "
            f"as in {self.example}. A click belongs to the last list before it that shows its document."
        )
