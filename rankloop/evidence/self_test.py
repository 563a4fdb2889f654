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
from math import isnan
from typing import NamedTuple

from rankloop.errors import DataError
from rankloop.evidence.assumption_tests import (
    COLUMN,
    EIGHTH,
    HALVES,
    HIDDEN,
    LENGTH,
    ORDER,
    POLICY,
    SET,
    WEEKDAY,
    AssumptionTest,
    State,
    all_tests,
    context_tests,
    drift_within,
)
from rankloop.evidence.decision import Assumption
from rankloop.statistics.counts import ImpressionTable
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


DRIFTS = (POLICY, HALVES, EIGHTH, WEEKDAY)
UNTESTED_DRIFT = Assumption(
    "drift",
    "untested",
    "rankings changed over time, and no document was shown at the same position before and after, so that a "
    "change of users or demand cannot be told from relevance",
    "Let both policies serve at the same time, or vary their rankings, and evaluate on that log.",
)


class Sentences(NamedTuple):
    """What a test found, and what to do about it.

    Attributes:
        text: what was found.
        remedy: what to do.
    """

    text: str
    remedy: str


def finding_of(test: AssumptionTest) -> Sentences:
    r"""What a test found, in plain sentences.

    Example:
        >>> from rankloop.evidence.assumption_tests import POLICY, AssumptionTest
        >>> found = AssumptionTest(POLICY, "found", effect=0.13, interval=(0.11, 0.15), of="variant")
        >>> print(*finding_of(found), sep="\n")
        The same document at the same position was clicked 13 % (11 to 15) more under `variant`.
        Users or demand changed: compare policies within each period only.
    """
    name = test.name.removeprefix(COLUMN) if test.name.startswith(COLUMN) else test.name
    at = f"at position {test.position}" if test.position else "at the same position"
    change = _change(test)
    if test.name == POLICY:
        return Sentences(
            f"The same document {at} was clicked {change} under `{test.of}`.",
            "Users or demand changed: compare policies within each period only.",
        )
    if test.name == HALVES:
        return Sentences(
            f"The same document {at} was clicked {change} in the second half of the log.",
            "Users or demand changed: compare policies within each period only.",
        )
    if test.name in (EIGHTH, WEEKDAY):
        return Sentences(
            f"Clicks vary {'by weekday' if test.name == WEEKDAY else 'over time'}: the same document at the "
            f"same position was clicked {change} {_when(test)}.",
            "This does not favour a policy that served all the time; compare others within each period only.",
        )
    if test.name == LENGTH:
        less = "less" if test.effect < 0.0 else "more"
        return Sentences(
            f"In longer lists the same document {at} is clicked {less} ({_percent(test)}).",
            "List length must be accounted for.",
        )
    if test.name == ORDER:
        return Sentences(
            f"Clicks depend on what stands above ({_percent(test)}).", "Predicted clicks are not reliable."
        )
    if test.name == SET:
        return Sentences(
            f"Documents compete for the click: beside more attractive ones, a document is clicked "
            f"{'less' if test.effect < 0.0 else 'more'} ({_percent(test)}).",
            "Only orders of the same documents can be judged firmly.",
        )
    if test.name == HIDDEN:
        return Sentences(
            f"Queries have different position curves: clicks at one position differ by {test.effect:.0%} "
            f"({_ends(test)}) between queries.".replace("%", " %"),
            "Give a column that explains it, such as the device or the kind of query.",
        )
    return Sentences(
        f"Users of different {name} have different position curves: with `{test.of}`, clicks {at} differ by "
        f"{_percent(test)} from what this column changes at all positions.",
        f"One bias for all is wrong: account for {name}.",
    )


def summary_of(found: SelfTest) -> str:
    """The result of the self-test in one sentence."""
    if not found.tested:
        return "Self-test: nothing could be tested; the log has too few clicks, or documents never move."
    if found.found:
        names = ", ".join(test.name for test in found.found)
        return f"Self-test: an assumption does not hold ({names})."
    seen = found.smallest_drift_seen
    if isnan(seen):
        return "Self-test: nothing found; changes over time or by policy could not be tested."
    return (
        f"Self-test: nothing found; a change of click rates above {seen:.0%} would have been seen.".replace(
            "%", " %"
        )
    )


@dataclass(frozen=True)
class Setting:
    """How a decision uses the clicks of its log, as far as its assumptions depend on that.

    Attributes:
        predicts_clicks: whether clicks themselves are predicted, rather than a metric of relevance.
        other_documents: whether the policies show other documents than each other.
        rankings_changed: whether rankings changed over time, by another policy or within one.
        periods: within how many periods of time policies are compared; 1 if clicks are pooled.
        drifts_within: whether clicks change by policy within these periods, too.
        accounted: names of tests whose effects the bias accounts for, such as ``length``.
    """

    predicts_clicks: bool = False
    other_documents: bool = False
    rankings_changed: bool = True
    periods: int = 1
    drifts_within: bool = False
    accounted: frozenset[str] = frozenset()


class Meaning(NamedTuple):
    """What the self-test means for a decision.

    Attributes:
        assumptions: those that were tested, and whether they hold.
        notes: sentences on findings that do not make the decision less firm.
    """

    assumptions: tuple[Assumption, ...]
    notes: tuple[str, ...]


def meaning_for(found: SelfTest, setting: Setting) -> Meaning:
    """What the self-test of a log means for a decision by this log.

    Example:
        >>> tests = (AssumptionTest(ORDER, "found", effect=-0.12), AssumptionTest(SET, "nothing found"))
        >>> found = SelfTest(tests, impressions=1_000)
        >>> [(one.name, one.state) for one in meaning_for(found, Setting()).assumptions]
        [('order', 'held'), ('set', 'held')]
        >>> [(one.name, one.state) for one in meaning_for(found, Setting(predicts_clicks=True)).assumptions]
        [('order', 'broken'), ('set', 'held')]
    """
    alarms, assumptions, notes = found.found, [], []
    if _leaves_drift_open(found, setting):
        assumptions.append(UNTESTED_DRIFT)
    by_order = any(test.name == ORDER for test in alarms)
    for name, tests in _grouped(found).items():
        if any(one.name == name for one in assumptions):
            continue
        broken = [test for test in tests if test in alarms]
        if not broken:
            assumptions.append(Assumption(name, "held", ""))
            continue
        # A drift by policy says most, and is the first of its group.
        test = broken[0]
        finding = finding_of(test)
        remedy, matters = _consequence(test, setting, by_order=by_order)
        if matters:
            assumptions.append(Assumption(name, "broken", _as_clause(finding.text), remedy))
        else:
            assumptions.append(Assumption(name, "held", _as_clause(finding.text)))
            notes.append(f"{finding.text.rstrip('.')}{remedy}")
    return Meaning(tuple(assumptions), tuple(notes))


def _leaves_drift_open(found: SelfTest, setting: Setting) -> bool:
    """Whether a change of users could favour a policy, and the log cannot tell whether there was one."""
    if setting.periods > 1 or not setting.rankings_changed:
        return False
    drifts = [test for test in found.tests if test.name in (POLICY, HALVES)]
    return bool(drifts) and all(test.state == "not tested" for test in drifts)


def _grouped(found: SelfTest) -> dict[str, list[AssumptionTest]]:
    """The tests that were done, by the assumption that they are about."""
    groups: dict[str, list[AssumptionTest]] = {}
    for test in found.tested:
        name = "drift" if test.name in DRIFTS else "contexts" if test.name == HIDDEN else test.name
        groups.setdefault("column" if name.startswith(COLUMN) else name, []).append(test)
    return groups


def _consequence(test: AssumptionTest, setting: Setting, *, by_order: bool) -> tuple[str, bool]:
    """What to do about a finding, and whether a decision depends on it; if not, how its sentence ends."""
    if test.name in setting.accounted:
        subject = "list length" if test.name == LENGTH else test.name.removeprefix(COLUMN)
        return f"; {subject} is accounted for.", False
    if test.name in DRIFTS:
        if setting.drifts_within:
            return "So they were within a period: are users assigned to policies at random?", True
        if setting.periods > 1 and test.uneven <= LEVEL:
            return "Users look at positions otherwise since then: evaluate on the log of one period.", True
        if setting.periods > 1:
            return ". Users or demand changed; policies are compared within each period only.", False
        if test.name != POLICY and not setting.rankings_changed:
            return "; this does not favour a policy.", False
        return (
            "Let both policies serve at the same time, or vary their rankings, and evaluate on that log.",
            True,
        )
    if test.name == ORDER:
        if setting.predicts_clicks:
            return "Predicted clicks are not reliable: use a metric of relevance such as dcg.", True
        return "; metrics of relevance such as this one do not predict clicks.", False
    if test.name == SET:
        if setting.other_documents and not by_order:
            return "Only orders of the same documents can be judged firmly: run an A/B test.", True
        return "; orders of the same documents can still be judged.", False
    return finding_of(test).remedy, True


def _as_clause(sentence: str) -> str:
    """A sentence as part of another one."""
    text = sentence.rstrip(".")
    return text[:1].lower() + text[1:]


def _change(test: AssumptionTest) -> str:
    return f"{abs(test.effect):.0%} ({_ends(test)}) {'less' if test.effect < 0.0 else 'more'}".replace(
        "%", " %"
    )


def _ends(test: AssumptionTest) -> str:
    if test.interval is None:
        return "–"
    low, high = test.interval if test.effect >= 0.0 else (-test.interval[1], -test.interval[0])
    return f"{100.0 * low:.0f} to {100.0 * high:.0f}"


def _percent(test: AssumptionTest) -> str:
    return f"{test.effect:+.0%}".replace("%", " %").replace("-", "−")


def _when(test: AssumptionTest) -> str:
    base = test.parts[0].of if test.parts else ""
    if test.name == WEEKDAY:
        return f"on {test.of} than on {base}"
    return f"in eighth {test.of} of the log than in eighth {base}"
