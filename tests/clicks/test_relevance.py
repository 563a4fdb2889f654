"""Mappings from labels to relevance."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.checks.contract import Clause
from rankloop.checks.users import RELEVANCE_CLAUSES
from rankloop.clicks import RELEVANCES, Relevance, relevance
from rankloop.errors import RankloopError
from rankloop.names import parse
from tests.checks.registered import built_in

NAMES = {
    "linear": [0, 1 / 4, 2 / 4, 3 / 4, 1],
    "linear(max_label=5)": [0, 1 / 5, 2 / 5, 3 / 5, 4 / 5],
    "exponential": [0, 1 / 15, 3 / 15, 7 / 15, 1],
    "exponential(max_label=5)": [0, 1 / 31, 3 / 31, 7 / 31, 15 / 31],
    "exponential(max_label=5000)": [0, 0, 0, 0, 0],
    "binary": [0, 1, 1, 1, 1],
    "binary(relevant_from=2.5)": [0, 0, 0, 1, 1],
}


def test_every_kind_is_covered() -> None:
    assert {parse(name).name for name in NAMES} == built_in(RELEVANCES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("clause", RELEVANCE_CLAUSES, ids=repr)
def test_every_mapping_keeps_the_contract(name: str, clause: Clause[Relevance]) -> None:
    clause(relevance(name))


@pytest.mark.parametrize("name", NAMES)
def test_names_round_trip_and_map_labels(name: str) -> None:
    mapping = relevance(name)
    assert str(mapping) == name
    assert mapping == relevance(name)
    mapped = mapping.of([0, 1, 2, 3, 4])
    assert mapped.dtype == np.float64
    np.testing.assert_allclose(mapped, NAMES[name], rtol=1e-13)


def test_empty_labels_give_empty_relevance() -> None:
    assert all(relevance(name).of([]).shape == (0,) for name in NAMES)


@pytest.mark.parametrize("max_label", [0.1, 1, 3, 4, 7.7, 30])
def test_the_highest_label_has_relevance_one(max_label: float) -> None:
    assert relevance(f"linear(max_label={max_label})").of([max_label]) == 1.0
    assert relevance(f"exponential(max_label={max_label})").of([max_label]) == 1.0


@pytest.mark.parametrize(
    ("text", "labels", "message"),
    [
        ("linaer", [], "unknown relevance 'linaer', did you mean 'linear'"),
        ("linear@5", [], "'linear' takes no cut-off"),
        ("linear(relevant_from=1)", [], "unknown option of 'linear' 'relevant_from'"),
        (
            "linear(max_label=0)",
            [],
            "'max_label' of the relevance 'linear': expected a number above 0, got 0",
        ),
        ("binary(relevant_from=0)", [], "'relevant_from' of the relevance 'binary'"),
        (
            "linear",
            [0, 5],
            r"a label of 5 is above the highest .*set that of the data, linear\(max_label=5\)",
        ),
        ("exponential", [4.5], r"a label of 4.5 is above"),
        ("linear", [0, -1], r"not negative, got -1.0 \(number 1\)"),
        ("binary", [np.nan], "labels must be finite"),
        ("binary", [np.inf], "labels must be finite"),
    ],
)
def test_invalid_labels_are_rejected(text: str, labels: list[float], message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        relevance(text).of(labels)
