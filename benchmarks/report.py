"""Results as a table for people and as a file for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from benchmarks.measure import Result, Target

TITLE = "rankloop against plain NumPy, in one run"
# From this value on, decimals are noise.
WHOLE_FROM = 100
# Notes are set off from the values by this many columns.
INDENT = 4


def table(results: Mapping[str, Result], targets: Mapping[str, Target]) -> Group:
    """Build a table of values and targets, with the notes below; a missed target is red and marked."""
    rows = [("name", "value", "unit", "target")]
    for name, result in results.items():
        target = targets[name]
        value = format_value(result.value) + ("" if target.met(result.value) else " ✗")
        rows.append((name, value, target.unit, f"{target.sign} {target.bound:,g}"))
    named, valued, of_unit, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    lines = [
        Text(f"{name:{named}}  {value:>{valued}}  {unit:{of_unit}}  {target}", no_wrap=True)
        for name, value, unit, target in rows
    ]
    parts: list[RenderableType] = [Text(TITLE, style="bold"), "", lines[0]]
    for line, (name, result) in zip(lines[1:], results.items(), strict=True):
        line.stylize("green" if targets[name].met(result.value) else "bold red")
        parts += [line, Padding(Text(result.note, style="dim"), (0, 0, 0, INDENT), expand=False)]
    return Group(*parts)


def format_value(value: float) -> str:
    """Format a number with its significant digits.

    >>> format_value(1.2345), format_value(51.26), format_value(4180.2), format_value(87654321.0)
    ('1.23', '51.3', '4,180', '8.8e+07')
    """
    if value >= 1e6:
        return f"{value:.1e}"
    if value >= WHOLE_FROM:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def write(results: Mapping[str, Result], targets: Mapping[str, Target], path: Path) -> None:
    """Write ``{name: {"value": number, "unit": text, "note": text}}``."""
    content = {
        name: {"value": result.value, "unit": targets[name].unit, "note": result.note}
        for name, result in results.items()
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
