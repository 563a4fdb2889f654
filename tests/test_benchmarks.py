"""The baselines and reference values are correct; nothing here asserts a time."""

from __future__ import annotations

import io
import json
import os
from itertools import permutations

import numpy as np
import pytest
from rich.console import Console

from benchmarks import memory, reference, report, simulation
from benchmarks.measure import Effort, Result, Target, best_times
from benchmarks.mlp import BareProducts
from benchmarks.queries import RandomQueries
from benchmarks.registry import BENCHMARKS, TARGETS
from benchmarks.sampling import clock_rankings, gumbel_rankings, pl_rank_3, sampled_rank_weights
from rankloop import rank_weights
from rankloop.clicks import gather, users
from rankloop.objectives import expected_metric, pl_rank_gradient
from rankloop.policies import expected_rank_weights

TINY = Effort(
    queries=10,
    judged=2,
    rounds=1,
    steps=3,
    held=20,
    loop_queries=30,
    loop_impressions=2_000,
    log_rows=600,
    requests=10,
)
NAMES = [
    "exposure_speedup",
    "exposure_error_ratio",
    "gradient_speedup",
    "gradient_error_ratio",
    "gradient_growth",
    "mlp_us_per_query",
    "mlp_vs_matmul",
    "simulation_speedup",
    "simulation_per_second",
    "loop_seconds",
    "loop_growth",
    "clicks_ratio",
    "shown_gain",
    "pdgd_per_second",
    "coltr_per_second",
    "pdgd_vs_matmul",
    "memory_vs_matrix",
    "log_rows_per_second",
    "log_peak_gb",
    "fit_ratio",
    "live_p50_vs_echo",
    "live_p99_vs_echo",
    "live_throughput_vs_echo",
]


def listed(scores, theta):
    """``E[θ_rank(d)]`` as a sum over all rankings of a few documents."""
    weights, gained = np.exp(scores), np.zeros(len(scores))
    for ranking in permutations(range(len(scores))):
        chance, left = 1.0, weights.sum()
        for d in ranking:
            chance *= weights[d] / left
            left -= weights[d]
        for d, value in zip(ranking, theta, strict=False):
            gained[d] += chance * value
    return gained


def test_numpys_users_are_ours(rng):
    scores, offsets = rng.normal(size=9), np.array([0, 3, 9])
    relevance, impressions = rng.random(9), 200_000
    theirs = simulation.in_numpy(scores, offsets, relevance, impressions, rng)
    ours = gather(scores, offsets, relevance, users("paper@5"), impressions, rng)
    for a, b in (
        (theirs.displays_by_position, ours.displays_by_position),
        (theirs.clicks_by_position, ours.clicks_by_position),
    ):
        # Two counts with the same expectation m differ by more than six times √(2m) in 1 of 10⁹ cases.
        assert (abs(a - b) <= 6 * np.sqrt(np.maximum(a + b, 1))).all()
    assert theirs.impressions == ours.impressions


# 4 documents are sorted whole, 100 are parted first; cut-offs below and at the number of documents.
@pytest.mark.parametrize(("n", "ranks"), [(4, 2), (4, 4), (100, 5)])
def test_pl_rank_3_equals_the_kernel_on_the_same_rankings(n, ranks, rng):
    scores, grades = rng.normal(size=n), rng.integers(5, size=n) / 4
    theta = rank_weights.dcg(ranks)
    rankings = gumbel_rankings(scores, ranks, 50, rng)
    value, gradient = pl_rank_3(scores, grades, theta, rankings)
    kernel = pl_rank_gradient(scores, np.array([0, n]), grades, theta, rankings[:, None, :])
    np.testing.assert_allclose(gradient, kernel, rtol=1e-10, atol=1e-13)
    assert value == pytest.approx(np.mean([theta @ grades[ranking] for ranking in rankings]), rel=1e-12)


@pytest.mark.parametrize("draw", [gumbel_rankings, clock_rankings])
@pytest.mark.parametrize("n", [4, 100])
def test_sampled_rankings_follow_the_policy(draw, n, rng):
    """Every mean lies within 5 standard errors: with another seed, a false alarm in 1 of 10,000 runs."""
    scores, theta, samples = rng.normal(size=n), rank_weights.dcg(3), 20_000
    rankings = draw(scores, 3, samples, rng)
    assert (np.sort(rankings, axis=1)[:, 1:] != np.sort(rankings, axis=1)[:, :-1]).all()
    truth = reference.expected_rank_weights(scores, theta)
    # θ ≤ 1, so the variance of θ_rank(d) is at most its mean.
    error = np.abs(sampled_rank_weights(n, theta, rankings) - truth)
    assert (error < 5 * np.sqrt(truth / samples)).all()


def test_sampled_rank_weights_by_hand():
    rankings = np.array([[0, 2], [2, 0], [2, 1], [2, 0]])
    expected = [(1 + 0.5 + 0.5) / 4, 0.5 / 4, (0.5 + 1 + 1 + 1) / 4, 0]
    np.testing.assert_allclose(sampled_rank_weights(4, np.array([1.0, 0.5]), rankings), expected)


@pytest.mark.parametrize("ranks", [1, 3, 5])
def test_reference_is_enumeration(ranks, rng):
    scores, grades, theta = 2 * rng.normal(size=5), rng.random(5), rank_weights.dcg(ranks)
    np.testing.assert_allclose(
        reference.expected_rank_weights(scores, theta), listed(scores, theta), rtol=1e-11
    )
    gradient = reference.metric_gradient(scores, grades, theta)
    step = 1e-5
    for d, shift in enumerate(step * np.eye(5)):
        rise = grades @ (listed(scores + shift, theta) - listed(scores - shift, theta))
        assert gradient[d] == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-10)


def test_library_agrees_with_the_reference_where_benchmarks_measure():
    problem, theta = RandomQueries.draw(3, 24, seed=0), rank_weights.dcg(5)
    exposures = expected_rank_weights(problem.scores, problem.offsets, theta)
    gradient = expected_metric(problem.scores, problem.offsets, problem.grades, theta).gradient
    for q, (scores, grades) in enumerate(problem.queries()):
        own = slice(24 * q, 24 * q + 24)
        np.testing.assert_allclose(exposures[own], reference.expected_rank_weights(scores, theta), rtol=1e-7)
        np.testing.assert_allclose(
            gradient[own], reference.metric_gradient(scores, grades, theta), rtol=1e-6, atol=1e-9
        )


def test_bare_products_are_those_of_backpropagation(rng):
    bare, features = BareProducts(6, rng), rng.random((6, 700), dtype=np.float32)
    w1, w2, w3 = bare.w1.copy(), bare.w2.copy(), bare.w3.copy()
    bare.step(features)
    np.testing.assert_allclose(bare.scores, features @ w1 @ w2 @ w3, rtol=1e-3, atol=1e-2)
    # Without activations the network is linear: ∂(δᵀ X W₁ W₂ W₃) on each layer.
    np.testing.assert_allclose(bare.g3, (features @ w1 @ w2).T @ bare.d3, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(bare.g2, (features @ w1).T @ bare.d3 @ w3.T, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(bare.g1, features.T @ bare.d3 @ w3.T @ w2.T, rtol=1e-3, atol=1e-2)


def test_products_of_an_impression_go_back_over_what_is_shown(rng):
    bare, features = BareProducts(6, rng, backward=5), rng.random((6, 700), dtype=np.float32)
    w1, w2, w3 = bare.w1.copy(), bare.w2.copy(), bare.w3.copy()
    bare.step(features)
    shown, delta = features[:5], bare.d3[:5]
    np.testing.assert_allclose(bare.scores, features @ w1 @ w2 @ w3, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(bare.g3, (shown @ w1 @ w2).T @ delta, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(bare.g2, (shown @ w1).T @ delta @ w3.T, rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(bare.g1, shown.T @ delta @ w3.T @ w2.T, rtol=1e-3, atol=1e-2)


def test_best_times_takes_turns():
    calls = []
    times = best_times(2, lambda: calls.append("a"), lambda: calls.append("b"))
    assert calls == ["a", "b"] * 3  # one turn to warm up, two rounds
    assert len(times) == 2


def test_targets_and_results_have_the_names_that_were_asked_for(monkeypatch):
    assert list(TARGETS) == NAMES
    # The memory of a fresh process is tested below; starting one costs seconds.
    answer = '{"matrix": 100, "growth": 130, "rows": 600, "seconds": 2.0, "cpu": 3.0, "peak": 5e8}'
    monkeypatch.setattr(memory.subprocess, "run", lambda *_, **__: _Answer(answer))
    results = {}
    for benchmark in BENCHMARKS:
        part = benchmark.run(TINY)
        assert list(part) == [target.name for target in benchmark.targets]
        results |= part
    assert results["memory_vs_matrix"].value == pytest.approx(1.3)
    assert results["log_rows_per_second"].value == pytest.approx(300)
    assert results["log_peak_gb"].value == pytest.approx(0.5)
    # With so few impressions nothing is learned, and the gains may have any sign, or not be reached.
    gains = {"clicks_ratio", "shown_gain"}
    values = {name: result.value for name, result in results.items() if name not in gains}
    assert all(np.isfinite(value) and value > 0 for value in values.values()), values
    # Far from any noise: 1,000 samples err by per cents, the quadrature by less than 1e-6.
    assert results["exposure_error_ratio"].value > 1_000
    assert results["gradient_error_ratio"].value > 1_000


class _Answer:
    def __init__(self, stdout):
        self.stdout = stdout


@pytest.mark.skipif(not memory.STATUS.exists(), reason="other systems report only the peak")
def test_resident_memory_sees_what_is_held_and_what_was():
    before, size = memory.resident("VmRSS"), 64 * 2**20
    held = np.ones(size, np.uint8)
    assert memory.resident("VmRSS") - before > 0.9 * size
    assert memory.resident("VmHWM") >= memory.resident("VmRSS") - 2**20
    del held


def test_a_missed_target_is_marked_and_the_file_has_its_schema(tmp_path):
    targets = {t.name: t for t in (Target("fast", "times", "≥", 5), Target("small", "GB", "≤", 2))}
    results = {"fast": Result(4.0, "slow today"), "small": Result(1.5, "fits")}
    lines = shown(report.table(results, targets))
    assert [line.split() for line in lines[2:]] == [
        ["name", "value", "unit", "target"],
        ["fast", "4", "✗", "times", "≥", "5"],
        ["slow", "today"],
        ["small", "1.5", "GB", "≤", "2"],
        ["fits"],
    ]
    path = tmp_path / "build" / "bench.json"
    report.write(results, targets, path)
    assert json.loads(path.read_text("utf-8")) == {
        "fast": {"value": 4.0, "unit": "times", "note": "slow today"},
        "small": {"value": 1.5, "unit": "GB", "note": "fits"},
    }


def shown(renderable, width=80):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(renderable)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_table_of_all_targets_fits_a_usual_terminal():
    note = "a note of a benchmark that says what was measured, and against what, on which machine, " * 2
    results = {name: Result(12_345_678.9, note) for name in TARGETS}
    lines = shown(report.table(results, TARGETS))
    values = [line for line in lines if not line.startswith(" ")]
    assert [line.split()[0] for line in values[-len(TARGETS) :]] == list(TARGETS)
    assert all(
        line.endswith(f"{t.bound:,g}")
        for line, t in zip(values[-len(TARGETS) :], TARGETS.values(), strict=True)
    )
    notes = [line.strip() for line in lines if line.startswith(" ")]
    assert " ".join(notes).count(note.strip()) == len(TARGETS)


def test_a_run_starts_again_on_one_thread_only_if_it_must(monkeypatch):
    from benchmarks import one_thread

    started = []
    monkeypatch.setattr(os, "execve", lambda *arguments: started.append(arguments))
    for variable in one_thread.VARIABLES:
        monkeypatch.setenv(variable, "1")
    one_thread.ensure_one_thread()
    assert started == []
    assert not set(one_thread.VARIABLES) & set(one_thread.any_threads())
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    one_thread.ensure_one_thread()
    (_, _, environment), *rest = started
    assert rest == []
    assert environment["OMP_NUM_THREADS"] == "1"
