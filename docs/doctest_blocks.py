"""An extension of Griffe: doctests in docstrings become code blocks on the reference pages."""

from __future__ import annotations

from typing import Any

import griffe


class DoctestBlocks(griffe.Extension):
    """Puts fences around every paragraph of a docstring that starts with ``>>>``."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = fence_doctests(obj.docstring.value)


def fence_doctests(text: str) -> str:
    """Put fences around the doctests of a text.

    A doctest starts with a line that starts with ``>>>`` and ends before the next empty line.
    """
    lines: list[str] = []
    margin: str | None = None  # of the open block
    for line in [*text.split("\n"), ""]:
        stripped = line.lstrip()
        if margin is None and stripped.startswith(">>>"):
            margin = line[: len(line) - len(stripped)]
            lines.append(f"{margin}```python")
        elif margin is not None and not stripped:
            lines.append(f"{margin}```")
            margin = None
        lines.append(line)
    return "\n".join(lines[:-1])
