"""Read the documents of UBI's indices in the forms in which they are exported."""

from __future__ import annotations

import ast
import json
from typing import Any, NamedTuple

from rankloop.logs.importers.files import LINE_BITS, Record
from rankloop.logs.importers.parsing import BadValueError, at_path, score, shortened, text_id, whole

# The actions of OpenSearch's bulk format, which precede each document on their own line.
BULK_ACTIONS = ("index", "create")
QUERY, EVENT = "query", "event"
# What a query returned, and what UBI called it before version 1.0.
HITS, OLD_HITS = "query_response_hit_ids", "query_response_object_ids"


class UbiDocument(NamedTuple):
    """A document of ``ubi_queries`` or ``ubi_events``."""

    kind: str
    values: dict[str, Any]
    is_text: bool


class Unwrapping:
    """Finds the document in a record, and the index that it belongs to.

    The index is named by the record itself, or by the line before it in the bulk format; otherwise the fields
    of the document decide.
    """

    def __init__(self) -> None:
        self._index, self._file = "", -1

    def __call__(self, record: Record) -> UbiDocument | None:
        """The document of a record; None for an action line of the bulk format."""
        if record.place >> LINE_BITS != self._file:
            self._index, self._file = "", record.place >> LINE_BITS
        values = record.values
        if is_bulk_action(record):
            self._index = str(at_path(next(iter(values.values())), "_index") or "")
            return None
        index, self._index = str(values.get("_index") or self._index), ""
        source = values.get("_source")
        document = source if isinstance(source, dict) else values
        if record.is_text:
            document = _nest(document)
        if OLD_HITS in document and HITS not in document:
            document = {**document, HITS: document[OLD_HITS]}
        return UbiDocument(_kind_of(document, index), document, record.is_text)


def is_bulk_action(record: Record) -> bool:
    """Whether a record is an action line of the bulk format."""
    return len(record.values) == 1 and next(iter(record.values)) in BULK_ACTIONS


def _kind_of(document: dict[str, Any], index: str) -> str:
    if "event" in index:
        return EVENT
    if "quer" in index:
        return QUERY
    if document.get("action_name") is not None:
        return EVENT
    if "query_id" in document and ("user_query" in document or HITS in document):
        return QUERY
    raise BadValueError(
        "neither a query nor an event: an event has action_name, a query has query_id and user_query"
    )


def _nest(values: dict[str, Any]) -> dict[str, Any]:
    """The objects that the columns of a table name, as in ``event_attributes.object.object_id``."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        if value in ("", None):
            continue
        *path, last = name.removeprefix("_source.").split(".")
        there = nested
        for part in path:
            there = there.setdefault(part, {})
            if not isinstance(there, dict):
                raise BadValueError(f"both {part!r} and {name!r} have a value")
        there[last] = value
    return nested


def read_object(value: Any, name: str) -> dict[str, Any]:
    """Parse an object, which may also be JSON text, as in tables."""
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise BadValueError(f"{name} is not JSON ({error})") from error
    if value is None or value == "":
        return {}
    # Maps in Parquet become lists of pairs.
    if isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return dict(value)
    if not isinstance(value, dict):
        raise BadValueError(f"{name} is not an object")
    return value


def read_ids(value: Any, name: str, *, is_text: bool) -> list[str]:
    """Parse a list of ids, which in a table is text: a JSON array, or ids with commas between them."""
    if value is None or value == "":
        return []
    if isinstance(value, str):
        value = _list_of_text(value, name, is_text)
    # OpenSearch does not distinguish a list of one element from the element.
    if isinstance(value, int):
        value = [value]
    if not isinstance(value, list):
        raise BadValueError(f"{name} is not a list")
    return [text_id(element, "a hit's id") for element in value]


def _list_of_text(value: str, name: str, is_text: bool) -> Any:
    text = value.strip()
    if text.startswith("["):
        for parse in (json.loads, ast.literal_eval):
            try:
                return parse(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
        text = text.removeprefix("[").removesuffix("]")
        is_text = True
    parts = [part.strip() for part in text.split(",")]
    if len(parts) == 1:
        return [value]
    if not is_text or not all(parts):
        raise BadValueError(
            f"{name} is the text {shortened(value)}; expected a list of ids: as one id, all hits would be "
            f"one document"
        )
    return parts


def read_policy(value: Any, default: str | None) -> str | None:
    """Parse the policy of a query; None if it has none and there is no default."""
    if value is None or value == "":
        return default
    return text_id(value, "query_attributes.policy_id")


def read_scores(value: Any, hits: list[str]) -> list[tuple[str, float]]:
    """Parse the scores of candidates."""
    name = "query_attributes.scores"
    if isinstance(value, list) and not (value and isinstance(value[0], tuple)):
        if len(value) != len(hits):
            raise BadValueError(f"{name} has {len(value)} numbers for {len(hits)} hits")
        return [(hit, score(number, name)) for hit, number in zip(hits, value, strict=True)]
    # A struct column in Parquet has a field for every document of the file, which is empty for documents of
    # other queries.
    pairs = read_object(value, name).items()
    return [
        (text_id(document, "a document"), score(number, name))
        for document, number in pairs
        if number is not None
    ]


def read_position(attributes: dict[str, Any]) -> int | None:
    """Parse the position of an event, which drafts of the specification wrap in an object."""
    name = "event_attributes.position.ordinal"
    ordinal = at_path(attributes, "position", "ordinal")
    if isinstance(ordinal, dict):
        ordinal = ordinal.get("index")
    return None if ordinal is None or ordinal == "" else whole(ordinal, name)
