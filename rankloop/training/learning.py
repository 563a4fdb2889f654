"""Settings for learning a policy from the statistics of clicks: named presets, or your own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from rankloop import rank_weights
from rankloop.estimators import Estimator, InterventionAware
from rankloop.estimators import estimator as find_estimator
from rankloop.models import SGD, Adam
from rankloop.names import unknown
from rankloop.objectives import ExpectedReward, Softmax, TrainingObjective
from rankloop.progress import Progress
from rankloop.statistics import Statistics
from rankloop.training.guess_models import GuessModel, TreeGuess, guess_model
from rankloop.training.network_guess import guess_by_network
from rankloop.training.problem import LearningProblem
from rankloop.training.relevance_guess import RelevanceGuess, guess_relevance
from rankloop.training.settings import Settings
from rankloop.types import Bias, Float64, Model, Split

# How many examined impressions the prior is worth: the variance of one, p (1 − p) / α, about 0.7, divided by
# the variance of relevance between items, about 0.07.
PRIOR = 10.0
# In ten epochs of patience these are 800 steps, in which Adam moves a weight by up to 2.4: enough to change
# the sign of any weight that is drawn at random.
LEAST_STEPS = 80


@dataclass(frozen=True)
class Learning:
    """Settings that turn statistics of clicks into a policy.

    Attributes:
        settings: the optimiser and early stopping.
        clip_validation: whether the weights of held-out clicks are clipped like those of training clicks.
        reward: what a rank is worth: ``dcg``, or ``clicks`` for α + β.
        estimator: how clicks become weights.
        guess: what guesses relevance from features, for estimators with ``control=model``.
        objective: what networks are trained on; the reward is what they are stopped and judged by.
        least_held_out: the number of held-out impressions below which the loop keeps its start: standard
            errors of a few queries cannot be trusted, and a guess of relevance makes them small.
        revert: whether the loop goes back to its start when nothing that it learns now is convincing; if
            not, it keeps what it learned before, which was.
        name: the preset that this is, or that it varies.
    """

    settings: Settings = field(
        default_factory=lambda: Settings(
            Adam(rate=0.003), epochs=50, least_steps=LEAST_STEPS, patience=10, caution=3.0
        )
    )
    clip_validation: bool = True
    reward: Literal["dcg", "clicks"] = "dcg"
    estimator: Estimator = field(
        default_factory=lambda: InterventionAware(clip="off", average="query", control="mean", prior=PRIOR)
    )
    guess: GuessModel = field(default_factory=TreeGuess)
    objective: TrainingObjective = field(default_factory=ExpectedReward)
    least_held_out: int = 1
    revert: bool = True
    name: str = "robust"

    def rank_weights(self, bias: Bias) -> Float64:
        """Return θ, one weight per rank that these users see."""
        return rank_weights.dcg(bias.ranks) if self.reward == "dcg" else bias.alpha + bias.beta

    def problem(
        self,
        splits: tuple[Split, Split],
        statistics: tuple[Statistics, Statistics],
        bias: Bias,
        *,
        start: Model | None = None,
        guess: RelevanceGuess | None = None,
        progress: Progress | None = None,
    ) -> LearningProblem:
        """Turn clicks into a problem to learn from: the reward as the estimator estimates it.

        This is the only place where the clicks of a loop or of a log become weights for training.

        Args:
            splits: the queries to train on, and those held out; their labels are not read.
            statistics: the clicks on each split.
            bias: how users click.
            start: the model that learning starts from, if there is one: guesses of relevance then come from
                networks that start from it, too, and otherwise from trees.
            guess: the guess of relevance that these clicks led to before; None to make it.
            progress: called while relevance is guessed, if the estimator needs a guess.

        Raises:
            DataError: one of the splits has no interactions.
        """
        if isinstance(self.estimator, InterventionAware) and self.estimator.control == "model":
            if guess is not None:
                pass
            elif start is not None and hasattr(start, "learner"):
                guess = guess_by_network(splits, statistics, bias, start, progress=progress)
            else:
                guess = guess_relevance(splits, statistics, bias, model=self.guess, progress=progress)
            guided = (
                self.estimator.weights(statistics[0], bias, guess=guess.train),
                self.estimator.weights(statistics[1], bias, guess=guess.held_out),
            )
            return LearningProblem.from_weights(
                splits, guided, self.rank_weights(bias), guess, objective=self.objective
            )
        held_out_estimator = self.estimator if self.clip_validation else self.estimator.unclipped
        doc_weights = (
            self.estimator.weights(statistics[0], bias),
            held_out_estimator.weights(statistics[1], bias),
        )
        return LearningProblem.from_weights(
            splits, doc_weights, self.rank_weights(bias), objective=self.objective
        )


ROBUST = Learning()
# Follows the authors' programs where the paper does not say.
PAPER = Learning(
    Settings(SGD(rate=0.01), epochs=50, patience=50, least_gain=0.001),
    clip_validation=False,
    reward="clicks",
    estimator=InterventionAware(),
    name="paper",
)
# The guess of relevance comes from features: what `rankloop fit` learns with.
DOUBLY_ROBUST = replace(
    ROBUST,
    estimator=InterventionAware(clip="off", average="query", control="model", prior=PRIOR),
    objective=Softmax(),
    least_held_out=30,
    revert=False,
    name="doubly-robust",
)
LEARNING = {learning.name: learning for learning in (ROBUST, PAPER, DOUBLY_ROBUST)}


def learning_named(name: str, *, estimator: str | None = None, guess: str | None = None) -> Learning:
    """A preset by its name, with another estimator or another guess if one is named.

    >>> learning_named("paper", estimator="ips").estimator
    IPS(clip='paper')
    """
    if name not in LEARNING:
        raise unknown("learning", name, LEARNING)
    preset = LEARNING[name]
    if guess is not None:
        preset = replace(preset, guess=guess_model(guess))
    return preset if estimator is None else replace(preset, estimator=find_estimator(estimator))
