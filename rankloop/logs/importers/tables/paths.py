"""Columns that reach into values: ``payload.query``, ``items.id``, ``urls|url``, ``doc1..doc9``."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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
