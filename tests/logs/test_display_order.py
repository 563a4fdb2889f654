"""Whether a policy looks randomised, and what `check` says about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankloop import open_log
from rankloop.bias import named_bias
from rankloop.logs.display_order import measure_order
from rankloop.offline.log_check import CURVE
from tests.logs.logs_of import Row, write_rows


def write(folder: Path, noise: float, queries: int, seed: int = 0) -> Path:
    """Lists of eight of twelve documents; noise of 0 sorts them, a large one shuffles them."""
    rng, rows = np.random.default_rng(seed), []
    for number in range(600):
        order = np.argsort(np.arange(12) + noise * rng.gumbel(size=12))[:8]
        query = f"q{number % queries}"
        rows += [
            Row(number, query, "live", position, f"d{document}", bool(rng.random() < 0.3), number)
            for position, document in enumerate(order, 1)
        ]
    return write_rows(folder / "log", rows)


@pytest.mark.parametrize("queries", [5, 600])
def test_random_orders_are_noticed_and_rankers_are_not(tmp_path: Path, queries: int) -> None:
    """The threshold is ten standard errors away from 0 in both cases."""
    shuffled = open_log(write(tmp_path, 1e6, queries)).check()
    order = shuffled.policies[0].order
    assert order is not None
    assert order.looks_randomised
    assert order.across_queries == (queries == 600)
    codes = [warning.code for warning in shuffled.warnings]
    assert "looks_randomised" in codes
    assert any("--randomised live" in warning for warning in shuffled.warnings)


@pytest.mark.parametrize("queries", [5, 600])
@pytest.mark.parametrize("noise", [0.0, 3.0, 10.0])
def test_rankers_that_explore_are_not_taken_for_random(tmp_path: Path, queries: int, noise: float) -> None:
    found = open_log(write(tmp_path, noise, queries)).check()
    assert "looks_randomised" not in [warning.code for warning in found.warnings]


def test_a_short_log_is_not_judged(tmp_path: Path) -> None:
    rows = [Row(n, "q", "live", 1, f"d{n % 2}", False, n) for n in range(100)]
    assert measure_order(open_log(write_rows(tmp_path / "log", rows)).count(), 0) is None


def test_the_curve_that_check_suggests_can_be_read() -> None:
    """Before: check printed `--bias 'position(power=1)@10'`, which no command accepts."""
    assert named_bias(CURVE).positions == 10


def test_what_a_recommendation_log_can_teach(tmp_path: Path) -> None:
    """Before: "No repeated query ever had another ranking", of a log in which no query came twice."""
    found = open_log(write(tmp_path, 3.0, 600)).check()
    assert "fewer than" not in found.answer("evaluate").text
    assert "the log never explores" not in found.answer("evaluate").text
