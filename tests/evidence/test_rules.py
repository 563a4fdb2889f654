"""Rules of evidence: their levels, their names, and decisions at the edge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from scipy.stats import norm

from rankloop.checks import ContractError, check_evidence_rule
from rankloop.checks.contract import Clause
from rankloop.checks.loop import EVIDENCE_RULE_CLAUSES
from rankloop.errors import RankloopError
from rankloop.evidence import EVIDENCE, ClickNoise, EvidenceRule, evidence
from rankloop.names import BadNameError
from rankloop.value import Gain


def gain_of(value: float, error: float) -> Gain:
    return Gain(value, click_error=error, observed_error=error, query_error=error, by_guess=value)


def test_levels_of_all_looks_add_up_to_the_level() -> None:
    known = ClickNoise(level=0.1, looks=7)
    assert sum(known.level_at(look) for look in range(1, 20)) == pytest.approx(0.1)
    unknown = ClickNoise(level=0.1, looks="any")
    looks = 2_000
    assert sum(unknown.level_at(look) for look in range(1, looks + 1)) == pytest.approx(
        0.1 * (1 - 10 / (looks + 10))
    )


def test_decision_at_the_edge() -> None:
    rule = ClickNoise(level=0.05, looks=1, margin=0.02)
    edge = norm.ppf(0.95) * 0.1 - 0.02 * 3.0
    assert rule.decide(gain_of(edge + 1e-9, 0.1), 3.0, 1).deploy
    assert not rule.decide(gain_of(edge - 1e-9, 0.1), 3.0, 1).deploy


def test_once_all_looks_are_used_up_nothing_is_deployed() -> None:
    assert not ClickNoise(looks=3).decide(gain_of(1.0, 1e-6), 1.0, 4).deploy
    assert ClickNoise(looks="any").decide(gain_of(1.0, 1e-6), 1.0, 4).deploy


def test_without_any_evidence_nothing_is_deployed() -> None:
    for rule in (ClickNoise(), ClickNoise(margin=0.5), evidence("standard-errors")):
        assert not rule.decide(gain_of(5.0, np.inf), 1.0, 1).deploy


def test_looks_at_pure_noise_deploy_as_rarely_as_the_level_says() -> None:
    """10,000 series of 20 looks at a growing log without any gain, and no margin.

    The looks of a series depend on each other, so that fewer than 5 % deploy; more than 571 would have a
    probability below 6e-4 if it were 5 %. With the rule of one look at each look, about 20 % deploy.
    """
    rng = np.random.default_rng(0)
    looks = np.geomspace(100, 1e5, 20)
    sums = np.cumsum(rng.normal(size=(10_000, 20)) * np.sqrt(np.diff(looks, prepend=0.0)), axis=1)
    z = sums / np.sqrt(looks)
    rule = ClickNoise(level=0.05, looks=20, margin=0.0)
    assert (z > rule.caution(1)).any(axis=1).sum() <= 571
    assert (z > norm.ppf(0.95)).any(axis=1).mean() > 0.15


@pytest.mark.parametrize(
    "name",
    [
        "click-noise",
        "click-noise(level=0.1, looks=any, margin=0, estimate=unbiased)",
        "standard-errors",
        "off",
    ],
)
def test_names_are_read_back(name: str) -> None:
    assert evidence(str(evidence(name))) == evidence(name)


def test_every_rule_has_a_name() -> None:
    assert EVIDENCE.names == ("click-noise", "off", "standard-errors")


@pytest.mark.parametrize(
    "name",
    [
        "click-noise(level=0)",
        "click-noise(level=0.5)",
        "click-noise(looks=0)",
        "click-noise(margin=1)",
        "standard-errors(number=-1)",
        "click-nois",
    ],
)
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(BadNameError):
        evidence(name)


def test_looks_are_numbered_from_1() -> None:
    with pytest.raises(RankloopError, match="from 1"):
        ClickNoise().caution(0)


@pytest.mark.parametrize(
    "name", ["click-noise", "click-noise(looks=any, margin=0)", "standard-errors", "off"]
)
@pytest.mark.parametrize("clause", EVIDENCE_RULE_CLAUSES, ids=repr)
def test_every_rule_keeps_the_contract(name: str, clause: Clause[EvidenceRule]) -> None:
    clause(evidence(name))


def test_the_contract_catches_a_rule_that_likes_losses() -> None:
    @dataclass(frozen=True)
    class Reversed(ClickNoise):
        name: ClassVar[str] = "reversed"

        def interval(self, gain: Gain, look: int) -> tuple[float, float]:
            return super().interval(replace(gain, value=-gain.value), look)

    with pytest.raises(ContractError):
        check_evidence_rule(Reversed())
