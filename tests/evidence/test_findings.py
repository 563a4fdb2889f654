"""What a finding of the self-test means for a decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rankloop.evidence.assumption_tests import (
    HALVES,
    HIDDEN,
    LENGTH,
    ORDER,
    POLICY,
    SET,
    WEEKDAY,
    AssumptionTest,
    PartialEffect,
)
from rankloop.evidence.decision import DecisionKind, Evidence, decide
from rankloop.evidence.self_test import SelfTest, Setting, meaning_for

USUAL = Setting()
# Nothing else is the case.
UNCHANGED = Setting(rankings_changed=False)


def alarm(name: str, **more: object) -> AssumptionTest:
    test = AssumptionTest(
        name,
        "found",
        effect=0.12,
        interval=(0.1, 0.14),
        of="variant",
        parts=(PartialEffect("Monday", 0.0, (0.0, 0.0)),),
    )
    return replace(test, **more)  # type: ignore[arg-type]


def meaning(setting: Setting, *tests: AssumptionTest) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The word for a clear difference, the reasons why it is not firm, and the notes."""
    found = meaning_for(SelfTest(tests, 1_000), setting)
    decision = decide(Evidence(0.2, (0.1, 0.3), assumptions=found.assumptions))
    return str(decision.kind), decision.reasons, found.notes


FIRM, LEANS = str(DecisionKind.BETTER), str(DecisionKind.LEANS_BETTER)


@pytest.mark.parametrize(
    ("name", "setting", "word", "reason"),
    [
        (POLICY, USUAL, LEANS, "drift"),
        (POLICY, UNCHANGED, LEANS, "drift"),
        (POLICY, Setting(periods=2), FIRM, None),
        (HALVES, USUAL, LEANS, "drift"),
        (HALVES, UNCHANGED, FIRM, None),
        (WEEKDAY, UNCHANGED, FIRM, None),
        (LENGTH, USUAL, LEANS, "length"),
        (LENGTH, Setting(accounted=frozenset({LENGTH})), FIRM, None),
        ("column device", USUAL, LEANS, "column"),
        ("column device", Setting(accounted=frozenset({"column device"})), FIRM, None),
        (ORDER, USUAL, FIRM, None),
        (ORDER, Setting(predicts_clicks=True), LEANS, "order"),
        (SET, USUAL, FIRM, None),
        (SET, Setting(other_documents=True), LEANS, "set"),
        (HIDDEN, USUAL, LEANS, "contexts"),
    ],
)
def test_each_finding_leans_or_notes(name: str, setting: Setting, word: str, reason: str | None) -> None:
    kind, reasons, notes = meaning(setting, alarm(name))
    assert kind == word
    assert reasons == (() if reason is None else (reason,))
    assert len(notes) == (reason is None)


def test_nothing_found_is_firm_without_notes() -> None:
    tests = [AssumptionTest(name, "nothing found") for name in (POLICY, LENGTH, ORDER, SET, HIDDEN)]
    assert meaning(USUAL, *tests) == (FIRM, (), ())


def test_what_could_not_be_tested_does_not_hold() -> None:
    """Untested, a drift matters only where it could favour a policy."""
    nothing = SelfTest((AssumptionTest(POLICY), AssumptionTest(HALVES), AssumptionTest(LENGTH)), 1_000)
    (drift,) = meaning_for(nothing, USUAL).assumptions
    assert (drift.name, drift.state) == ("drift", "untested")
    assert meaning_for(nothing, UNCHANGED).assumptions == ()
    assert meaning_for(nothing, Setting(periods=2)).assumptions == ()
    one = SelfTest((AssumptionTest(POLICY), AssumptionTest(HALVES, "nothing found")), 1_000)
    assert [part.state for part in meaning_for(one, USUAL).assumptions] == ["held"]


def test_a_set_beside_an_order_is_that_of_the_order() -> None:
    setting = Setting(other_documents=True)
    assert meaning(setting, alarm(ORDER), alarm(SET))[0] == FIRM
    assert meaning(setting, alarm(SET))[0] == LEANS


def test_other_curves_in_each_period_lean() -> None:
    setting = Setting(periods=2)
    assert meaning(setting, alarm(POLICY, uneven=0.4))[0] == FIRM
    kind, reasons, _ = meaning(setting, alarm(POLICY, uneven=1e-4))
    assert (kind, reasons) == (LEANS, ("drift",))


def test_sentences() -> None:
    *_, (drift,) = meaning(Setting(periods=2), alarm(POLICY))
    assert drift == (
        "The same document at the same position was clicked 12 % (10 to 14) more under `variant`. Users or "
        "demand changed; policies are compared within each period only."
    )
    *_, (weekday,) = meaning(UNCHANGED, alarm(WEEKDAY, of="Sunday"))
    assert weekday.startswith("Clicks vary by weekday")
    assert weekday.endswith("; this does not favour a policy.")
    *_, (length,) = meaning(Setting(accounted=frozenset({LENGTH})), alarm(LENGTH, effect=-0.1))
    assert length.endswith("; list length is accounted for.")
