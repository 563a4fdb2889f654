"""The contract of every rule of evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rankloop.checks.contract import Clause, check_all, require, require_same
from rankloop.checks.values import VALUE_CLAUSES
from rankloop.evidence import EvidenceRule
from rankloop.value import Gain

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
