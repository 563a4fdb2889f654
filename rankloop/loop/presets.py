"""How a policy is learned from the statistics of clicks: two named presets, and any other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from rankloop import rank_weights
from rankloop.estimators import Estimator, InterventionAware
from rankloop.estimators import estimator as find_estimator
from rankloop.loop.exploration import AsLearned, Exploration, Spread
from rankloop.models import SGD, Adam
from rankloop.names import unknown
from rankloop.training import Settings
from rankloop.types import Bias, Float64

# What a relevance is known from before any click, in examined impressions: the noise of one, p (1 − p) / α,
# about 0.7, over the variance of relevance from item to item, about 0.07.
PRIOR = 10.0


@dataclass(frozen=True)
class Learning:
    """How a policy is learned from statistics, and how it logs afterwards.

    Attributes:
        settings: of the optimiser and of early stopping.
        clip_validation: whether weights of held-out clicks are clipped as those of training clicks are.
        reward: what a rank is worth: ``dcg``, or ``clicks``, α + β.
        estimator: how clicks become weights.
        exploration: how soft the learned policy becomes when it logs.
    """

    settings: Settings = field(
        default_factory=lambda: Settings(Adam(rate=0.003), epochs=50, patience=10, caution=3.0)
    )
    clip_validation: bool = True
    reward: Literal["dcg", "clicks"] = "dcg"
    estimator: Estimator = field(
        default_factory=lambda: InterventionAware(clip="off", average="query", control="mean", prior=PRIOR)
    )
    exploration: Exploration = field(default_factory=Spread)

    def rank_weights(self, bias: Bias) -> Float64:
        """θ, one a rank that these users see."""
        return rank_weights.dcg(bias.ranks) if self.reward == "dcg" else bias.alpha + bias.beta


ROBUST = Learning()
# What the authors' programs do where the paper is silent.
PAPER = Learning(
    Settings(SGD(rate=0.01), epochs=50, patience=50, least_gain=0.001),
    clip_validation=False,
    reward="clicks",
    estimator=InterventionAware(),
    exploration=AsLearned(),
)
LEARNING = {"robust": ROBUST, "paper": PAPER}


def learning_named(name: str, *, estimator: str | None = None) -> Learning:
    """A preset by its name, with another estimator if one is named.

    >>> learning_named("paper", estimator="ips").estimator
    IPS(clip='paper')
    """
    if name not in LEARNING:
        raise unknown("learning", name, LEARNING)
    preset = LEARNING[name]
    return preset if estimator is None else replace(preset, estimator=find_estimator(estimator))
