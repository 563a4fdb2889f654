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
# Share of the values of a column that must be lists; if what separates their elements is rare in names.
MOST = 0.9
SPLIT = 0.5
# How programs write that nothing was clicked, as a position.
NOTHING = "-1"
_BRACKETS = ("[]", "()", "{}")
_LABELLED = re.compile(r"(.+)[-:]([01])$")


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
    """Whether most values are lists, and many of them have several elements.

    Arrays are lists whatever their length. Text is a list if most values have several elements; half of them
    if what separates them is seldom part of a name.

    >>> are_lists([["a"], ["a", "b"]]), are_lists(["a|b", "a"]), are_lists(["a b", "a"])
    (True, True, False)
    """
    several = arrays = split = 0
    for value in values:
        try:
            many = len(as_list(value, "")) > 1
        except BadValueError:
            continue
        several += many
        arrays += isinstance(value, list | tuple) or str(value).strip()[:1] == "["
        split += many and isinstance(value, str) and any(one in value for one in "\t|;")
    least = MOST * len(values)
    return bool(values) and (
        several >= least or (several > 0 and arrays >= least) or split >= SPLIT * len(values)
    )


def hold_lists(documents: Sequence[Any], positions: Sequence[Any], marks: Sequence[Any]) -> bool:
    """Whether documents are lists: not if each has one position, or one mark, whatever is in its name.

    Args:
        documents: what the column of documents holds.
        positions: what the column of positions holds, if there is one.
        marks: what the column of clicks holds, if there is one.

    Example:
        >>> hold_lists(["a, b", "c, d"], [], []), hold_lists(["a, b", "c, d"], [1, 2], [])
        (True, False)
    """
    if not are_lists(documents) or (positions and not any(isinstance(one, list) for one in positions)):
        return False
    names = [one for one in documents if isinstance(one, str) and one[:1] + one[-1:] not in _BRACKETS]
    return not (names and marks and all(str(mark).strip().lower() in _FLAGS for mark in marks))


def before_comma(value: Any) -> Any:
    """The document in a value such as ``url,domain``."""
    return value.partition(",")[0] if isinstance(value, str) else value


def are_pairs(values: Sequence[Any]) -> bool:
    """Whether documents are followed by something that they determine, as in ``url,domain``.

    >>> are_pairs([["7,1", "8,1"], ["9,2", "7,1"]]), are_pairs([["7,1", "8,1"], ["7,2"]])
    (True, False)
    """
    elements = {str(one) for value in values if isinstance(value, list) for one in value}
    return (
        bool(elements)
        and all(one.count(",") == 1 and not one.startswith(",") for one in elements)
        and len({before_comma(one) for one in elements}) == len(elements)
    )


def labelled(elements: Sequence[Any], name: str) -> tuple[list[str], list[bool]]:
    """Documents that carry at their ends whether they were clicked, and whether they were.

    >>> labelled(["N1-0", "N2-1"], "impressions")
    (['N1', 'N2'], [False, True])
    """
    found = [_LABELLED.match(str(element)) for element in elements]
    for element, match in zip(elements, found, strict=True):
        if match is None:
            raise BadValueError(f"{name} has {shortened(element)}; expected -0 or -1 at its end")
    matches = [match for match in found if match is not None]
    return [match[1] for match in matches], [match[2] == "1" for match in matches]


def are_labelled(values: Sequence[Any]) -> bool:
    """Whether the elements of most lists say at their ends whether they were clicked; some must be."""
    right, clicks = 0, 0
    for value in values:
        try:
            flags = labelled(as_list(value, ""), "")[1]
        except BadValueError:
            continue
        right += bool(flags)
        clicks += any(flags)
    return bool(clicks) and right >= MOST * len(values)


def clicked_of(
    value: Any, documents: Sequence[str], name: str, first: int = 1
) -> tuple[list[bool], list[str]]:
    """Which documents of a list were clicked, and clicked documents that are not in it.

    Args:
        value: one true, false, 0 or 1 per document; or the documents that were clicked; or their positions,
            if the name of the column speaks of ranks or positions, or if documents cannot be meant.
        documents: the documents that were shown.
        name: the column.
        first: the number of the first position.

    Example:
        >>> clicked_of("b c", ["a", "b"], "clicks"), clicked_of([2], ["a", "b"], "clicked_ranks")
        (([False, True], ['c']), ([False, True], []))
    """
    raw = as_list(value, name)
    given = [_plain(element) for element in raw if element is not None]
    if given == [NOTHING] and NOTHING not in documents:
        given = []
    flags = as_flags(raw)
    if flags is not None and len(flags) == len(documents):
        return flags, []
    clicked = set(given)
    if _are_positions(given, documents, name):
        places = {at: int(at) - first for at in given}
        clicked = {
            documents[place] if 0 <= place < len(documents) else f"#{at}" for at, place in places.items()
        }
    return [document in clicked for document in documents], sorted(clicked.difference(documents))


def as_flags(elements: Sequence[Any]) -> list[bool] | None:
    """Which elements say that something happened; None if they are something else.

    Elements are true, false, 0 or 1, or nothing where others are one of these; or numbers of clicks, of which
    some are equal: positions are not.

    >>> as_flags([0, 1, 0]), as_flags([None, True]), as_flags([0, 3, 0]), as_flags([3, 1])
    ([False, True, False], [False, True], [False, True, False], None)
    """
    given = [_plain(element).lower() for element in elements if element is not None]
    if not given:
        return None
    counts = len(set(given)) < len(given) and "0" in given and all(one.isdecimal() for one in given)
    if not counts and not all(one in _FLAGS for one in given):
        return None
    return [element is not None and _FLAGS.get(_plain(element).lower(), True) for element in elements]


def first_position(values: Sequence[Any], documents: Sequence[Any], name: str) -> int:
    """The number of the first position in a column of clicked positions: 0 if any is 0.

    Args:
        values: what the column holds, row by row.
        documents: the documents that were shown, row by row.
        name: the column.
    """
    for value, shown in zip(values, documents, strict=True):
        raw = as_list(value, name)
        given = [_plain(element) for element in raw if element is not None]
        listed = [_plain(element) for element in as_list(shown, name)]
        flags = len(raw) == len(listed) and as_flags(raw) is not None
        if not flags and "0" in given and _are_positions(given, listed, name):
            return 0
    return 1


def _are_positions(given: Sequence[str], documents: Sequence[str], name: str) -> bool:
    if not all(element.isdecimal() for element in given):
        return False
    named = any(word in name.lower() for word in ("rank", "pos", "index", "idx"))
    return named or not any(document.isdecimal() for document in documents)


_FLAGS = {"0": False, "1": True, "false": False, "true": True, "0.0": False, "1.0": True}


def _plain(element: Any) -> str:
    return str(int(element)) if isinstance(element, float) and element.is_integer() else str(element)
