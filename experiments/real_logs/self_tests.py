"""What the self-test of a published log says, in a line."""

from __future__ import annotations

from pathlib import Path

from rankloop import load_bias, open_log
from rankloop.evidence.assumption_tests import AssumptionTest
from rankloop.evidence.self_test import finding_of
from rankloop.offline.assumptions import assume_bias, self_test_of


def describe(folder: Path, bias: Path | None) -> str:
    """What was found, what was not, and what could not be tested.

    Args:
        folder: the log.
        bias: its stored bias; None if none could be estimated.
    """
    log = open_log(folder)
    found = self_test_of(log, None if bias is None else assume_bias(log, load_bias(bias)))
    if found is None:
        return "no row can be tested."
    alarms = [finding_of(test).text for test in found.found]
    silent = [_named(test) for test in found.tests if test.state == "nothing found"]
    untested = [test.name for test in found.tests if test.state == "not tested"]
    parts = [" ".join(alarms) or "nothing found."]
    if silent:
        parts.append(f"Not found: {', '.join(silent)}.")
    if untested:
        parts.append(f"Not tested: {', '.join(untested)}.")
    return " ".join(parts)


def _named(test: AssumptionTest) -> str:
    """A test that found nothing, with what it would have seen."""
    seen = f"{test.smallest_seen:.0%} would have been seen".replace("%", " %")
    return f"{test.name} ({seen}{', an effect below the gate' if test.negligible else ''})"
