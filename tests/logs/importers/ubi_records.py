"""Records as UBI logs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rankloop.logs import import_ubi
from tests.logs.importers.reading import write_lines


def query(number: int, **changes: Any) -> dict[str, Any]:
    """A query as UBI logs it."""
    good = {
        "application": "shop",
        "query_id": f"i{number}",
        "client_id": "browser",
        "user_query": "cat",
        "timestamp": f"2024-05-01T12:00:{number:02}Z",
        "query_response_hit_ids": ["x", "y"],
        "query_attributes": {"policy_id": "a"},
    }
    return good | changes


def click(number: int, document: str | int = "x", **changes: Any) -> dict[str, Any]:
    """A click as UBI logs it."""
    good = {
        "action_name": "click",
        "query_id": f"i{number}",
        "timestamp": f"2024-05-01T12:01:{number:02}Z",
        "event_attributes": {"object": {"object_id": document, "object_id_field": "sku"}},
    }
    return good | changes


def at(ordinal: int, number: int, document: str) -> dict[str, Any]:
    attributes = {"object": {"object_id": document}, "position": {"ordinal": ordinal}}
    return click(number, document, event_attributes=attributes)


def imported(folder: Path, queries: list[Any], events: list[Any], **options: Any) -> Any:
    return import_ubi(
        [write_lines(folder / "queries.jsonl", queries), write_lines(folder / "events.ndjson", events)],
        folder / "log",
        **options,
    )
