"""Every clause about online methods catches a method that breaks it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from rankloop.checks import check_method
from rankloop.checks.methods import METHOD_CLAUSES, MethodCase, method_cases
from rankloop.online import Method
from tests.checks.broken import assert_caught
from tests.online.toy import Toy, run_toy


class Broken(Toy):
    """The toy method, with a compiled loop around which something is wrong."""

    chance: ClassVar[np.random.Generator] = np.random.default_rng(0)
    calls: ClassVar[list[int]] = []

    @property
    def run(self) -> Any:
        return self.wrong

    def wrong(self, *given: Any) -> int:
        raise NotImplementedError


class Idle(Broken):
    def wrong(self, *given: Any) -> int:
        parameters, kept = given[6], given[6].copy()
        done = run_toy(*given)
        parameters[:] = kept
        return int(done)


class PerCall(Broken):
    def wrong(self, *given: Any) -> int:
        given[6][-1] += 1.0
        return int(run_toy(*given))


class Remembering(Broken):
    def wrong(self, *given: Any) -> int:
        self.calls.append(1)
        given[6][-1] += len(self.calls)
        return int(run_toy(*given))


class Random(Broken):
    def wrong(self, *given: Any) -> int:
        given[6][-1] += self.chance.normal()
        return int(run_toy(*given))


class Blind(Broken):
    """Ranks by its first parameters instead of its learned ones, unless a logging policy is given."""

    def wrong(self, *given: Any) -> int:
        if len(given[3]) == 0:
            given[6][-1] += 1.0
        return int(run_toy(*given))


class Widening(Broken):
    def wrong(self, *given: Any) -> int:
        if given[6].dtype == np.float64:
            raise TypeError("only float32 was compiled")
        return int(run_toy(*given))


BROKEN = [
    ("learns_from_clicks", Idle()),
    ("does_not_depend_on_chunks", PerCall()),
    ("resumes_from_a_checkpoint", Remembering()),
    ("draws_from_its_stream", Random()),
    ("logs_what_it_counts", Random()),
    ("knows_which_policy_logs", Blind()),
    ("keeps_the_type_of_parameters", Widening()),
]


def first_case(method: Method) -> MethodCase:
    return next(method_cases(method))


def test_every_clause_can_fail() -> None:
    assert {name for name, _ in BROKEN} == {clause.name for clause in METHOD_CLAUSES}


@pytest.mark.parametrize(("clause", "method"), BROKEN, ids=lambda value: type(value).__name__)
def test_a_broken_method_is_caught(clause: str, method: Method) -> None:
    assert_caught(METHOD_CLAUSES, clause, first_case(method), lambda: check_method(method))
