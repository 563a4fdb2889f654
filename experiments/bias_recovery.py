"""Does the estimated bias recover that of the simulated users, and do its intervals hold it?

    python -m experiments.bias_recovery good 0 49 [good.jsonl]

simulates one log for each seed from the first to the last, estimates α and β from it, and prints how far
off they are and how often their intervals hold the truth. Settings are named below; docs/results/bias.md
has tables. With a file, the result of each seed is appended to it, and seeds that it already has
are not run again.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankloop.bias import BiasEstimate, BiasOptions, anchored, estimate_bias
from rankloop.clicks import bias_of, gather, users
from rankloop.data import synthetic
from rankloop.statistics import Counts
from rankloop.types import Bias, Float64

RESAMPLES = 200
ROUNDING = 1e-9


@dataclass(frozen=True)
class Setting:
    """What is simulated.

    Attributes:
        users: who clicks.
        model: what is fitted.
        policies: one log a policy, all put together; how much its scores follow relevance, to which noise of
            standard deviation 1 is added. 0 is a policy that knows nothing.
        queries: how many there are; a query has 24 documents on average.
        impressions: of each policy.
    """

    users: str
    model: str = "affine"
    policies: tuple[float, ...] = (4.0,)
    queries: int = 500
    impressions: int = 100_000


SETTINGS = {
    "random": Setting("paper@5", policies=(0.0,)),
    "good": Setting("paper@5"),
    "two": Setting("paper@5", policies=(2.0, 6.0), impressions=50_000),
    "ten": Setting("paper@10"),
    "sparse": Setting("paper@5", queries=5_000),
    "position": Setting("position@5", model="position"),
    "harvesting": Setting("position@5", model="harvesting"),
    "boundary": Setting("position@5"),
    # So few clicks that the scale of relevance is hardly known.
    "small": Setting(
        "affine(alpha=1:0.66:0.52:0.44:0.38:0.34:0.31:0.29, beta=0:0:0:0:0:0:0:0)",
        policies=(1.0,),
        queries=60,
        impressions=3_000,
    ),
}


def simulate(setting: Setting, rng: np.random.Generator) -> Counts:
    """Counts of one log."""
    # Two thirds of the queries are for training, which is all that is used.
    collection = synthetic(queries=2 * setting.queries, features=2, seed=int(rng.integers(2**31)))
    split = collection.train.select(np.arange(setting.queries))
    relevance = split.labels / 4.0
    parts = []
    for number, follows in enumerate(setting.policies):
        scores = follows * relevance + rng.standard_normal(split.n_documents)
        people = users(setting.users)
        setting_of = split.offsets, relevance, people, setting.impressions, rng
        parts.append(gather(scores, *setting_of, policy=f"policy {number}"))
    return reduce(add, parts)


def truth(setting: Setting, estimate: BiasEstimate) -> Bias:
    """The simulating bias on the scale of the estimate."""
    return anchored(bias_of(users(setting.users)), high=estimate.anchor.high, low=estimate.anchor.low)


class Recovered(NamedTuple):
    """Errors of α and β, whether their intervals hold the truth, and how wide they are: 2 × ranks each."""

    errors: Float64
    held: Float64
    widths: Float64


def recover(name: str, seed: int) -> Recovered:
    """Estimate the bias of one log."""
    setting, rng = SETTINGS[name], np.random.default_rng(seed)
    counts = simulate(setting, rng)
    estimate = estimate_bias(
        counts, BiasOptions(model=setting.model, resamples=RESAMPLES, held_out=False), rng=rng
    )
    assert estimate.alpha is not None
    assert estimate.beta is not None
    real = truth(setting, estimate)
    errors, held, widths = [], [], []
    for found, actual, ends in (
        (estimate.bias.alpha, real.alpha, estimate.alpha),
        (estimate.bias.beta, real.beta, estimate.beta),
    ):
        errors.append(found - actual)
        held.append((ends.low - ROUNDING <= actual) & (actual <= ends.high + ROUNDING))
        widths.append(ends.high - ends.low)
    return Recovered(np.array(errors), np.array(held, np.float64), np.array(widths))


def recall(name: str, path: Path | None) -> dict[int, Recovered]:
    """Results of a setting that a file already has, by seed."""
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        # Widths were not always written.
        row["seed"]: Recovered(
            np.array(row["errors"]),
            np.array(row["held"]),
            np.array(row.get("widths", np.full_like(row["held"], np.nan))),
        )
        for row in rows
        if row["setting"] == name
    }


def main(name: str, first: int, last: int, path: Path | None = None) -> None:
    """Print one line per seed, and in the end the table."""
    setting = SETTINGS[name]
    known = recall(name, path)
    results = []
    for seed in range(first, last + 1):
        results.append(known.get(seed) or recover(name, seed))
        errors, held, widths = results[-1]
        if path is not None and seed not in known:
            found = {key: part.tolist() for key, part in results[-1]._asdict().items()}
            row = {"setting": name, "seed": seed, **found}
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        print(f"seed {seed}: largest error {np.abs(errors).max():.4f}, held {held.mean():.0%}", flush=True)
    errors, held, widths = (np.array(part) for part in zip(*results, strict=True))
    print(f"{name}: {setting}")
    # The others are fixed by the anchor or by the model.
    free = np.abs(errors).max(axis=0) > ROUNDING
    print("| | rank | mean error | its standard deviation | interval holds the truth |")
    print("|---|---|---|---|---|")
    for i, letter in enumerate(("α", "β")):
        for k in range(errors.shape[2]):
            values, share = errors[:, i, k], held[:, i, k].mean()
            if not free[i, k]:
                continue
            print(f"| {letter} | {k + 1} | {values.mean():+.4f} | {values.std(ddof=1):.4f} | {share:.0%} |")
    rate = held[:, free].mean()
    print(f"over all numbers that are free: {rate:.1%} of {held[:, free].size}")
    wide = np.quantile(widths[:, 0, 1:].mean(axis=1), [0.5, 1.0])
    print(f"mean width of the intervals of α: {wide[0]:.3f} in the middle log, {wide[1]:.3f} in the worst")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
