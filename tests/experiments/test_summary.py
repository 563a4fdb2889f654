"""Runs of one configuration, taken together."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from rankloop.experiments.results import RunResult, read_result
from rankloop.experiments.spec import RunSpec
from rankloop.experiments.summary import Mean, group_runs, summarise
from tests.experiments import runs

# Student's t for a 90 % interval, from the tables.
T_1, T_2 = 6.314, 2.920


def made(tmp_path: Path, name: str, shift: float = 0.0, rows: int = 3, **spec: object) -> RunResult:
    shifted = [
        runs.row(row.impressions, row.learned + shift, row.logging, estimate=None if i == 0 else 1.0 + shift)
        for i, row in enumerate(runs.ROWS[:rows])
    ]
    chosen = RunSpec(**{"learning": "doubly-robust", "horizon": 10_000, "interventions": 2, **spec})  # type: ignore[arg-type]
    about = runs.facts(start=runs.START + 2 * shift)
    return read_result(runs.written(tmp_path / name, chosen, rows=tuple(shifted), about=about))


def test_means_and_their_intervals() -> None:
    one, two, three = Mean.of([0.5]), Mean.of([0.4, 0.6]), Mean.of([1.0, 2.0, 3.0])
    assert one == Mean(0.5, 0.0)
    assert two.value == pytest.approx(0.5)
    assert two.half_width == pytest.approx(T_1 * math.sqrt(0.02) / math.sqrt(2), rel=1e-3)
    assert three.half_width == pytest.approx(T_2 * 1.0 / math.sqrt(3), rel=1e-3)


def test_runs_are_grouped_by_everything_but_their_seed(tmp_path: Path) -> None:
    several = [
        made(tmp_path, "c", seed=2),
        made(tmp_path, "b", estimator="naive"),
        made(tmp_path, "a", seed=1),
    ]
    aware, naive = group_runs(several)
    assert [run.name for run in aware.runs] == ["a", "c"]
    assert (aware.name, naive.name) == ("2 seeds", "b")
    assert (aware.label, naive.label) == (
        "doubly robust intervention-aware, 2 interventions",
        "naive, 2 interventions",
    )


def test_labels_tell_what_differs_and_nothing_else(tmp_path: Path) -> None:
    several = [
        made(tmp_path, "a", temperature=2.0, interventions=1),
        made(tmp_path, "b", interventions=(10, 20)),
        made(tmp_path, "c", production_queries=7, interventions=0, evaluations=3),
    ]
    learner = "doubly robust intervention-aware"
    assert [group.label for group in group_runs(several)] == [
        f"{learner}, 1 intervention, production queries default, temperature 2.0",
        f"{learner}, interventions at 10,20, production queries default, temperature 1.0",
        f"{learner}, 0 interventions, production queries 7, temperature 1.0",
    ]


def test_curves_are_means_over_runs(tmp_path: Path) -> None:
    (group,) = group_runs([made(tmp_path, str(seed), shift=0.1 * seed, seed=seed) for seed in range(3)])
    curve = group.curve(lambda row: row.learned)
    assert curve.times.tolist() == [100, 1000, 10_000]
    np.testing.assert_allclose(curve.values, [0.6, 0.725, 0.9125])
    np.testing.assert_allclose(curve.half_widths, T_2 * 0.1 / math.sqrt(3), rtol=1e-3)
    # What a run does not know is not known of the mean.
    assert np.isnan(group.curve(lambda row: row.estimate).values).tolist() == [True, False, False]


def test_means_end_where_an_interrupted_run_ends(tmp_path: Path) -> None:
    (group,) = group_runs([made(tmp_path, "whole", seed=0), made(tmp_path, "cut", rows=2, seed=1)])
    assert not group.finished
    assert group.times.tolist() == [100, 1000]
    assert summarise(group).impressions == 1000
    assert summarise(group).learned.value == 0.625


def test_the_final_line(tmp_path: Path) -> None:
    shifts = (0.0, 0.1, 0.2)
    (group,) = group_runs([made(tmp_path, str(n), shift=shift, seed=n) for n, shift in enumerate(shifts)])
    line = summarise(group)
    assert group.finished
    assert (line.impressions, line.interventions) == (10_000, 2)
    assert line.learned.value == pytest.approx(0.8125 + 0.1)
    assert line.start.value == pytest.approx(0.5 + 0.2)
    # Run by run: learned − start is 0.3125 − shift, whose spread is that of the shifts.
    assert line.gain.value == pytest.approx(0.3125 - 0.1)
    assert line.gain.half_width == pytest.approx(T_2 * 0.1 / math.sqrt(3), rel=1e-3)
    assert line.logging == Mean.of([0.6875] * 3)
    assert line.oracle == Mean.of([runs.ORACLE] * 3)
    as_dict = line.to_dict()
    assert (as_dict["run"], as_dict["seeds"]) == ("3 seeds", [0, 1, 2])
    assert as_dict["gain"] == {"value": line.gain.value, "half_width": line.gain.half_width}


def test_an_oracle_that_one_run_does_not_know_is_not_averaged(tmp_path: Path) -> None:
    known = made(tmp_path, "a", seed=0)
    spec = known.spec.model_copy(update={"seed": 1})
    unknown = read_result(runs.written(tmp_path / "b", spec, about=runs.facts(oracle=None)))
    (group,) = group_runs([known, unknown])
    assert summarise(group).oracle is None
