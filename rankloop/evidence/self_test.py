"""The self-test of a log: are the assumptions of a decision true on these clicks?

| test | what clicks on the same document at the same position must not depend on |
|---|---|
| drift by policy, between halves | the policy; the second half of the time, at all positions or at one |
| drift over time, by weekday | the eighth of the time; the day of the week |
| length | how long the list is |
| column | a column of context, unless all positions change alike |
| order | how attractive the documents above are |
| set | how attractive the other documents of the list are |
| hidden contexts | the query: relevance seems the same at all positions |

docs/what-can-go-wrong.md has the rates at which they find broken logs, and at which they alarm on sound ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rankloop.errors import DataError
from rankloop.evidence.assumption_tests import (
    HALVES,
    HIDDEN,
    ORDER,
    POLICY,
    AssumptionTest,
    State,
    all_tests,
    context_tests,
    drift_within,
)
from rankloop.statistics.impression_table import ImpressionTable
from rankloop.types import Bias, Int64

# The probability of any false alarm in a sound log.
LEVEL = 0.01


@dataclass(frozen=True)
class Gates:
    """The smallest effects that matter: in large logs, everything is significant.

    Attributes:
        drift: relative change of clicks, also by list length, by a column's values and between queries.
        order: relative change per standard deviation of what stands above, or of the other documents.
    """

    drift: float = 0.01
    order: float = 0.02


@dataclass(frozen=True)
class SelfTest:
    """What the self-test of a log found.

    Attributes:
        tests: all tests, in the order in which they are reported.
        impressions: how many impressions were tested.
        share: the share of the rows of the log that was tested.
        unit: what is independent: ``user``, ``session`` or ``impression``.
    """

    tests: tuple[AssumptionTest, ...]
    impressions: int
    share: float = 1.0
    unit: str = "impression"

    @property
    def found(self) -> tuple[AssumptionTest, ...]:
        """The tests whose assumption does not hold.

        Hidden contexts are not reported beside an effect of the order: that one looks like them.
        """
        alarms = tuple(test for test in self.tests if test.state == "found")
        if any(test.name == ORDER for test in alarms):
            return tuple(test for test in alarms if test.name != HIDDEN)
        return alarms

    @property
    def tested(self) -> tuple[AssumptionTest, ...]:
        """The tests that could be done."""
        return tuple(test for test in self.tests if test.state != "not tested")

    def test(self, name: str) -> AssumptionTest:
        """The test of this name."""
        return next(test for test in self.tests if test.name == name)

    @property
    def smallest_drift_seen(self) -> float:
        """The smallest change of click rates over time or by policy that would have been seen; else NaN."""
        sizes = [test.smallest_seen for test in self.tested if test.name in (POLICY, HALVES)]
        return max(sizes, default=float("nan"))


def self_test(
    table: ImpressionTable, bias: Bias | None = None, *, level: float = LEVEL, gates: Gates | None = None
) -> SelfTest:
    """Test the assumptions of decisions on a log.

    Args:
        table: the impressions.
        bias: how users click; None if that is not known, and then queries are not tested for hidden contexts.
        level: the probability of any false alarm in a sound log (Holm's correction over all tests).
        gates: the smallest effects that matter.

    Example:
        Users click one document in three, wherever it stands; from the middle on, in two.

        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> lists = rng.permuted(np.tile(np.arange(4), (2_000, 1)), axis=1)
        >>> late = np.arange(2_000) >= 1_000
        >>> clicks = rng.random(lists.shape) < np.where(late, 1 / 2, 1 / 3)[:, None]
        >>> table = ImpressionTable.of_lists(lists, clicks, query=np.zeros(2_000), time=np.arange(2_000))
        >>> [test.name for test in self_test(table).found]
        ['drift between halves', 'drift over time']
    """
    if not len(table.rows.document):
        raise DataError("there are no rows of impressions to test")
    limits = gates or Gates()
    tests = tuple(all_tests(table, bias, drift=limits.drift, order=limits.order))
    return SelfTest(_holm(tests, level), len(table.rows), table.share, table.unit_name)


def context_found(table: ImpressionTable, *, level: float = LEVEL) -> str | None:
    """The name of the test that finds that users click otherwise in some contexts, such as short lists.

    The length of lists and the columns of a log are tested, as by `self_test`. Of several, the surest one.

    Args:
        table: the impressions.
        level: the probability of a false alarm in a sound log.
    """
    if not len(table.rows.document):
        return None
    found = _holm(tuple(context_tests(table, Gates().drift)), level)
    alarms = [test for test in found if test.state == "found"]
    return min(alarms, key=lambda test: test.p).name if alarms else None


def drifts_within(table: ImpressionTable, period: Int64, *, level: float = LEVEL) -> bool:
    """Whether clicks change by policy even among policies that served in the same period.

    Args:
        table: the impressions.
        period: int64, impressions; the number of the period.
        level: the probability of a false alarm.
    """
    gates = Gates()
    (found,) = _holm([drift_within(table, period, gates.drift)], level)
    return found.state == "found"


def _holm(tests: Sequence[AssumptionTest], level: float) -> tuple[AssumptionTest, ...]:
    """Adjust the p of all tests that were done, and say which found something."""
    done = sorted((test.p, place) for place, test in enumerate(tests) if test.state != "not tested")
    result, adjusted = list(tests), 0.0
    for rank, (p, place) in enumerate(done):
        adjusted = min(1.0, max(adjusted, p * (len(done) - rank)))
        test = tests[place]
        large = test.size >= test.gate
        state: State = "found" if adjusted <= level and large else "nothing found"
        negligible = adjusted <= level and not large
        result[place] = replace(test, adjusted=adjusted, state=state, negligible=negligible)
    return tuple(result)
