"""The table of how a decision changes with the bias that is assumed."""

from __future__ import annotations

from math import isnan

from rankloop.offline import Sensitivity
from rankloop.reports.document import Block, Column, Section, Table, Text


def sensitivity_section(found: Sensitivity) -> Section:
    """A section on how the decision changes with the bias, for the report on an evaluation."""
    rows = [
        [
            row.name,
            f"{row.last_rank:.2f}",
            "–" if isnan(row.relative) else f"{row.relative:+.1%}",
            f"{row.comparison.difference.estimate.value:.4f}",
            f"{row.comparison.difference.estimate.low:.4f} – {row.comparison.difference.estimate.high:.4f}",
            row.comparison.decision.kind,
        ]
        for row in found.rows
    ]
    names = ("last rank examined", "relative difference", "difference", "90 % interval", "decision")
    columns: list[str | Column] = [Column("bias", words=True), *names]
    blocks: tuple[Block, ...] = (
        Text(found.text, brief=True),
        Table.build("The comparison under each bias", columns, rows, brief=True),
        Text(
            "Differences under two biases have different units, because each bias has its own scale of "
            "relevance; relative differences can be compared. There is none where production would be worth "
            "less than nothing: such a bias does not fit the log.",
            "quiet",
        ),
    )
    return Section("How much the bias matters", blocks)
