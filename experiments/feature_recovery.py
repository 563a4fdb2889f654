"""Does the bias that is estimated from features recover that of the simulated users?

    python -m experiments.feature_recovery SETTING FIRST LAST [RESULTS.jsonl]

simulates one log for each seed, in which a query comes once (or twice) on average, estimates α and β from
features, and prints how often 90 % intervals hold the truth. In the setting ``confounded`` the ranker knows
something about relevance that is not among the features: the check must find it. docs/results/bias.md has
the tables.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.bias import BiasOptions, anchored
from rankloop.bias.feature_regression import estimate_from_features
from rankloop.clicks import bias_of, gather_log, users
from rankloop.errors import DataError
from rankloop.ragged import offsets_of
from rankloop.statistics import CellTable, Counts
from rankloop.types import Float32

DOCUMENTS, FEATURES = 12, 8
ROUNDING = 1e-9


@dataclass(frozen=True)
class Setting:
    """What is simulated.

    Attributes:
        users: who clicks.
        queries: how many there are, each with 12 documents.
        impressions: how often a query comes on average.
        sharpness: how much the ranking follows the ranker's scores, which have a deviation of about 1.2.
        hidden: how much the ranker knows of what is relevant, but not among the features.
    """

    users: str = "paper@5"
    queries: int = 5_000
    impressions: int = 1
    sharpness: float = 4.0
    hidden: float = 0.0


SETTINGS = {
    "once": Setting(),
    "twice": Setting(queries=3_000, impressions=2),
    "ten": Setting("paper@10"),
    "sorted": Setting(sharpness=100.0),
    "confounded": Setting(hidden=0.5),
    "slightly": Setting(hidden=0.2),
}


def simulate(setting: Setting, rng: np.random.Generator) -> tuple[Counts, Float32]:
    """The counts of one log, and features of all documents."""
    documents = DOCUMENTS * setting.queries
    features = rng.standard_normal((documents, FEATURES)).astype(np.float32)
    unseen = rng.standard_normal(documents)
    x = features.T
    value = x[0] + 0.7 * x[1] * x[2] + 0.5 * np.abs(x[3]) + 0.4 * x[4] + 0.4 * unseen
    relevance = np.searchsorted(np.quantile(value, [0.35, 0.6, 0.8, 0.93]), value) / 4.0
    scores = setting.sharpness * (x[0] + 0.5 * x[4] + 0.4 * np.abs(x[3]) + setting.hidden * unseen)
    offsets = offsets_of(np.full(setting.queries, DOCUMENTS))
    impressions = setting.queries * setting.impressions
    log = gather_log(scores, offsets, relevance, users(setting.users), impressions, rng)
    return log.counts(offsets, "production"), features


def recover(name: str, seed: int) -> dict[str, Any]:
    """One log: errors, whether intervals hold the truth, and what was noted; or why it was refused."""
    setting, rng = SETTINGS[name], np.random.default_rng(seed)
    counts, features = simulate(setting, rng)
    row: dict[str, Any] = {"setting": name, "seed": seed}
    try:
        found = estimate_from_features(CellTable.of(counts), features, BiasOptions(), rng)
    except DataError as error:
        return {**row, "refused": str(error)}
    assert found.alpha is not None
    assert found.beta is not None
    truth = anchored(bias_of(users(setting.users)), high=found.anchor.high, low=found.anchor.low)
    pairs = (found.bias.alpha, truth.alpha, found.alpha), (found.bias.beta, truth.beta, found.beta)
    errors = [(value - real[: len(value)]).tolist() for value, real, _ in pairs]
    held = [
        ((ends.low <= real[: len(value)] + ROUNDING) & (real[: len(value)] - ROUNDING <= ends.high)).tolist()
        for value, real, ends in pairs
    ]
    return {**row, "errors": errors, "held": held, "notes": found.notes}


def main(name: str, first: int, last: int, path: Path | None = None) -> None:
    """Print one line per seed, and in the end the coverage."""
    known = {}
    if path is not None and path.exists():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        known = {row["seed"]: row for row in rows if row["setting"] == name}
    results = []
    for seed in range(first, last + 1):
        results.append(known.get(seed) or recover(name, seed))
        if path is not None and seed not in known:
            with path.open("a") as file:
                file.write(json.dumps(results[-1]) + "\n")
        print(seed, results[-1].get("refused") or np.round(results[-1]["errors"], 3).tolist(), flush=True)
    kept = [row for row in results if "errors" in row]
    print(f"{name}: {SETTINGS[name]}; refused {len(results) - len(kept)} of {len(results)}")
    if kept:
        errors, held = np.array([row["errors"] for row in kept]), np.array([row["held"] for row in kept])
        free = np.abs(errors).max(axis=0) > ROUNDING
        print("mean error", errors.mean(axis=0).round(3).tolist())
        print("deviation", errors.std(axis=0).round(3).tolist())
        print(f"coverage {held[:, free].mean():.1%} of {held[:, free].size}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
