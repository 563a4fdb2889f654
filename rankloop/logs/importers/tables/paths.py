"""Names of columns that reach into nested values: ``payload.query``, ``items.id``, ``urls|url``."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

STEP, OR = ".", "|"


@dataclass(frozen=True)
class ColumnPath:
    """Where a value is: a column, a field of the object in a column, or the first of several that is there.

    A column with objects holds structures (Parquet, JSON) or JSON as text. A path through a list gives one
    value per element.

    Example:
        >>> row = {"payload": '{"products": [{"sku": "a"}, {"sku": "b"}]}', "query": "cat"}
        >>> ColumnPath("payload.products.sku").of(row), ColumnPath("sku|query").of(row)
        (['a', 'b'], 'cat')
    """

    text: str

    @cached_property
    def alternatives(self) -> tuple[str, ...]:
        """The paths, the first that is there counts."""
        return tuple(part.strip() for part in self.text.split(OR))

    def is_in(self, columns: Collection[str]) -> bool:
        """Whether any of these columns can hold the value."""
        return self.text in columns or any(_root(path, columns) is not None for path in self.alternatives)

    def of(self, values: dict[str, Any]) -> Any:
        """The value in a row; None if there is none. JSON text is parsed once, in place."""
        if self.text in values:
            return values[self.text]
        for path in self.alternatives:
            found = _value(values, path)
            if found is not None and found != "":
                return found
        return None


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
        if isinstance(value, list):
            return [_descend(element, steps[number:]) for element in value]
        if not isinstance(value, dict):
            return None
        value = value.get(step)
        if isinstance(value, str) and number + 1 < len(steps):
            value = parsed(value)
    return value


def parsed(text: str) -> Any:
    """The object or list in a JSON text; the text itself if it is neither."""
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
