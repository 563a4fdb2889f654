"""Learning from the sealed log: the same fit that `rankloop fit` makes, as a policy that can be deployed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.bias import BiasEstimate, BiasOptions
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.logs.features import read_features
from rankloop.loop.exploration import Spread
from rankloop.offline.log import Log, open_log
from rankloop.types import Bias

# Bootstrap resamples of an estimated bias: enough for intervals on the page.
RESAMPLES = 30
# Relevance is a probability; a guess outside of this would only add noise.
LOWEST_MEAN, HIGHEST_MEAN = 0.0, 1.0


@dataclass(frozen=True, eq=False)
class Learned:
    """A policy that was learned from a log.

    Attributes:
        policy: without a name of its own.
        bias: how users click, as it was assumed.
        mean: the mean relevance of what was shown, by that bias.
        numbers: for people.
    """

    policy: LivePolicy
    bias: Bias
    mean: float
    numbers: dict[str, Any]


def learn(folder: Path, settings: LearnerSettings) -> Learned:
    """Fit a policy to the log in a folder.

    Raises:
        DataError: nothing can be learned from the log yet.
    """
    log = open_log(folder)
    bias = _bias(log, settings)
    # Features that were added later have no values in earlier parts.
    fit = log.fit(settings.model, bias=bias, learning=settings.learning, missing="mean", seed=settings.seed)
    counts = log.count(fit.bias.ranks)
    values = read_features(log, counts).values
    if fit.fill_values is not None:
        values = np.where(np.isnan(values), np.asarray(fit.fill_values, np.float32), values)
    scores = fit.model.scores(values)
    soft = Spread(settings.spread).scale(scores, counts.offsets, lambda own: own, 0.0)
    found = fit.to_dict()
    numbers = {name: found[name] for name in ("model", "estimator", "held_out", "notes", "bias")}
    numbers["bias_intervals"] = _intervals(bias)
    policy = policy_of(fit, "learned", details={"soft": soft, "log": fit.log, "model": fit.spec})
    return Learned(policy, fit.bias, mean_relevance(log, fit.bias), numbers)


def mean_relevance(log: Log, bias: Bias) -> float:
    """Σ (clicks − β) / Σ α over everything that was shown: one number for all documents."""
    counts = log.count(bias.ranks)
    displays = counts.displays_by_rank.sum(axis=0)[: bias.ranks]
    clicks = counts.clicks_by_rank.sum(axis=0)[: bias.ranks]
    ranks = len(displays)
    shown = float(displays @ bias.alpha[:ranks])
    mean = float(clicks.sum() - displays @ bias.beta[:ranks]) / shown if shown > 0.0 else 0.0
    return float(np.clip(mean, LOWEST_MEAN, HIGHEST_MEAN))


def _bias(log: Log, settings: LearnerSettings) -> str | BiasEstimate:
    if settings.bias is not None:
        return settings.bias
    return log.estimate_bias(BiasOptions(resamples=RESAMPLES, held_out=False), seed=settings.seed)


def _intervals(bias: str | BiasEstimate) -> dict[str, Any] | None:
    if isinstance(bias, str) or bias.alpha is None or bias.beta is None:
        return None
    return {
        name: [own.low.tolist(), own.high.tolist()]
        for name, own in (("alpha", bias.alpha), ("beta", bias.beta))
    }
