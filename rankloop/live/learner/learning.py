"""Learning from the sealed log: the same fit that `rankloop fit` makes, as a policy that can be deployed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.bias import BiasEstimate, BiasOptions
from rankloop.errors import DataError
from rankloop.evidence.self_test import Setting, meaning_for, summary_of
from rankloop.live.learner.metric import AMOUNT, CLICKS, MetricName
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.learner.trial import FIRST_LOOK
from rankloop.live.ranking.live_policy import LivePolicy, policy_of
from rankloop.logs.features import read_features
from rankloop.loop.exploration import Spread
from rankloop.offline.assumptions import assume_bias, self_test_of
from rankloop.offline.log import Log, open_log
from rankloop.relevance import mean_relevance
from rankloop.relevance.click_model import Totals
from rankloop.types import Bias

# Bootstrap resamples of an estimated bias: enough for intervals on the page.
RESAMPLES = 30
# Evidence is first looked at after as many impressions as this many equal amounts take.
FEW_AMOUNTS = 200


@dataclass(frozen=True, eq=False)
class Learned:
    """A policy that was learned from a log.

    Attributes:
        policy: without a name of its own.
        bias: how displays gain the metric, as it was assumed: how users click, if that is the metric.
        mean: the mean relevance of what was shown, by that bias.
        numbers: for people.
        metric: what it was fitted to: ``clicks``, or ``amount`` for what actions are worth.
        unit: what relevance 1 is worth: 1 for clicks, and the highest amount of the log.
        first: from how many impressions on evidence may be looked at.
        doubts: by the name of an assumption, what the self-test of the log found against it, if the gain of a
            trial depends on it. Both policies of a trial serve at the same time, so drift does not matter.
    """

    policy: LivePolicy
    bias: Bias
    mean: float
    numbers: dict[str, Any]
    metric: MetricName = CLICKS
    unit: float = 1.0
    first: int = FIRST_LOOK
    doubts: Mapping[str, str] = field(default_factory=dict)


def learn(folder: Path, settings: LearnerSettings) -> Learned:
    """Fit a policy to the log in a folder.

    Raises:
        DataError: nothing can be learned from the log yet.
    """
    log = open_log(folder, target=settings.metric)
    if settings.metric == AMOUNT and not log.grading().graded:
        raise DataError("what counts is the amount of actions, and none in the log carries one")
    bias = _bias(log, settings)
    # Features that were added later have no values in earlier parts.
    # The trial on pages that come later judges it.
    fit = log.fit(
        settings.model,
        bias=bias,
        learning=settings.learning,
        missing="mean",
        judge="none",
        seed=settings.seed,
    )
    counts = log.count(fit.bias.positions)
    values = read_features(log, counts).values
    if fit.fill_values is not None:
        values = np.where(np.isnan(values), np.asarray(fit.fill_values, np.float32), values)
    scores = fit.model.scores(values)
    soft = Spread(settings.spread).scale(scores, counts.offsets, lambda own: own, 0.0)
    found = fit.to_dict()
    numbers = {name: found[name] for name in ("model", "estimator", "held_out", "notes", "bias")}
    numbers["bias_intervals"] = _intervals(bias)
    grading = log.grading()
    graded_bias, first = grading.bias(fit.bias), FIRST_LOOK
    totals: Totals = counts.totals_by_position()
    if grading.graded:
        totals = grading.statistics(log, graded_bias).statistics.totals_by_position()
        # A few rare large amounts do not tell how much amounts vary.
        rarity = int(counts.impressions_by_query.sum()) / grading.effective
        first = max(FIRST_LOOK, math.ceil(FEW_AMOUNTS * rarity))
    metric = AMOUNT if grading.graded else CLICKS
    numbers["metric"] = metric
    # Relevance is a share of the unit; a guess outside of this would only add noise.
    mean = float(np.clip(mean_relevance(totals, graded_bias), 0.0, 1.0))
    policy = policy_of(fit, "learned", details={"soft": soft, "log": fit.log, "model": fit.spec})
    tested = self_test_of(log, assume_bias(log, bias, seed=settings.seed))
    doubts: dict[str, str] = {}
    if tested is not None:
        setting = Setting(predicts_clicks=True, other_documents=True, rankings_changed=False, periods=2)
        meaning = meaning_for(tested, setting)
        doubts = {one.name: one.text for one in meaning.assumptions if one.state != "held"}
        numbers["self_test"] = {"summary": summary_of(tested), **doubts}
    return Learned(policy, graded_bias, mean, numbers, metric, grading.unit, first, doubts)


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
