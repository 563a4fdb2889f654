"""How far to go from the start towards what was learned: as far as the evidence carries, and no further.

Little evidence proves a small step long before it proves a large one. A policy between the start and the
learned one differs little from the start, so its gain has little noise; and once it is deployed, it shows
more of what the learned policy likes, so the next evidence is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rankloop.errors import RankloopError
from rankloop.evidence.decision import Assumption, Decision, DecisionKind, Evidence, decide
from rankloop.evidence.rules import EvidenceRule
from rankloop.evidence.trust_region import worst_loss
from rankloop.models import Blend
from rankloop.policies import expected_rank_weights
from rankloop.statistics.intervals import tail_probability
from rankloop.types import Float32, Float64, Int64, Model
from rankloop.value.held_out_clicks import Gain, HeldOutClicks, combine

# From a thousandth of the way to all of it: large steps are close to each other, tiny ones need not be.
SHARES = tuple(2.0**-k for k in (10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.5, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5, 0.0))
# A smaller gain is a rounding error: the learned policy is the start.
LEAST_GAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Trial:
    """A learned model, and clicks on queries that it was not trained on.

    Attributes:
        model: the policy that was learned; in cross-fitting, one that was learned without these queries.
        features: float32, documents × features; the documents of these queries.
        clicks: the clicks on them.
    """

    model: Model
    features: Float32
    clicks: HeldOutClicks


@dataclass(frozen=True, eq=False)
class LossLimit:
    """The most that a step may lose on known queries, whatever users do: the width of a trust region.

    Attributes:
        features: float32, documents × features; of all known queries.
        offsets: int64, queries + 1.
        most: ε; the largest loss that any relevance could cause, averaged over the queries, as a share of the
            value of the start (`TrustRegion.width`).
    """

    features: Float32
    offsets: Int64
    most: float

    def assumption(self, loss: float) -> Assumption:
        """That a step which could lose this much is within the limit."""
        return Assumption(
            "possible loss",
            "broken" if loss > self.most else "held",
            f"users could make it lose {loss:.1%} of the value of the start, and {self.most:.1%} is allowed",
        )


@dataclass(frozen=True)
class Step:
    """How far to go, and why.

    Attributes:
        share: of the way from the start to the learned policy; 0 to go nowhere.
        decision: the decision on the step that was chosen, or on the smallest one if none was.
        possible_loss: what that step could lose whatever users do, as a share of the value of the start;
            NaN without a trust region.
        back: whether what is deployed turned out worse than the start, which returns.
    """

    share: float
    decision: Decision
    possible_loss: float
    back: bool = False

    def policy(self, start: Model, learned: Model, deployed: Model | None = None) -> Model:
        """Return the policy to deploy: a step from the start, what is deployed already, or the start."""
        if self.share == 0.0:
            return start if self.back or deployed is None else deployed
        return learned if self.share == 1.0 else Blend(start, learned, self.share)


def choose_step(
    start: Model,
    learned: Model,
    trials: Sequence[Trial],
    rank_weights: Float64,
    rule: EvidenceRule,
    look: int,
    *,
    limit: LossLimit | None = None,
    deployed: Trial | None = None,
) -> Step:
    """Choose the step of the highest estimated gain among those that the rule and the trust region allow.

    Steps are tested from the smallest to the largest, up to the first that the rule refuses. In this fixed
    order, many tests are as safe as one: for a false step, the first false one has to pass.

    Args:
        start: the policy that must not become worse.
        learned: where the steps lead.
        trials: clicks to judge it by; several for cross-fitting.
        rank_weights: θ, what each rank is worth.
        rule: the rule of evidence.
        look: the number of the look at the evidence, from 1.
        limit: the trust region; None for none.
        deployed: the policy that was deployed before, with clicks that neither it nor the learned policy was
            trained on. It stays if it is better than the step by more than a standard error, and goes if it
            is worse than the start by more than that.
    """
    if not trials:
        raise RankloopError("a step needs a trial: a learned model, and clicks that it was not trained on")
    contests = [_Contest(start, trial, rank_weights) for trial in trials]
    losses = None if limit is None else _PossibleLosses(start, learned, rank_weights, limit)
    allowed: list[Step] = []
    for share in SHARES:
        loss = float("nan") if losses is None else losses.of_step(share)
        assumptions = () if limit is None else (limit.assumption(loss),)
        step = Step(share, _decide(contests, rule, look, share, assumptions), loss)
        if not step.decision.deploy:
            break
        allowed.append(step)
    best = max(allowed, key=lambda step: step.decision.estimate, default=step)
    # The rule tolerates small losses, but nobody takes a step that is expected to lose, or leads nowhere.
    if not allowed or best.decision.estimate <= LEAST_GAIN:
        best = replace(best, share=0.0)
    return best if deployed is None else _compare(best, start, learned, deployed, (rank_weights, rule, look))


def _compare(
    step: Step, start: Model, learned: Model, deployed: Trial, by: tuple[Float64, EvidenceRule, int]
) -> Step:
    """Compare a step with what is deployed, which may stay, or has to go."""
    rank_weights, rule, look = by
    there = _Contest(start, deployed, rank_weights).gain(rule, look, 1.0)
    if _within_an_error(there.value, there.error) is DecisionKind.WORSE:
        return replace(step, back=True)
    if step.share == 0.0:
        return step
    here = _Contest(start, replace(deployed, model=learned), rank_weights).gain(rule, look, step.share)
    stays = _within_an_error(there.value - here.value, there.error) is DecisionKind.BETTER
    return replace(step, share=0.0) if stays else step


def _within_an_error(difference: float, error: float) -> DecisionKind:
    """Better or worse by more than a standard error, or undecided."""
    evidence = Evidence(difference, (difference - error, difference + error))
    return decide(evidence, level=2.0 * tail_probability(1.0)).kind


class _Contest:
    """The expected rank weights of a start and of the steps from it, on the queries of a trial."""

    def __init__(self, start: Model, trial: Trial, rank_weights: Float64) -> None:
        self.clicks = trial.clicks
        self._scores = start.scores(trial.features), trial.model.scores(trial.features)
        self._theta = rank_weights
        self.old = expected_rank_weights(self._scores[0], self.clicks.offsets, self._theta)

    def gain(self, rule: EvidenceRule, look: int, share: float) -> Gain:
        scores = (1.0 - share) * self._scores[0] + share * self._scores[1]
        new = expected_rank_weights(scores, self.clicks.offsets, self._theta)
        return rule.gain(self.clicks, new, self.old, look)


class _PossibleLosses:
    """What steps could lose on known queries."""

    def __init__(self, start: Model, learned: Model, rank_weights: Float64, limit: LossLimit) -> None:
        self._offsets = limit.offsets
        self._scores = start.scores(limit.features), learned.scores(limit.features)
        self._theta = rank_weights
        self._start = expected_rank_weights(self._scores[0], limit.offsets, rank_weights)

    def of_step(self, share: float) -> float:
        scores = (1.0 - share) * self._scores[0] + share * self._scores[1]
        new = expected_rank_weights(scores, self._offsets, self._theta)
        return float(worst_loss(new, self._start, self._offsets).mean())


def _decide(
    contests: Sequence[_Contest],
    rule: EvidenceRule,
    look: int,
    share: float,
    assumptions: tuple[Assumption, ...],
) -> Decision:
    gains = [one.gain(rule, look, share) for one in contests]
    impressions = [one.clicks.total for one in contests]
    values = [one.clicks.value_by_guess(one.old) for one in contests]
    value = float(np.average(values, weights=impressions))
    return rule.decide(combine(gains, impressions), value, look, assumptions)
