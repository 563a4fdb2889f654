"""Summaries of data sets, counted by hand."""

from __future__ import annotations

import json

import numpy as np

from rankloop.data import describe, synthetic
from rankloop.types import Dataset, Split


def test_counts_by_hand() -> None:
    # Three queries of 2, 1 and 3 documents; the second feature never varies; the second query has no gain.
    features = [[1, 5], [2, 5], [3, 5], [4, 5], [5, 5], [6, 5]]
    split = Split.build(features, [0, 2, 0, 0, 0.5, 2], sizes=[2, 1, 3], doc_ids=list("abcdef"))
    bare = Split.build(np.eye(2), [1, 1], [2])
    facts = describe(Dataset("tiny", split, bare, bare))
    assert list(facts) == ["train", "validation", "test"]
    assert facts["train"] == {
        "queries": 3,
        "documents": 6,
        "documents per query": "1 – 2.0 – 3",
        "features": 2,
        "features that vary": 1,
        "labels": "0: 50.0%, 0.5: 16.7%, 2: 33.3%",
        "queries without a relevant document": 1,
        "document ids": "yes",
    }
    assert facts["test"]["document ids"] == "no"
    assert facts["test"]["labels"] == "1: 100.0%"
    assert facts["test"]["queries without a relevant document"] == 0


def test_every_split_has_the_same_entries_with_plain_values() -> None:
    facts = describe(synthetic(queries=40, features=5))
    assert len({tuple(split) for split in facts.values()}) == 1
    assert json.loads(json.dumps(facts)) == facts
