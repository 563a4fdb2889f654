"""Every clause about users, relevance and explorations catches what breaks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from rankloop.checks import check_exploration, check_relevance, check_users
from rankloop.checks.contract import VALUE_CLAUSES
from rankloop.checks.loop import EXPLORATION_CLAUSES
from rankloop.checks.users import RELEVANCE_CLAUSES, USERS_CLAUSES
from rankloop.clicks import Behaviour, CascadeUsers, PositionUsers
from rankloop.clicks.relevance import LinearRelevance
from rankloop.loop.exploration import Exploration, Soft
from tests.checks.broken import assert_caught

CHANCE = np.random.default_rng(0)


class Moody(PositionUsers):
    @property
    def behaviour(self) -> Behaviour:
        return PositionUsers(self.cutoff, eta=CHANCE.random()).behaviour


class Short(PositionUsers):
    @property
    def behaviour(self) -> Behaviour:
        return PositionUsers(self.cutoff - 1).behaviour


class Inconsistent(PositionUsers):
    @property
    def behaviour(self) -> Behaviour:
        return CascadeUsers(self.cutoff).behaviour


class Stopping(PositionUsers):
    @property
    def behaviour(self) -> Behaviour:
        own = super().behaviour
        return Behaviour(own.alpha, own.beta, own.alpha, own.stop_relevant, own.stop_skipped)


class Silent(PositionUsers):
    @property
    def behaviour(self) -> Any:
        return self.bias


class Grades(LinearRelevance):
    def of(self, labels: object) -> Any:
        return np.asarray(labels, float)


class Meddling(LinearRelevance):
    def of(self, labels: Any) -> Any:
        mapped = super().of(labels)
        if isinstance(labels, np.ndarray):
            labels += 1.0
        return mapped


class Relative(LinearRelevance):
    def of(self, labels: object) -> Any:
        mapped = super().of(labels)
        return mapped / mapped.max() if mapped.any() else mapped


class Contrary(LinearRelevance):
    def of(self, labels: object) -> Any:
        return 1.0 - super().of(labels)


class Lenient(LinearRelevance):
    def of(self, labels: object) -> Any:
        return np.clip(np.nan_to_num(np.asarray(labels, float)) / self.max_label, 0.0, 1.0)


class Sharper(Soft):
    def scale(self, *_given: Any, **_named: Any) -> float:
        return 2.0


class Unguarded(Soft):
    def scale(self, scores: Any, *_given: Any, **_named: Any) -> float:
        return min(1.0, float(1.0 / scores.std())) if scores.any() else float("nan")


class InPlace(Soft):
    def scale(self, scores: Any, *_given: Any, **_named: Any) -> float:
        scores *= self.by
        return self.by


class Random(Soft):
    def scale(self, *_given: Any, **_named: Any) -> float:
        return float(CHANCE.uniform(0.1, 1.0))


class FirstDocument(Soft):
    def scale(self, scores: Any, *_given: Any, **_named: Any) -> float:
        return float(1.0 / (1.0 + abs(scores[0])))


class Growing(Soft):
    def explored(self, impressions: int) -> float:
        return 0.1 if impressions < 1_000 else 0.2


@dataclass(frozen=True)
class Unreadable(Exploration):
    name: ClassVar[str] = "unreadable"
    sizes: tuple[int, ...] = (-1, 2)

    def scale(self, *_given: Any, **_named: Any) -> float:
        return 1.0


KINDS = {
    "users": (
        check_users,
        USERS_CLAUSES,
        [
            ("behave_the_same_each_time", Moody(3)),
            ("behave_the_same_each_time", Silent(3)),
            ("see_as_many_ranks_as_their_name_says", Short(3)),
            ("have_the_bias_they_behave_by", Inconsistent(3)),
            ("have_the_bias_they_behave_by", Stopping(3)),
            ("can_be_simulated", Moody(3)),
        ],
    ),
    "relevance": (
        check_relevance,
        RELEVANCE_CLAUSES,
        [
            ("maps_labels_to_chances", Grades()),
            ("maps_labels_to_chances", Meddling()),
            ("looks_at_each_label_alone", Relative(max_label=5)),
            ("never_falls", Contrary()),
            ("refuses_labels_that_are_not_grades", Lenient()),
        ],
    ),
    "exploration": (
        check_exploration,
        EXPLORATION_CLAUSES,
        [
            ("reads_back", Unreadable()),
            ("only_softens", Sharper()),
            ("only_softens", Unguarded()),
            ("explores_in_a_share", Growing()),
            ("leaves_its_inputs_alone", InPlace()),
            ("has_no_chance_and_no_memory", Random()),
            ("ignores_the_order_of_documents", FirstDocument()),
        ],
    ),
}
CASES = [(kind, clause, value) for kind, (_, _, broken) in KINDS.items() for clause, value in broken]


@pytest.mark.parametrize("kind", KINDS)
def test_every_clause_can_fail(kind: str) -> None:
    _, clauses, broken = KINDS[kind]
    own = {clause.name for clause in clauses} - {clause.name for clause in VALUE_CLAUSES}
    assert own <= {name for name, _ in broken}


@pytest.mark.parametrize(("kind", "clause", "value"), CASES, ids=lambda each: type(each).__name__)
def test_what_is_broken_is_caught(kind: str, clause: str, value: Any) -> None:
    check, clauses, _ = KINDS[kind]
    assert_caught(clauses, clause, value, lambda: check(value))
