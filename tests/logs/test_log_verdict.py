"""What a log can teach: the verdict of `rankloop check`, from what is known of the log."""

from __future__ import annotations

import pytest

from rankloop.logs.document_movement import DocumentMovement
from rankloop.logs.log_verdict import QUERIES_FOR_FEATURES, judge_log

# 15,000 documents of queries, each shown once.
NOTHING_MOVED = DocumentMovement(15_000, 0, 0, 15_000, 0, 0, 5)


@pytest.mark.parametrize(
    ("features", "queries", "method", "answer"),
    [
        (True, 3_000, "features", "partly"),
        (False, 3_000, "assumed", "no"),
        (True, QUERIES_FOR_FEATURES - 1, "assumed", "no"),
    ],
)
def test_features_are_the_last_source_of_a_bias(
    features: bool, queries: int, method: str, answer: str
) -> None:
    """Before: `check` said that the bias of such a log must be assumed."""
    found = judge_log(
        folder="log",
        movement=NOTHING_MOVED,
        clicks=5_000,
        queries=queries,
        explores=True,
        features=(features, 0),
    )
    assert found.bias_method == method
    bias = next(use for use in found.uses if use.what == "bias")
    assert bias.answer == answer
    assert ("there are features" in bias.text) == (method == "features")
    assert (found.command is not None and "rankloop bias" in found.command) == (method == "features")


@pytest.mark.parametrize(("pair_clicks", "answer"), [(100, "partly"), (100_000, "yes")])
def test_a_verdict_is_promised_only_where_the_bias_is(pair_clicks: int, answer: str) -> None:
    """Before: "what a ranker is worth: yes" beside a bias that `rankloop bias` then refused to estimate."""
    moved = DocumentMovement(15_000, 1_000, pair_clicks, 15_000, 1_000, pair_clicks, 10)
    found = judge_log(
        folder="log", movement=moved, clicks=200_000, queries=3_000, explores=True, features=(True, 0)
    )
    assert {use.what: use.answer for use in found.uses} == {
        "bias": answer,
        "fit": "yes",
        "evaluate": answer,
    }


def test_a_single_query_is_spoken_of_in_the_singular() -> None:
    """Before: "940 clicks on 1 queries are too few"."""
    found = judge_log(
        folder="log",
        movement=DocumentMovement(14, 14, 750, 14, 14, 750, 8),
        clicks=940,
        queries=1,
        explores=True,
        features=(True, 0),
    )
    texts = {use.what: use.text for use in found.uses}
    assert texts["fit"].startswith("One query is not enough to learn from")
    assert texts["evaluate"] == "One query does not tell how much queries differ."
