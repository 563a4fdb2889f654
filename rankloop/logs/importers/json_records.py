"""Read the objects of a JSON file: one per line, an array, or objects one after another over several lines.

The responses of OpenSearch's and Elasticsearch's ``_search``, scroll and ``_msearch`` become the documents
that they contain. Places are lines if every object has its own line, and otherwise the numbers of objects.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rankloop.errors import DataError

# Lines that are read at a time, if they may be staged as whole columns.
BLOCK = 20_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DECODER = json.JSONDecoder()
Numbered = list[tuple[int, dict[str, Any]]]


class JsonRecords:
    """Iterates over the objects of a file with their numbers.

    Args:
        lines: the lines of the file with their numbers.
        path: the file, for messages.
        add_broken: counts a broken line, by number, reason and unit.
        take_block: takes numbered objects of several lines as whole columns; returns whether it did.

    Attributes:
        unit: what the numbers count: lines or records.
    """

    def __init__(
        self,
        lines: Iterator[tuple[int, bytes]],
        path: Path,
        add_broken: Callable[[int, object, str], None],
        take_block: Callable[[Numbered], bool] | None = None,
    ) -> None:
        self.lines, self.path, self.add_broken, self.take_block = lines, path, add_broken, take_block
        self.unit = "line"
        self._records = 0

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        lines = ((number, text) for number, data in self.lines if (text := _text(number, data)).strip())
        first, second = next(lines, None), None
        if first is not None and not _spans_lines(first[1]):
            second = next(lines, None)
        elif first is not None:
            self.unit = "record"
        for number, value in self._begin(first, lines, alone=second is None):
            if _elements(value) is not None:
                self.unit = "record"
            yield from self._expand(number, value)
        yield from self._of_lines([] if second is None else [second])
        while self.take_block is not None and (block := list(islice(lines, BLOCK))):
            records = list(self._of_lines(block))
            if self.unit != "line" or not self.take_block(records):
                yield from records
        yield from self._of_lines(lines)

    def _of_lines(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, text in lines:
            for value in self._read_line(number, text):
                yield from self._expand(number, value)

    def _begin(
        self, first: tuple[int, bytes] | None, lines: Iterator[tuple[int, bytes]], *, alone: bool
    ) -> Iterator[tuple[int, Any]]:
        """The value of the first line; of the whole file if its values are not one per line."""
        if first is None:
            return
        number, text = first
        if self.unit == "line":
            values: Iterable[Any] = self._read_line(number, text)
        else:
            values = _read_whole(b"".join([text, *(line for _, line in lines)]), number, self.path)
        found = iter(values)
        begin = list(islice(found, len(("first", "second"))))
        if alone and len(begin) == 1:
            # A file with a single object is what it wraps.
            begin = [wrapped_records(begin[0]) or begin[0]]
        yield from ((number, value) for value in chain(begin, found))

    def _read_line(self, number: int, text: bytes) -> list[Any]:
        """The value of a line; none if it is broken."""
        try:
            return [json.loads(text.rstrip())]
        except json.JSONDecodeError as error:
            self.add_broken(number, f"not JSON ({error.msg}, at character {error.pos + 1})", self.unit)
        except (ValueError, RecursionError) as error:
            self.add_broken(number, f"not JSON ({error})", self.unit)
        return []

    def _expand(self, number: int, value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield an object, the elements of an array, or the documents of a search response."""
        elements = _elements(value)
        if elements is not None:
            for element in elements:
                yield from self._expand(number, element)
            return
        self._records += 1
        place = number if self.unit == "line" else self._records
        if isinstance(value, dict):
            yield place, value
        else:
            self.add_broken(place, f"not a JSON object but {type(value).__name__}", self.unit)


def _text(number: int, data: bytes) -> bytes:
    return data.removeprefix(BYTE_ORDER_MARK) if number == 1 else data


def wrapped_records(value: Any) -> list[Any] | None:
    """The only array of objects in an object, as programs answer; None if there is none, or several.

    >>> wrapped_records({"total": 2, "data": [{"a": 1}, {"a": 2}]})
    [{'a': 1}, {'a': 2}]
    """
    if not isinstance(value, dict):
        return None
    arrays = [one for one in value.values() if isinstance(one, list) and len(one) > 1]
    arrays = [one for one in arrays if all(isinstance(element, dict) for element in one)]
    return arrays[0] if len(arrays) == 1 else None


def _elements(value: Any) -> list[Any] | None:
    """The elements of an array, or the documents of a search response; None for any other value."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("responses"), list):
        return value["responses"]  # type: ignore[no-any-return]
    hits = value.get("hits")
    if isinstance(hits, dict) and isinstance(hits.get("hits"), list):
        return hits["hits"]  # type: ignore[no-any-return]
    return None


def _spans_lines(text: bytes) -> bool:
    """Whether the first line of a file begins an array, or an object over several lines."""
    begin = text.strip()
    return begin.startswith(b"[") or (
        begin.startswith(b"{") and (begin == b"{" or begin.endswith((b"{", b"[", b",")))
    )


def _read_whole(data: bytes, begin: int, path: Path) -> Iterator[Any]:
    """The values of a file that are not one per line."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 ({error.reason} at byte {error.start + 1})") from error
    place = 0
    while True:
        while place < len(text) and (text[place].isspace() or text[place] == ","):
            place += 1
        if place == len(text):
            return
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            damaged = error.pos if isinstance(error, json.JSONDecodeError) else place
            reason = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise DataError(
                f"{path}, line {begin + text.count(chr(10), 0, damaged)}: not JSON ({reason}); nothing after "
                f"this place can be read, because the file is an array, or objects over several lines: it is "
                f"truncated or damaged"
            ) from error
        yield value
