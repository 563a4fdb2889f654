"""The contract of every metric: names, shapes, exact expectations, limits, invalid input."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from rankloop.checks.contract import Clause
from rankloop.checks.metrics import METRIC_CLAUSES
from rankloop.errors import DataError, RankloopError
from rankloop.evaluation import ARP, METRICS, Metric, metric
from tests.checks.registered import built_in

# Every metric, with and without its cut-off and options. A metric added to METRICS must be added here.
NAMES = [
    "arp",
    "arp(gain=exponential)",
    "dcg",
    "dcg@3",
    "dcg@5(gain=exponential)",
    "dcg@5(no_relevant=skip)",
    "mrr",
    "mrr@2",
    "mrr@5(no_relevant=one, relevant_from=2)",
    "ndcg",
    "ndcg@3",
    "ndcg@5(gain=exponential, no_relevant=skip)",
    "nrctr@2",
    "nrctr@5(no_relevant=one)",
    "precision@2",
    "precision@5(relevant_from=3)",
    "rctr@2",
    "rctr@5(max_label=5)",
]

every_metric = pytest.mark.parametrize("m", [metric(name) for name in NAMES], ids=str)


def test_every_metric_is_covered() -> None:
    assert {name.partition("@")[0].partition("(")[0] for name in NAMES} == built_in(METRICS)


@every_metric
@pytest.mark.parametrize("clause", METRIC_CLAUSES, ids=repr)
def test_every_metric_keeps_the_contract(m: Metric, clause: Clause[Metric]) -> None:
    clause(m)


@every_metric
def test_names_are_canonical(m: Metric) -> None:
    assert str(m) in NAMES


@every_metric
@pytest.mark.parametrize(
    ("scores", "labels", "offsets", "message"),
    [
        ([1.0, np.nan, 1.0], [1, 0, 2], [0, 1, 3], "query number 1, document 0: a score that is NaN"),
        ([1.0, 1.0, np.inf], [1, 0, 2], [0, 1, 3], "query number 1, document 1: a score that is NaN or"),
        ([1.0, 1.0, 1.0], [1, 0, -1], [0, 1, 3], "query number 1, document 1: a label that is not"),
        ([1.0, 1.0, 1.0], [1, np.nan, 1], [0, 1, 3], "query number 1, document 0: a label that is not"),
        ([1.0, -np.inf, -np.inf], [1, 0, 2], [0, 1, 3], "query number 1: every document has the score -inf"),
        ([1.0, 1.0], [1, 0, 2], [0, 1, 3], r"got shapes \(2,\) and \(3,\)"),
        ([1.0, 1.0, 1.0], [1, 0, 2], [0, 1, 2], "offsets must be"),
        ([1.0, 1.0, 1.0], [1, 0, 2], [0, 3, 3], "query number 1 has no documents"),
    ],
)
def test_invalid_input_is_rejected_with_its_location(
    m: Metric, scores: list[float], labels: list[float], offsets: list[int], message: str
) -> None:
    for values_of in (m.of_ranking, m.of_policy):
        with pytest.raises(DataError, match=message):
            values_of(scores, labels, offsets)


BAD_OPTIONS = [
    ("cutoff", 0),
    ("cutoff", 2.5),
    ("gain", "quadratic"),
    ("no_relevant", "nan"),
    ("relevant_from", 0.0),
    ("max_label", -1.0),
    ("max_label", float("nan")),
]


@pytest.mark.parametrize(
    ("kind", "option", "value"),
    [
        (kind, option, value)
        for kind in (METRICS[name] for name in sorted(built_in(METRICS)))
        for option, value in BAD_OPTIONS
        if option in {field.name for field in fields(kind)}  # type: ignore[arg-type]
    ],
)
def test_invalid_options_are_rejected(kind: type[Metric], option: str, value: object) -> None:
    good = {} if kind is ARP else {"cutoff": 5}
    with pytest.raises(RankloopError, match=f"'{option}' of the metric '{kind.name}'"):
        kind(**(good | {option: value}))
