"""Values within values: columns such as ``payload.query``, ``items.id`` or ``doc1..doc9``, and lists.

A list of documents in one value is an array, JSON, Python's own notation, or text with separators.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rankloop.logs.importers.parsing import BadValueError, shortened

STEP, OR, RANGE = ".", "|", ".."
_NUMBERED = re.compile(r"(.*?)(\d+)$")
_NAMES_OF_KEYS = ("key", "name")
_NAMES_OF_FIELDS = {"key", "name", "value", "type"}


@dataclass(frozen=True)
class ColumnPath:
    """Where a value is: a column, a field of the object in a column, or the first of several that is there.

    A column with objects holds structures (Parquet, JSON) or JSON as text. A path through a list gives one
    value per element; a list of objects with keys and values is one object. Columns with numbers at their
    ends are a list: ``doc_1..doc_10``.

    Example:
        >>> row = {"payload": '{"products": [{"sku": "a"}, {"sku": "b"}]}', "query": "cat"}
        >>> ColumnPath("payload.products.sku").of(row), ColumnPath("sku|query").of(row)
        (['a', 'b'], 'cat')
        >>> ColumnPath("d1..d3").of({"d1": "a", "d2": "b", "d3": ""})
        ['a', 'b']
        >>> ColumnPath("params.term").of({"params": [{"key": "term", "value": {"string_value": "cat"}}]})
        'cat'
    """

    text: str

    @cached_property
    def alternatives(self) -> tuple[str | tuple[str, ...], ...]:
        """The paths, the first that is there counts; several columns if together they are a list."""
        parts = (part.strip() for part in self.text.split(OR))
        return tuple(part if RANGE not in part else _columns_between(part) for part in parts)

    def is_in(self, columns: Collection[str]) -> bool:
        """Whether any of these columns can hold the value."""
        if self.text in columns:
            return True
        firsts = (path if isinstance(path, str) else path[0] for path in self.alternatives)
        return any(_root(path, columns) is not None for path in firsts)

    def of(self, values: dict[str, Any]) -> Any:
        """The value in a row; None if there is none. JSON text is parsed once, in place."""
        if self.text in values:
            return values[self.text]
        for path in self.alternatives:
            if isinstance(path, str):
                found = _value(values, path)
            else:
                found = [value for name in path if (value := values.get(name)) not in (None, "")]
            if found is not None and found not in ("", []):
                return found
        return None


def column_parts(name: str) -> list[str]:
    """The columns that a name stands for.

    >>> column_parts("sku|d1..d2")
    ['sku', 'd1', 'd2']
    """
    paths = ([path] if isinstance(path, str) else path for path in ColumnPath(name).alternatives)
    return [part for path in paths for part in path]


def _columns_between(text: str) -> tuple[str, ...]:
    """The columns of a range; the text itself if it is not one.

    >>> _columns_between("doc_9..doc_11")
    ('doc_9', 'doc_10', 'doc_11')
    """
    first, last = (_NUMBERED.match(end.strip()) for end in text.split(RANGE, 1))
    if first is None or last is None or first[1] != last[1]:
        return (text,)
    return tuple(f"{first[1]}{number}" for number in range(int(first[2]), int(last[2]) + 1))


def _root(path: str, columns: Collection[str]) -> str | None:
    """The column that a path begins with: the longest, because names may have dots themselves."""
    if path in columns:
        return path
    while STEP in path:
        path = path.rpartition(STEP)[0]
        if path in columns:
            return path
    return None


def _value(values: dict[str, Any], path: str) -> Any:
    root = _root(path, values)
    if root is None or root == path:
        return None if root is None else values[root]
    if isinstance(values[root], str):
        values[root] = parsed(values[root])
    return _descend(values[root], path[len(root) + 1 :].split(STEP))


def _descend(value: Any, steps: list[str]) -> Any:
    for number, step in enumerate(steps):
        value = as_object(value)
        if isinstance(value, list):
            return [_descend(element, steps[number:]) for element in value]
        if not isinstance(value, dict):
            return None
        value = value.get(step)
        if isinstance(value, str) and number + 1 < len(steps):
            value = parsed(value)
    return value


def as_object(value: Any) -> Any:
    """A list of objects with keys and values as one object, as analytics exports parameters.

    >>> as_object([{"name": "query", "value": "cat"}]), as_object(["a"])
    ({'query': 'cat'}, ['a'])
    """
    if not isinstance(value, list) or not value or not all(isinstance(one, dict) for one in value):
        return value
    name = next((name for name in _NAMES_OF_KEYS if all(name in one for one in value)), None)
    if name is None or not all("value" in one and _NAMES_OF_FIELDS.issuperset(one) for one in value):
        return value
    return {str(one[name]): _typed(one["value"]) for one in value}


def _typed(value: Any) -> Any:
    """A value that is stored by its type, as in ``{"string_value": "cat", "int_value": None}``."""
    if not isinstance(value, dict) or not value or not all(name.endswith("_value") for name in value):
        return value
    return next((one for one in value.values() if one is not None), None)


def parsed(text: str) -> Any:
    """The object or list in a text, as JSON or as Python writes objects; the text itself if it is neither.

    >>> parsed('{"a": 1}'), parsed("[{'a': None}]"), parsed("a")
    ({'a': 1}, [{'a': None}], 'a')
    """
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if not text.lstrip(" [").startswith("{'"):
        return text
    try:
        # As pandas writes columns of objects to CSV.
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


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
