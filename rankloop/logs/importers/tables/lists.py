"""Lists of documents in one value: arrays, JSON, Python's own notation, or text with separators."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Any

from rankloop.logs.importers.parsing import BadValueError, shortened
from rankloop.logs.importers.tables.paths import parsed

# In the order in which they are tried; white space last, because it is in the names of many things.
SEPARATORS = ("\t", "|", ";", ",", None)
# A list of quoted text as NumPy prints it, without commas.
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")
# Share of the values of a column that must be lists.
MOST = 0.9
_BRACKETS = ("[]", "()", "{}")


def as_list(value: Any, name: str) -> list[Any]:
    """The elements of a list.

    >>> as_list("['a', 'b']", "urls"), as_list("a b c", "urls"), as_list("7", "urls"), as_list("", "urls")
    (['a', 'b'], ['a', 'b', 'c'], ['7'], [])
    """
    if isinstance(value, str):
        value = _of_text(value.strip(), name)
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


def _of_text(text: str, name: str) -> Sequence[Any]:
    if not text:
        return []
    if text[0] + text[-1] not in _BRACKETS:
        separator = next((one for one in SEPARATORS if one is None or one in text), None)
        return [part.strip() for part in text.split(separator) if part.strip()]
    found = parsed(text)
    if isinstance(found, list):
        return found
    inner = text[1:-1].strip()
    quoted = [first or second for first, second in _QUOTED.findall(inner)]
    if quoted:
        return quoted
    if "'" not in inner and '"' not in inner:
        return _of_text(inner, name)
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        found = None
    if not isinstance(found, list | tuple):
        raise BadValueError(f"{name} is {shortened(text)}; expected a list")
    return found


def are_lists(values: Sequence[Any]) -> bool:
    """Whether most values are lists of several elements."""
    several = 0
    for value in values:
        try:
            several += len(as_list(value, "")) > 1
        except BadValueError:
            continue
    return bool(values) and several >= MOST * len(values)


def clicked_of(value: Any, documents: Sequence[str], name: str) -> tuple[list[bool], list[str]]:
    """Which documents of a list were clicked, and clicked documents that are not in it.

    Args:
        value: one true, false, 0 or 1 per document; or the documents that were clicked; or their positions,
            if the name of the column speaks of ranks or positions, or if documents cannot be meant.
        documents: the documents that were shown.
        name: the column.

    Example:
        >>> clicked_of("b c", ["a", "b"], "clicks"), clicked_of([2], ["a", "b"], "clicked_ranks")
        (([False, True], ['c']), ([False, True], []))
    """
    given = [_plain(element) for element in as_list(value, name)]
    if len(given) == len(documents) and all(element.lower() in _FLAGS for element in given):
        return [_FLAGS[element.lower()] for element in given], []
    clicked = set(given)
    if _are_positions(given, documents, name):
        clicked = {documents[int(at) - 1] if 0 < int(at) <= len(documents) else f"#{at}" for at in given}
    return [document in clicked for document in documents], sorted(clicked.difference(documents))


def _are_positions(given: Sequence[str], documents: Sequence[str], name: str) -> bool:
    if not all(element.isdecimal() for element in given):
        return False
    named = any(word in name.lower() for word in ("rank", "pos"))
    return named or not any(document.isdecimal() for document in documents)


_FLAGS = {"0": False, "1": True, "false": False, "true": True, "0.0": False, "1.0": True}


def _plain(element: Any) -> str:
    return str(int(element)) if isinstance(element, float) and element.is_integer() else str(element)
