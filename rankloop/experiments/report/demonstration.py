"""The final table of the demonstration: what each learner achieves, and what users see meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from rankloop.experiments.results import RunResult
from rankloop.reports.document import NONE, Document, Table

# The runs of the demonstration by name, in the order of the table.
RUNS = ("static", "pdgd", "loop")


def demo_document(runs: Mapping[str, RunResult]) -> Document:
    """The demonstration in one table, from its runs by name."""
    facts, metric = runs["loop"].facts, runs["loop"].spec.metric
    values: list[tuple[str, float, float | None]] = [
        ("random", facts.random, None),
        ("production ranker", facts.start, None),
    ]
    for name in RUNS:
        run = runs[name]
        values.append((name, run.rows[-1].learned, run.shown(len(run.rows) - 1)))
    if facts.oracle is not None:
        values.append(("oracle", facts.oracle, None))
    rows = [
        [name, f"{value:.4f}", f"{value - facts.start:+.4f}", NONE if shown is None else f"{shown:.4f}"]
        for name, value, shown in values
    ]
    title = f"{metric} on {facts.queries['test']} test queries of {facts.dataset}"
    columns = ["ranker", metric, "− production", "shown on average"]
    return Document("demonstration", "Demonstration", (Table.build(title, columns, rows, brief=True),))
