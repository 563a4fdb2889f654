"""Reports on labelled data: what is in a data set, and how well a model ranks it."""

from __future__ import annotations

from collections.abc import Mapping

from rankloop.reports.document import Document, Facts, Table


def measures_document(
    facts: Mapping[str, object], queries: int, ranking: Mapping[str, float], policy: Mapping[str, float]
) -> Document:
    """The metrics of a model.

    Args:
        facts: which model and which data.
        queries: number of queries that were ranked.
        ranking: metrics of the ranking by score.
        policy: metrics of the model's Plackett–Luce policy.
    """
    spelled = tuple(
        (name, f"{value:.4f}" if isinstance(value, float) else str(value)) for name, value in facts.items()
    )
    rows = [[name, f"{ranking[name]:.4f}", f"{policy[name]:.4f}"] for name in ranking]
    columns = ["metric", "sorted by score", "drawn from the policy"]
    table = Table.build(f"{queries} queries", columns, rows, brief=True)
    return Document("measures", "Measures", (Facts(spelled, brief=True), table))


def dataset_document(name: str, parts: Mapping[str, Mapping[str, object]]) -> Document:
    """The contents of a data set, with one column per part."""
    names = list(parts)
    rows = [[what, *(str(parts[part][what]) for part in names)] for what in parts[names[0]]]
    return Document(name, name, (Table.build(name, ["", *names], rows, brief=True),))
