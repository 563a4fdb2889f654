"""Every clause about metrics catches a metric that breaks it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from rankloop.checks import check_metric
from rankloop.checks.metrics import METRIC_CLAUSES
from rankloop.evaluation import DCG, Metric
from tests.checks.broken import assert_caught


class Broken(DCG):
    """DCG@3, with the part overridden that breaks a clause."""


class Mutable(Broken):
    __setattr__ = object.__setattr__  # type: ignore[assignment]


class Unhashable(Broken):
    __hash__ = None  # type: ignore[assignment]


class Misspelled(Broken):
    def __str__(self) -> str:
        return "dcg@4"


class Mean(Broken):
    def of_ranking(self, scores: Any, labels: Any, offsets: Any) -> Any:
        return np.array([super().of_ranking(scores, labels, offsets).mean()])


class Approximate(Broken):
    def _policy(self, scores: Any, labels: Any, offsets: Any) -> Any:
        return self._ranking(scores, labels, offsets)


class Showing(Broken):
    def of_policy(self, scores: Any, labels: Any, offsets: Any) -> Any:
        shown = np.where(np.isneginf(scores), np.nanmin(np.where(np.isinf(scores), np.nan, scores)), scores)
        return super().of_policy(shown, labels, offsets)


class Blunt(Broken):
    def _policy(self, scores: Any, labels: Any, offsets: Any) -> Any:
        return super()._policy(np.clip(scores, -50.0, 5.0), labels, offsets)


class Absolute(Broken):
    def _ranking(self, scores: Any, labels: Any, offsets: Any) -> Any:
        return super()._ranking(np.maximum(scores, 0.0), labels, offsets)


class ByPosition(Broken):
    def _gains(self, labels: Any) -> Any:
        return labels * np.arange(len(labels))


class LastOfTies(Broken):
    def _ranking(self, scores: Any, labels: Any, offsets: Any) -> Any:
        return super()._ranking(scores + 1e-9 * np.arange(len(scores)), labels, offsets)


class Reversed(Broken):
    higher_is_better: ClassVar[bool] = False


class Undecided(Broken):
    def _replace_no_relevant(self, values: Any, labels: Any, offsets: Any) -> Any:
        return super()._replace_no_relevant(values, labels, offsets) + 0.5


class Meddling(Broken):
    def of_ranking(self, scores: Any, labels: Any, offsets: Any) -> Any:
        values = super().of_ranking(scores, labels, offsets)
        if isinstance(labels, np.ndarray):
            labels[:] = 0.0
        return values


class Lenient(Broken):
    def of_ranking(self, scores: Any, labels: Any, offsets: Any) -> Any:
        return super().of_ranking(np.nan_to_num(np.asarray(scores, float), neginf=-np.inf), labels, offsets)


BROKEN = [
    ("is_frozen", Mutable(3)),
    ("is_hashable", Unhashable(3)),
    ("reads_back", Misspelled(3)),
    ("gives_one_number_per_query", Mean(3)),
    ("is_an_exact_expectation", Approximate(3)),
    ("never_shows_excluded_documents", Showing(3)),
    ("has_the_ranking_as_its_limit", Blunt(3)),
    ("ignores_constants", Absolute(3)),
    ("ignores_the_order_of_documents", ByPosition(3)),
    ("breaks_ties_by_position", LastOfTies(3)),
    ("is_best_at_the_ideal_ranking", Reversed(3)),
    ("decides_about_queries_without_relevance", Undecided(3)),
    ("leaves_its_inputs_alone", Meddling(3)),
    ("refuses_bad_input", Lenient(3)),
]


def test_every_clause_can_fail() -> None:
    assert {name for name, _ in BROKEN} == {clause.name for clause in METRIC_CLAUSES}


@pytest.mark.parametrize(("clause", "metric"), BROKEN, ids=lambda value: type(value).__name__)
def test_a_broken_metric_is_caught(clause: str, metric: Metric) -> None:
    assert_caught(METRIC_CLAUSES, clause, metric, lambda: check_metric(metric))
