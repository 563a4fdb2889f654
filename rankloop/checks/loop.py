"""The contracts of what a loop takes: explorations, and rules of evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rankloop.checks.contract import (
    OFFSETS,
    VALUE_CLAUSES,
    Clause,
    check_all,
    require,
    require_same,
    require_unchanged,
    rotate_within_queries,
)
from rankloop.clicks import PaperUsers
from rankloop.evidence import EvidenceRule
from rankloop.loop import Exploration
from rankloop.statistics import Exposure
from rankloop.types import Float64
from rankloop.value import Gain

BIAS = PaperUsers(3).bias
CLIP = 1e-2
# Sums of scores in another order.
CLOSE = 1e-9


@Clause
def only_softens(exploration: Exploration) -> None:
    """The scale is a float above 0 and up to 1, for flat and for sharp scores."""
    for size in (0.0, 1e-3, 1.0, 30.0, 1e4):
        scale = _scale(exploration, size * _scores())
        require(isinstance(scale, float), f"the scale is a {type(scale).__name__}")
        require(0.0 < scale <= 1.0, f"scores with a standard deviation of {size:g} are scaled by {scale}")


@Clause
def explores_in_a_share(exploration: Exploration) -> None:
    """The share of impressions that explore is above 0, at most 1, and never grows."""
    shares = [exploration.explored(impressions) for impressions in (0, 1, 1_000, 10**6, 10**9)]
    require(all(0.0 < share <= 1.0 for share in shares), f"the shares are {shares}")
    require(shares == sorted(shares, reverse=True), f"the shares grow with the impressions: {shares}")


@Clause
def leaves_its_inputs_alone(exploration: Exploration) -> None:
    """Scores and offsets are not changed."""
    given: dict[str, Any] = {"scores": 30.0 * _scores(), "offsets": OFFSETS.copy()}
    before = {name: array.copy() for name, array in given.items()}
    exploration.scale(**given, exposed=_exposed, clip=CLIP)
    require_unchanged(given, before)


@Clause
def has_no_chance_and_no_memory(exploration: Exploration) -> None:
    """The same scores have the same scale, independently of earlier calls."""
    first = _scale(exploration, 30.0 * _scores())
    _scale(exploration, _scores())
    require_same(_scale(exploration, 30.0 * _scores()), first, "the second call on the same scores")


@Clause
def ignores_the_order_of_documents(exploration: Exploration) -> None:
    """The documents of a query may be listed in any order."""
    scores = 30.0 * _scores()
    moved = scores[rotate_within_queries(OFFSETS)]
    actual, expected = _scale(exploration, moved), _scale(exploration, scores)
    require_same(actual, expected, "the scale of documents in another order", rtol=CLOSE)


EXPLORATION_CLAUSES: tuple[Clause[Any], ...] = (
    *VALUE_CLAUSES,
    only_softens,
    explores_in_a_share,
    leaves_its_inputs_alone,
    has_no_chance_and_no_memory,
    ignores_the_order_of_documents,
)


def check_exploration(exploration: Exploration) -> None:
    """Check that an exploration keeps the contract of `rankloop.loop.Exploration`.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.loop import exploration
        >>> check_exploration(exploration("spread(to=2)"))
    """
    check_all(exploration, EXPLORATION_CLAUSES)


def _scores() -> Float64:
    return np.random.default_rng(0).normal(size=int(OFFSETS[-1]))


def _scale(exploration: Exploration, scores: Float64) -> float:
    return exploration.scale(scores, OFFSETS, _exposed, CLIP)


def _exposed(scores: Float64) -> Float64:
    return Exposure.of_scores(scores, OFFSETS, BIAS).alpha


VALUE = 1.0
GAIN = Gain(0.01, click_error=0.01, observed_error=0.01, query_error=0.01, by_guess=0.01)
GAINS = (-1.0, -0.02, 0.0, 0.005, 0.02, 0.05, 1.0)


@Clause
def higher_gains_are_not_refused(rule: EvidenceRule) -> None:
    """If a gain is enough, a higher one with the same error is, too."""
    for look in (1, 2, 5):
        deployed = [rule.decide(replace(GAIN, value=gain), VALUE, look).deploy for gain in GAINS]
        require(deployed == sorted(deployed), f"look {look}: gains of {GAINS} are judged {deployed}")


@Clause
def smaller_errors_are_not_refused(rule: EvidenceRule) -> None:
    """If a gain is enough, the same gain with a smaller error is, too."""
    errors = (1.0, 0.1, 0.01, 0.0)
    parts = ("click_error", "observed_error", "query_error")
    gains = [replace(GAIN, **dict.fromkeys(parts, error)) for error in errors]
    deployed = [rule.decide(gain, VALUE, 1).deploy for gain in gains]
    require(deployed == sorted(deployed), f"errors of {errors} are judged {deployed}")


@Clause
def says_what_it_relies_on(rule: EvidenceRule) -> None:
    """A decision has the gain, the look, and a lower bound that is not above the gain."""
    decision = rule.decide(GAIN, VALUE, 2)
    require_same(decision.estimate, GAIN.value, "the gain of the decision")
    require_same(decision.look, 2, "the look of the decision")
    require(decision.lower <= decision.estimate, f"the lower bound {decision.lower} is above the gain")
    require(0.0 <= decision.level <= 1.0, f"the level is {decision.level}")
    require(not np.isnan(decision.lower), "the lower bound is not a number")


EVIDENCE_RULE_CLAUSES: tuple[Clause[Any], ...] = (
    *VALUE_CLAUSES,
    higher_gains_are_not_refused,
    smaller_errors_are_not_refused,
    says_what_it_relies_on,
)


def check_evidence_rule(rule: EvidenceRule) -> None:
    """Check that a rule keeps the contract of `rankloop.evidence.EvidenceRule`.

    Raises:
        ContractError: a clause is broken; the message has the clause and a counter-example.

    Example:
        >>> from rankloop.evidence import evidence
        >>> check_evidence_rule(evidence("click-noise(margin=0.02)"))
    """
    check_all(rule, EVIDENCE_RULE_CLAUSES)
