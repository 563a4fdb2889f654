"""The self-test of a log: everything offline that decides, or reports on a decision, asks here."""

from __future__ import annotations

from rankloop.errors import DataError
from rankloop.evidence.self_test import SelfTest, self_test
from rankloop.logs import LogReader
from rankloop.offline.assumed_bias import AssumedBias


def self_test_of(log: LogReader, assumed: AssumedBias | None) -> SelfTest | None:
    """What the clicks of a log say about the assumptions of decisions; None if no row can be tested.

    The last result is kept, and returned again for the same bias.

    Args:
        log: the log.
        assumed: how users click; None if that is not known. Only a bias from clicks is used.
    """
    bias = assumed.bias if assumed is not None and assumed.estimated else None
    for known, found in log.self_tests:
        if known is bias:
            return found
    try:
        found = self_test(log.impression_table(), bias)
    except DataError:
        return None
    log.self_tests[:] = [(bias, found)]
    return found
