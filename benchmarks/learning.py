"""How many clicks learning needs, and what users are shown meanwhile: the loop against PDGD.

Means over a few collections, because collections differ more than learners do. docs/results/loop.md has the
means over twenty.
"""

from __future__ import annotations

import numpy as np

from benchmarks.measure import Benchmark, Effort, Result, Target
from rankloop import SimulatedUsers, online, synthetic
from rankloop.experiments.baselines import production_ranker
from rankloop.loop import Evaluated, Loop, exponential_times
from rankloop.types import Float64

# How many times as many impressions PDGD needs to reach what the default has learned after few of them.
CLICKS = Target("clicks_ratio", "times", "≥", 10)
# How much better the rankings are that users are shown on average, in NDCG@5.
SHOWN = Target("shown_gain", "NDCG@5", "≥", 0.01)

FEATURES, INTERVENTIONS, FIRST = 100, 20, 100
# The collections; those of docs/results/loop.md have seeds from 0 to 19.
SEEDS = range(30, 34)
# The impressions of a run at most; what the default has learned is taken after a hundredth of them.
MOST, FEW = 10**6, 0.01


def reached(times: Float64, values: Float64, level: float) -> float:
    """Return when a curve first reaches a level, between two points on a logarithmic axis of time.

    The last time stands for a level that is never reached, so that a ratio of times is then too low.

    >>> reached(np.array([10.0, 1000.0, 2000.0]), np.array([0.0, 1.0, 0.5]), 0.5)
    100.0
    >>> reached(np.array([10.0, 1000.0]), np.array([0.0, 1.0]), 2.0)
    1000.0
    """
    above = np.flatnonzero(values >= level)
    if not len(above) or above[0] == 0:
        return float(times[0] if len(above) else times[-1])
    i = above[0]
    share = (level - values[i - 1]) / (values[i] - values[i - 1])
    return float(times[i - 1] * (times[i] / times[i - 1]) ** share)


def measure(effort: Effort) -> dict[str, Result]:
    """Run the default and PDGD on the same collections, and compare their mean curves."""
    horizon = min(effort.loop_impressions, MOST)
    few = max(FIRST + 1, round(FEW * horizon))
    times = exponential_times(FIRST, horizon, INTERVENTIONS)
    extra = () if few in times else (few,)
    every = tuple(sorted({*times, *extra}))
    curves: dict[str, list[Float64]] = {"default": [], "pdgd": []}
    for seed in SEEDS:
        data = synthetic(queries=effort.loop_queries, features=FEATURES, seed=seed)
        start, users = production_ranker(data, seed=seed), SimulatedUsers.of(data, "paper@5")
        curves["default"].append(_curve(Loop(data, users, start, horizon, times, extra, seed=seed)))
        method = online.method("pdgd")
        curves["pdgd"].append(
            _curve(Loop(data, users, start, horizon, "all", every, method=method, seed=seed))
        )
    default, pdgd = (np.mean(each, axis=0).T for each in curves.values())
    level = float(default[1][default[0] == few][0])
    when = reached(pdgd[0], pdgd[1], level)
    shown = [float(np.diff(t, prepend=0) @ logging / horizon) for t, _, logging in (default, pdgd)]
    means = f"means of {len(SEEDS)} collections"
    return {
        CLICKS.name: Result(
            when / few,
            f"{means}: the default learns {level:.4f} from {few:,} impressions, "
            f"PDGD from {when:,.0f} of {horizon:,}",
        ),
        SHOWN.name: Result(
            shown[0] - shown[1],
            f"{means}: shown on average over {horizon:,} impressions {shown[0]:.4f}, by PDGD {shown[1]:.4f}",
        ),
    }


def _curve(loop: Loop) -> Float64:
    """One row per evaluation: the time, and NDCG@5 of the learned and of the logging policy."""
    events = [event for event in loop.run() if isinstance(event, Evaluated)]
    return np.array([(event.impressions, event.learned, event.logging) for event in events], dtype=np.float64)


LEARNING = Benchmark((CLICKS, SHOWN), measure)
