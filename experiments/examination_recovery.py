"""How far is the examination of an estimated bias from that of the simulated users?

    python -m experiments.examination_recovery good 0 9

simulates one log for each seed from the first to the last, as `experiments.bias_recovery` does, and compares
three curves with the truth (α + β of the users, relative to rank 1): that of the estimate, which follows from
its α and β; that of a position-based model; and that of harvesting. docs/results/bias.md has the table.
"""

from __future__ import annotations

import sys

import numpy as np

from experiments.bias_recovery import RESAMPLES, ROUNDING, SETTINGS, Setting, simulate
from rankloop.bias import BiasOptions, estimate_bias
from rankloop.bias.anchor import examination_of
from rankloop.clicks import bias_of, users
from rankloop.types import Float64, Lines

SETTINGS = SETTINGS | {
    "few-clicks": Setting("paper@10", policies=(1.0,), queries=100, impressions=10_000),
}


def recover(name: str, seed: int) -> tuple[Float64, Float64, Float64, bool]:
    """Errors of the three curves, the interval of the first, and whether a check contradicts the estimate."""
    setting, rng = SETTINGS[name], np.random.default_rng(seed)
    counts = simulate(setting, rng)
    options = BiasOptions(resamples=RESAMPLES, held_out=False)
    estimate = estimate_bias(counts, options, rng=rng)
    position = estimate_bias(counts, BiasOptions(model="position", resamples=0, held_out=False), rng=rng)
    real = bias_of(users(setting.users))
    truth = examination_of(Lines(real.alpha, real.beta))
    assert estimate.examination is not None
    assert estimate.check is not None
    curves = estimate.bias.examination, position.bias.examination, estimate.check.harvested
    low, high = estimate.examination
    held = (low - ROUNDING <= truth) & (truth <= high + ROUNDING)
    return np.stack(curves) - truth, held, high - low, bool(estimate.check.notes)


def main(name: str, first: int, last: int) -> None:
    """Print the table."""
    results = [recover(name, seed) for seed in range(first, last + 1)]
    errors, held, widths, contradicted = (np.array(part) for part in zip(*results, strict=True))
    print(f"{name}: {SETTINGS[name]}")
    print("| rank | from α and β | standard deviation | position-based | harvested | held | width |")
    print("|---|---|---|---|---|---|---|")
    for k in range(1, errors.shape[2]):
        means = errors[:, :, k].mean(axis=0)
        spread = errors[:, 0, k].std(ddof=1)
        print(
            f"| {k + 1} | {means[0]:+.4f} | {spread:.4f} | {means[1]:+.4f} | {means[2]:+.4f} "
            f"| {held[:, k].mean():.0%} | {widths[:, k].mean():.3f} |"
        )
    print(f"intervals hold the truth: {held[:, 1:].mean():.1%}; contradicted: {contradicted.sum()} logs")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
