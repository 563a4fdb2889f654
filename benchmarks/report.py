"""Results as a table for people and as a file for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.table import Table
from rich.text import Text

from benchmarks.measure import Result, Target

# From this value on, decimals are noise.
WHOLE_FROM = 100


def table(results: Mapping[str, Result], targets: Mapping[str, Target]) -> Table:
    """Build a table of values and targets; a missed target is red and marked."""
    chart = Table(title="rankloop against plain NumPy, in one run", title_justify="left", title_style="bold")
    for column in ("name", "value", "unit", "target", "note"):
        right = column in ("value", "target")
        chart.add_column(column, justify="right" if right else "left", no_wrap=column != "note")
    for name, result in results.items():
        target = targets[name]
        met = target.met(result.value)
        value = Text(format_value(result.value) + ("" if met else " ✗"), style="green" if met else "bold red")
        chart.add_row(name, value, target.unit, f"{target.sign} {target.bound:,g}", result.note)
    return chart


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
