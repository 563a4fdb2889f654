"""What a grade is worth, by clicks: exact where clicks are as expected, covered where they are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from rankloop.relevance.judge import JudgeAgreement, judge_agreement
from rankloop.statistics import CellTable
from rankloop.types import Bias, Float64

BIAS = Bias(alpha=[0.7, 0.4], beta=[0.2, 0.1], examination=[1.0, 0.7])
QUERIES, DOCS = 200, 4


def world(seed: int, worth: float, *, drawn: bool, shown: int = 5) -> tuple[Float64, CellTable]:
    """Relevance is a level of the query plus `worth` per grade; documents of high grades stand high."""
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 4, QUERIES * DOCS).astype(np.float64)
    queries = np.repeat(np.arange(QUERIES), DOCS)
    relevance = 0.4 + 0.2 * rng.uniform(-1.0, 1.0, QUERIES)[queries] + worth * (grades - 1.5)
    position = (grades + rng.normal(size=len(grades)) < 1.5).astype(np.int64)
    chances = BIAS.alpha[position] * relevance + BIAS.beta[position]
    clicks = rng.binomial(shown, chances) if drawn else shown * chances
    cells = CellTable.of_cells(
        np.arange(len(grades) + 1),
        position,
        np.full(len(grades), float(shown)),
        np.asarray(clicks, np.float64),
        queries,
    )
    return grades, cells


@pytest.mark.parametrize("worth", [0.1, 0.0, -0.05])
def test_the_worth_of_a_grade_is_exact_if_clicks_are_as_expected(worth: float) -> None:
    grades, cells = world(0, worth, drawn=False)
    found = judge_agreement(grades, cells, BIAS)
    assert found.slope == pytest.approx(worth, abs=1e-12)
    assert (found.judged, found.documents) == (len(grades), len(grades))
    assert [row.grade for row in found.rows] == [0.0, 1.0, 2.0, 3.0]
    assert sum(row.documents for row in found.rows) == len(grades)


def test_intervals_cover_the_worth() -> None:
    """300 worlds: at 90 %, 84 % is 3.5 standard deviations off."""
    found = [judge_agreement(*world(seed, 0.05, drawn=True), BIAS) for seed in range(300)]
    covered = [one.low is not None and one.high is not None and one.low <= 0.05 <= one.high for one in found]
    assert 0.84 < np.mean(covered) < 0.96


@pytest.mark.parametrize(("worth", "state"), [(0.1, "agrees"), (-0.1, "contradicts")])
def test_a_judge_agrees_or_contradicts(worth: float, state: str) -> None:
    found = judge_agreement(*world(1, worth, drawn=True, shown=50), BIAS)
    assert found.state == state
    assert found.sentence.startswith("The judge " + state)


def test_few_queries_and_missing_grades() -> None:
    grades, cells = world(2, 0.1, drawn=True)
    grades[8 * DOCS :] = np.nan
    few = judge_agreement(grades, cells, BIAS)
    assert (few.judged, few.state) == (8 * DOCS, "unknown")
    assert "Only" in few.sentence
    nothing = judge_agreement(np.full(len(grades), np.nan), cells, BIAS)
    assert nothing == JudgeAgreement(0.0, None, None, 0, 0, 0, ())


def test_many_grades_are_grouped() -> None:
    grades, cells = world(3, 0.1, drawn=True)
    smooth = grades + np.random.default_rng(0).uniform(0.0, 0.5, len(grades))
    rows = judge_agreement(smooth, cells, BIAS).rows
    assert len(rows) == 10
    assert sum(row.documents for row in rows) == len(grades)
    assert [row.grade for row in rows] == sorted(row.grade for row in rows)
