"""Demand that rises when the policy changes does not favour the later policy, to the last digit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from rankloop.bias.context_effects import period_levels
from rankloop.offline import Log, log_sums, open_log
from rankloop.statistics import Counts
from rankloop.types import Bias
from tests.logs.logs_of import Row, write_rows

BIAS = Bias([0.6, 0.3], [0.2, 0.05], [1.0, 0.4])
# Both documents are equally relevant, so that both policies are worth the same.
RELEVANCE = 0.5
TIMES, LEVELS = 400, {"production": 0.8, "variant": 1.2}
# How often each list comes, of 400 times.
LISTS = {"production": {"ab": 300, "ba": 100}, "variant": {"ab": 100, "ba": 300}}


def rows() -> Iterator[Row]:
    """One policy after the other; clicks are as frequent as they are likely."""
    for start, (policy, lists) in enumerate(LISTS.items()):
        for query in "pqrs":
            second = start * TIMES
            for documents, times in lists.items():
                for turn in range(times):
                    for position, document in enumerate(documents):
                        chance = LEVELS[policy] * (BIAS.alpha[position] * RELEVANCE + BIAS.beta[position])
                        yield Row(
                            f"{policy}{query}{documents}{turn}", query, policy, position + 1, document,
                            turn < round(times * chance), second * 1_000_000,
                        )  # fmt: skip
                    second += 1


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return open_log(write_rows(tmp_path_factory.mktemp("levels") / "log", rows()))


@pytest.mark.parametrize("metric", ["dcg", "clicks"])
def test_policies_that_are_equally_good_differ_by_nothing(log: Log, metric: str) -> None:
    found = log.evaluate("variant", "production", bias=BIAS, metric=metric)
    assert found.periods == 2
    assert found.difference.estimate.value == pytest.approx(0.0, abs=1e-9)
    if metric == "clicks":
        # Of the mean demand.
        expected = (BIAS.alpha * RELEVANCE + BIAS.beta).sum()
        assert found.new.estimate.value == pytest.approx(expected, abs=1e-9)


def test_without_levels_clicks_by_trust_would_favour_the_later_policy(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first rank gains in clicks that have nothing to do with relevance looks like relevance."""
    monkeypatch.setattr(log_sums, "period_levels", lambda periods: np.ones(len(periods)))
    found = log.evaluate("variant", "production", bias=BIAS)
    assert found.difference.estimate.value > 0.001


def test_periods_that_cannot_be_compared_have_no_level() -> None:
    def counts(document: int, clicks: int) -> Counts:
        shown, clicked = np.zeros((2, 2, 1), np.int64)
        shown[document], clicked[document] = 1_000, clicks
        return Counts.of_arrays(np.array([0, 2]), {"a": (np.array([1_000]), shown, clicked)})

    np.testing.assert_array_equal(period_levels([counts(0, 200), counts(1, 600)]), [1.0, 1.0])
    np.testing.assert_allclose(
        period_levels([counts(0, 200), counts(0, 600), counts(1, 300)]), [0.5, 1.5, 1.0]
    )
