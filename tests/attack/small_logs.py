"""Small logs, from the counts to a decision: few queries, documents, ranks or clicks."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np

from rankloop.bias import BiasEstimate
from rankloop.clicks import gather_log, users
from rankloop.errors import DataError
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import open_log
from rankloop.types import Bias, Split
from tests.attack.campaign import Attack, campaign

FEATURES = 2


@campaign("small logs", inputs=3)
def attack_small_logs(folder: Path) -> Attack:
    """Whatever a small log has too little of: a refusal or finite numbers, and never an error from below."""

    def attack(chosen: random.Random) -> str | None:
        rng = np.random.default_rng(chosen.randrange(2**32))
        queries, documents = chosen.choice([1, 2, 5, 20, 60]), chosen.choice([1, 2, 4, 12])
        ranks = chosen.choice([1, 2, 3, 8])
        impressions = chosen.choice([5, 50, 400, 3_000])
        size = queries * documents
        features = rng.normal(size=(size, FEATURES)) * chosen.choice([0.0, 1.0, 1.0])
        most = chosen.choice([0.0, 0.05, 0.5, 1.0])
        relevance = most / (1.0 + np.exp(-features @ [1.0, -0.5]))
        split = Split.build(
            features,
            np.zeros(size),
            sizes=[documents] * queries,
            query_ids=[f"q{number}" for number in range(queries)],
            doc_ids=[f"d{number}" for number in range(size)],
        )
        scores = rng.normal(size=size) * chosen.choice([0.0, 0.5, 5.0])
        log = gather_log(scores, split.offsets, relevance, users(f"position@{ranks}"), impressions, rng)
        shutil.rmtree(folder / "log", ignore_errors=True)
        write_simulated(folder / "log", split, [PolicyTraffic("production", scores, log)])
        if chosen.random() < 0.5:
            # Exposures are then estimated from displays.
            (folder / "log" / "candidates.parquet").unlink()
        return judge(folder / "log", chosen.choice(["lightgbm", "lightgbm", "linear"]), f"position@{ranks}")

    return attack


def judge(path: Path, model: str, people: str) -> str | None:
    """Estimate, fit and evaluate; return what is not finite."""
    log = open_log(path)
    bias: BiasEstimate | str
    try:
        bias = log.estimate_bias()
    except DataError:
        bias = people
    else:
        if not finite(bias.bias):
            return f"resamples of the bias are not finite: {bias.bias}"
    fit = log.fit(model, bias=bias)
    found = log.evaluate(fit, against="production")
    for part in (found.new.estimate, found.against.estimate, found.difference.estimate):
        if not np.isfinite(part).all():
            return f"an estimate that is not finite: {part}"
    return None if found.conclusion.strip() else "a decision without words"


def finite(bias: Bias) -> bool:
    """Whether a bias and its resamples are finite."""
    drawn = None if bias.evidence is None else bias.evidence.resamples
    return bool(np.isfinite(bias.alpha).all() and (drawn is None or np.isfinite(drawn).all()))
