"""The conditional score test, against loops and identities."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest

from rankloop.evidence.score_test import CellGroups, ScoreSums, combine, sum_scores
from rankloop.types import Float64, Int64


def problem(rng: np.random.Generator, rows: int = 400) -> tuple[Int64, Float64, list[Float64], Int64, Int64]:
    cell = rng.integers(0, 40, rows)
    block = cell % 3
    columns = [rng.normal(size=rows), rng.integers(0, 2, rows).astype(np.float64)]
    return cell, (rng.random(rows) < 0.3).astype(np.float64), columns, rng.integers(0, 90, rows), block


def by_loops(
    cell: Int64, clicked: Float64, columns: list[Float64], unit: Int64, block: Int64, blocks: int
) -> tuple[Float64, Float64, Float64]:
    """T, V and M by loops over rows."""
    members = defaultdict(list)
    for row, name in enumerate(cell):
        members[name].append(row)
    size = len(columns) * blocks
    total, information = np.zeros(size), np.zeros((size, size))
    by_unit: dict[int, Float64] = defaultdict(lambda: np.zeros(size))
    for rows in members.values():
        n = len(rows)
        mean = sum(clicked[row] for row in rows) / n
        means = [sum(column[row] for row in rows) / n for column in columns]
        for row in rows:
            x = np.zeros(size)
            for number, column in enumerate(columns):
                x[number * blocks + block[row]] = column[row] - means[number]
            total += (clicked[row] - mean) * x
            information += np.outer(x, x) * mean
            if n > 1:
                by_unit[unit[row]] += math.sqrt(n / (n - 1)) * (clicked[row] - mean) * x
    return total, sum(np.outer(score, score) for score in by_unit.values()), information


@pytest.mark.parametrize("blocks", [1, 3])
def test_the_sums_are_those_of_loops(rng: np.random.Generator, blocks: int) -> None:
    cell, clicked, columns, unit, block = problem(rng)
    block = block if blocks > 1 else np.zeros_like(block)
    total, variance, information = by_loops(cell, clicked, columns, unit, block, blocks)
    found = sum_scores(CellGroups(cell), clicked, columns, unit, block=block, blocks=blocks)
    assert found.total == pytest.approx(total)
    assert found.variance == pytest.approx(variance)
    assert found.information == pytest.approx(information)
    # One effect in all blocks: the sums without blocks.
    plain, pooled = sum_scores(CellGroups(cell), clicked, columns, unit), found.over_blocks()
    for name in ("total", "variance", "information", "clicks"):
        assert getattr(pooled, name) == pytest.approx(getattr(plain, name)), name


def test_residuals_sum_to_zero_in_each_cell(rng: np.random.Generator) -> None:
    cell, clicked, _, _, _ = problem(rng)
    groups = CellGroups(cell)
    assert np.bincount(groups.index, groups.residual(clicked)) == pytest.approx(np.zeros(len(groups.size)))


def test_what_documents_and_positions_are_like_cancels_out(rng: np.random.Generator) -> None:
    cell, clicked, columns, unit, _ = problem(rng)
    moved = [columns[0] + rng.normal(size=40)[cell], columns[1]]
    before, after = (sum_scores(CellGroups(cell), clicked, x, unit) for x in (columns, moved))
    assert after.total == pytest.approx(before.total)
    assert after.variance == pytest.approx(before.variance)


def test_a_constant_factor_on_clicks_leaves_effects_and_statistics(rng: np.random.Generator) -> None:
    cell, clicked, columns, unit, block = problem(rng)
    one, three = (
        sum_scores(CellGroups(cell), factor * clicked, columns, unit, block=block, blocks=3).effects()
        for factor in (1.0, 3.0)
    )
    assert three.values == pytest.approx(one.values)
    assert three.errors() == pytest.approx(one.errors())
    assert three.test() == pytest.approx(one.test())


def test_the_order_of_the_rows_does_not_matter(rng: np.random.Generator) -> None:
    cell, clicked, columns, unit, _ = problem(rng)
    turned = rng.permutation(len(cell))
    one = sum_scores(CellGroups(cell), clicked, columns, unit)
    other = sum_scores(CellGroups(cell[turned]), clicked[turned], [x[turned] for x in columns], unit[turned])
    assert other.total == pytest.approx(one.total)
    assert other.variance == pytest.approx(one.variance)


def test_the_effect_is_the_relative_change_of_clicks() -> None:
    # One document, 1,000 rows each: 20 % and 30 % are clicked. Around the mean of 25 %, that is 40 % of it.
    clicked = np.concatenate([np.arange(1_000) < 200, np.arange(1_000) < 300]).astype(np.float64)
    late = np.repeat([0.0, 1.0], 1_000)
    sums = sum_scores(CellGroups(np.zeros(2_000, np.int64)), clicked, [late], np.arange(2_000))
    effects = sums.effects()
    assert effects.values == pytest.approx([0.1 / 0.25])
    # The standard error of a difference of shares, if both were the mean one.
    error = math.sqrt(2 * 0.25 * 0.75 / 1_000) / 0.25
    assert effects.errors() == pytest.approx([error], rel=0.02)
    assert effects.test().statistic == pytest.approx((0.4 / effects.errors()[0]) ** 2)
    # About 4 standard errors.
    assert effects.smallest_seen(1) == pytest.approx(4.0 * error, rel=0.03)
    assert effects.size() == pytest.approx(math.sqrt(0.4**2 - effects.errors()[0] ** 2))


def test_effects_that_are_equal_do_not_deviate() -> None:
    # Two positions, with shares of 10 % and 40 %; from the middle on, half as many more at both.
    position, late = np.repeat([0, 0, 1, 1], 1_000), np.repeat([0.0, 1.0, 0.0, 1.0], 1_000)
    clicked = (np.arange(4_000) % 1_000 < np.repeat([100, 150, 400, 600], 1_000)).astype(np.float64)
    sums = sum_scores(CellGroups(position), clicked, [late], np.arange(4_000), block=position, blocks=2)
    effects = sums.effects()
    assert effects.values == pytest.approx([0.4, 0.4])
    assert effects.deviations().values == pytest.approx([0.0, 0.0])
    assert effects.deviations().test().freedom == 1
    assert effects.test().p < 1e-6 < 0.99 < effects.deviations().test().p


def test_cells_that_do_not_vary_add_nothing(rng: np.random.Generator) -> None:
    cell, clicked, _, unit, _ = problem(rng)
    sums: ScoreSums = sum_scores(CellGroups(cell), clicked, [cell.astype(np.float64)], unit)
    assert sums.all_clicks == 0.0
    assert sums.total == pytest.approx([0.0])
    assert sums.effects().test().freedom == 0


def test_p_is_uniform_without_an_effect() -> None:
    """400 tests; P(a share outside the limits) is below 1e-4 for a binomial share of 10 %."""
    rng = np.random.default_rng(1)
    small = 0
    for _ in range(400):
        cell = rng.integers(0, 60, 1_500)
        user = rng.integers(0, 300, 1_500)
        # Users differ, so that rows of one user depend on each other.
        chance = 0.3 * rng.random(60)[cell] * rng.gamma(4.0, 0.25, 300)[user]
        clicked = (rng.random(1_500) < chance).astype(np.float64)
        columns = [(user % 2).astype(np.float64), rng.random(1_500)]
        small += sum_scores(CellGroups(cell), clicked, columns, user).effects().test().p < 0.1
    assert 0.045 <= small / 400 <= 0.165


def test_keys_are_combined_without_collisions(rng: np.random.Generator) -> None:
    keys = [rng.integers(0, 2**40, 500) * 3, rng.integers(-5, 5, 500), rng.integers(0, 2**30, 500) % 4]
    code = combine(*keys)
    rows = np.stack(keys, axis=1)
    assert len(np.unique(rows, axis=0)) == len(np.unique(code)) == code.max() + 1
    for number in np.unique(code)[:20]:
        assert len(np.unique(rows[code == number], axis=0)) == 1
