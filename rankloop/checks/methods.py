"""The contract of every online method."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rankloop.checks.contract import VALUE_CLAUSES, Clause, check_all, require, require_same
from rankloop.data import synthetic
from rankloop.models import MLP, Linear
from rankloop.models.mlp import Network
from rankloop.online import Method, MethodState, Traffic, interact, interact_log
from rankloop.types import Float64

N_FEATURES = 12


@dataclass(frozen=True, eq=False)
class MethodCase:
    """A method, the model that it starts from, and how rankings are logged.

    Attributes:
        method: to be checked.
        model: where it starts.
        counterfactual: whether the first model logs all rankings; otherwise the learned one logs its own.
    """

    method: Method
    model: Network
    counterfactual: bool = False

    def __str__(self) -> str:
        way = "counterfactually" if self.counterfactual else "online"
        return f"{self.method} ({way}, from a {self.model.kind} model)"

    @property
    def logging(self) -> Float64 | None:
        """The scores of the policy that logs; None for the learned policy itself."""
        return _traffic().queries.scores(self.model) if self.counterfactual else None

    def start(self, seed: int = 0) -> MethodState:
        """The state before the first impression."""
        return MethodState.start(self.method, self.model, np.random.default_rng(seed))

    def run(self, state: MethodState, impressions: int) -> tuple[MethodState, Any]:
        """So many impressions from a state on."""
        return interact(self.method, state, _traffic(), impressions, logging=self.logging)


@Clause
def learns_from_clicks(case: MethodCase) -> None:
    """Impressions move the parameters; the state and the model that were given stay as they were."""
    state = case.start()
    before, mark = state.to_bytes(), case.model.fingerprint
    after, counts = case.run(state, 200)
    require(state.to_bytes() == before, "the call changes the state that it was given")
    require(after.learned.fingerprint != mark, "200 impressions move nothing")
    require(after.impressions == counts.impressions == 200, f"it counts {after.impressions} impressions")
    require(
        (counts.clicks_by_position <= counts.displays_by_position).all(),
        "there are more clicks than displays",
    )


@Clause
def does_not_depend_on_chunks(case: MethodCase) -> None:
    """The result does not depend on the number of calls that the impressions are spread over."""
    whole, counts = case.run(case.start(), 60)
    now, shown = case.start(), np.zeros_like(counts.displays_by_position)
    for size in (1, 0, 2, 17, 40):
        now, part = case.run(now, size)
        shown = shown + part.displays_by_position
    require(now.to_bytes() == whole.to_bytes(), "60 impressions in five calls end elsewhere than in one")
    require_same(shown, counts.displays_by_position, "what is shown in five calls and in one")


@Clause
def resumes_from_a_checkpoint(case: MethodCase) -> None:
    """A run that resumes from a stored state ends in the same state, to the bit."""
    half, _ = case.run(case.start(), 30)
    read = MethodState.from_bytes(half.to_bytes())
    require(read.to_bytes() == half.to_bytes(), "the state that is read back has other bytes")
    ends = [case.run(point, 30)[0].to_bytes() for point in (half, read)]
    require(ends[0] == ends[1], "the stored state ends elsewhere")


@Clause
def draws_from_its_stream(case: MethodCase) -> None:
    """All chance comes from the generator that is passed: one seed, one run; two seeds, two runs."""
    ends = [case.run(case.start(seed), 50)[0].to_bytes() for seed in (5, 5, 6)]
    require(ends[0] == ends[1], "the same seed ends in two states")
    require(ends[0] != ends[2], "two seeds end in the same state")


@Clause
def logs_what_it_counts(case: MethodCase) -> None:
    """The log of a run has the counts of the run."""
    state = case.start()
    after, counts = case.run(state, 100)
    again, log = interact_log(case.method, state, _traffic(), 100, logging=case.logging)
    require(after.to_bytes() == again.to_bytes(), "the run that is logged ends in another state")
    summed = log.counts(_traffic().queries.offsets)
    for name in ("impressions_by_query", "displays_by_position", "clicks_by_position"):
        require_same(getattr(summed, name), getattr(counts, name), f"{name} of the log and of the run")


@Clause
def knows_which_policy_logs(case: MethodCase) -> None:
    """Counterfactual steps with the learned policy deployed after each are the online run, to the bit."""
    online, _ = interact(case.method, case.start(), _traffic(), 40)
    now = case.start()
    for _ in range(40):
        scores = _traffic().queries.scores(now.learned)
        now, _counts = interact(case.method, now, _traffic(), 1, logging=scores)
    require(now.to_bytes() == online.to_bytes(), "it ends in another state")


@Clause
def keeps_the_type_of_parameters(case: MethodCase) -> None:
    """Parameters of float32 stay float32, and those of float64 stay float64."""
    for dtype in (np.float32, np.float64):
        parameters: Any = case.model.parameters.astype(dtype)
        start = case.model.with_parameters(parameters)
        state = MethodState.start(case.method, start, np.random.default_rng(0))
        after, _ = interact(case.method, state, _traffic(), 20)
        found = after.learned.parameters.dtype
        require(found == dtype, f"{np.dtype(dtype)} becomes {found}")


METHOD_CLAUSES: tuple[Clause[MethodCase], ...] = (
    learns_from_clicks,
    does_not_depend_on_chunks,
    resumes_from_a_checkpoint,
    draws_from_its_stream,
    logs_what_it_counts,
    knows_which_policy_logs,
    keeps_the_type_of_parameters,
)


def method_cases(method: Method) -> Iterator[MethodCase]:
    """The method on a linear model and on a small network, online and counterfactually."""
    rng = np.random.default_rng(0)
    for model in (Linear.initialise(N_FEATURES, rng), MLP.initialise(N_FEATURES, rng, hidden=(6, 4))):
        for counterfactual in (False, True):
            yield MethodCase(method, model, counterfactual)


def check_method(method: Method) -> None:
    """Check that an online method keeps the contract of `rankloop.online.Method`.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.online import PDGD
        >>> check_method(PDGD(rate=0.1))
    """
    check_all(method, VALUE_CLAUSES)
    for case in method_cases(method):
        check_all(case, METHOD_CLAUSES)


@cache
def _traffic() -> Traffic:
    return Traffic.of(synthetic(queries=40, features=N_FEATURES, seed=1), "paper@5")
