"""Every clause about estimators catches an estimator that breaks it, and nothing else does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from rankloop.checks import check_estimator
from rankloop.checks.estimators import ESTIMATOR_CLAUSES
from rankloop.estimators import Estimator, Naive
from rankloop.statistics import Statistics
from rankloop.types import Bias
from tests.checks.broken import assert_caught


class Broken(Naive):
    """Naive, with the part overridden that breaks a clause; the name and the fields are its own."""


@dataclass
class Mutable(Estimator):  # type: ignore[misc]
    name: ClassVar[str] = "mutable"
    strength: float = 1.0

    def _total(self, statistics: Statistics, _bias: Bias, /) -> Any:
        return self.strength * statistics.clicks

    def __hash__(self) -> int:
        return 0


class Unhashable(Broken):
    __hash__ = None  # type: ignore[assignment]


class Misspelled(Broken):
    def __str__(self) -> str:
        return "naive(strength=1)"


class Unequal(Broken):
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Single(Broken):
    def weights(self, statistics: Statistics, bias: Bias) -> Any:
        return super().weights(statistics, bias).astype(np.float32)


class PerQuery(Broken):
    def weights(self, statistics: Statistics, bias: Bias) -> Any:
        return np.add.reduceat(super().weights(statistics, bias), statistics.offsets[:-1])


class Remembering(Broken):
    calls: ClassVar[list[int]] = []

    def weights(self, statistics: Statistics, bias: Bias) -> Any:
        self.calls.append(1)
        return super().weights(statistics, bias) * len(self.calls)


class Meddling(Broken):
    def weights(self, statistics: Statistics, bias: Bias) -> Any:
        weights = super().weights(statistics, bias)
        object.__setattr__(statistics, "log_impressions", 1)
        return weights


class Summing(Broken):
    def weights(self, statistics: Statistics, bias: Bias) -> Any:
        return super().weights(statistics, bias) * statistics.impressions


class FirstPolicy(Broken):
    def _total(self, statistics: Statistics, _bias: Bias, /) -> Any:
        return next(iter(statistics.policies.values())).clicks.astype(float)


class CountingPolicies(Broken):
    def _total(self, statistics: Statistics, bias: Bias, /) -> Any:
        return super()._total(statistics, bias) / len(statistics.policies)


class Optimistic(Broken):
    def _total(self, statistics: Statistics, bias: Bias, /) -> Any:
        return super()._total(statistics, bias) + statistics.per_document(statistics.impressions_by_query)


class Dividing(Broken):
    def _total(self, statistics: Statistics, _bias: Bias, /) -> Any:
        return sum(each.clicks / each.exposure.examination**4 for each in statistics.policies.values())


class ByPosition(Broken):
    def _total(self, statistics: Statistics, bias: Bias, /) -> Any:
        return super()._total(statistics, bias) * np.arange(statistics.n_documents)


class ElsewhereUnclipped(Broken):
    @property
    def unclipped(self) -> Any:
        return Naive()


class Trusting(Broken):
    def weights(self, statistics: Statistics, bias: Bias) -> Any:
        return self._total(statistics, bias) * (statistics.n_queries / max(statistics.impressions, 1))


BROKEN = [
    ("is_frozen", Mutable()),
    ("is_hashable", Unhashable()),
    ("reads_back", Misspelled()),
    ("reads_back", Unequal()),
    ("weighs_every_document", Single()),
    ("weighs_every_document", PerQuery()),
    ("is_pure", Remembering()),
    ("is_pure", Meddling()),
    ("repeats_itself", Summing()),
    ("adds_in_any_order", FirstPolicy()),
    ("ignores_idle_policies", CountingPolicies()),
    ("learns_nothing_from_nothing", Optimistic()),
    ("stays_finite", Dividing()),
    ("follows_the_documents", ByPosition()),
    ("unclips_once", ElsewhereUnclipped()),
    ("refuses_what_cannot_be_estimated", Trusting()),
]


def test_every_clause_can_fail() -> None:
    assert {name for name, _ in BROKEN} == {clause.name for clause in ESTIMATOR_CLAUSES}


@pytest.mark.parametrize(("clause", "estimator"), BROKEN, ids=lambda value: getattr(value, "name", None))
def test_a_broken_estimator_is_caught(clause: str, estimator: Estimator) -> None:
    assert_caught(ESTIMATOR_CLAUSES, clause, estimator, lambda: check_estimator(estimator))


def test_the_message_has_the_counterexample() -> None:
    broken = Optimistic()
    error = assert_caught(
        ESTIMATOR_CLAUSES, "learns_nothing_from_nothing", broken, lambda: check_estimator(broken)
    )
    assert re.match(r"naive breaks .* never shown: at \[0\] there are .* and 0.0$", str(error))
