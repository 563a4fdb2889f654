"""The report on the relevance of the documents of a log."""

from __future__ import annotations

import numpy as np

from rankloop.offline import Relevances
from rankloop.reports.document import Document, Section, Table, Text, warnings

# Documents of the largest change that are listed.
LISTED = 10


def relevance_document(found: Relevances) -> Document:
    """The report on the relevance of documents."""
    queries = len(np.unique(found.query_ids))
    return Document(
        "relevance",
        "Relevance, corrected for bias",
        (
            Text(
                f"{len(found):,} documents of {queries:,} queries: the mean relevance is {found.mean:.3f}, "
                f"and documents at one rank differ by {found.spread:.3f} (standard deviation).",
                "strong",
                brief=True,
            ),
            *warnings(found.notes),
            Section("What the correction changes", (_changes(found),)),
            Text(
                "Next: evaluate it as a policy on another log, such as that of a later week. On this log it "
                "would look better than it is.",
                brief=True,
            ),
        ),
    )


def _changes(found: Relevances) -> Table:
    """The documents with the most displays whose order click rates and relevance disagree about most."""
    rates = found.clicks / np.maximum(found.displays, 1)
    ranks = [np.argsort(np.argsort(values)) for values in (rates, found.relevance)]
    often = found.displays >= np.quantile(found.displays, 0.5)
    change = np.where(often, ranks[1] - ranks[0], 0)
    order = np.argsort(-np.abs(change), kind="stable")[:LISTED]
    rows = [
        [
            found.query_ids[at],
            found.doc_ids[at],
            f"{found.displays[at]:,}",
            f"{rates[at]:.3f}",
            f"{found.relevance[at]:.3f} ± {found.errors[at]:.3f}",
        ]
        for at in order
    ]
    columns = ["query", "document", "displays", "click rate", "relevance"]
    return Table.build(f"The {len(rows)} documents that move most", columns, rows, brief=True)
