"""Figures as specs: those of the paper, and what doubly robust learning does in their place."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from rankloop import names
from rankloop.estimators import Estimator
from rankloop.experiments.reproduce.presets import Arm
from rankloop.statistics import Exposure, Statistics
from rankloop.types import Bias, Float64, Int64

Quantity = Literal["learned", "logging"]
# The baselines that are drawn as horizontal lines.
Level = Literal["noise_free", "best_supervised", "supervised", "oracle", "start"]

AWARE, OBLIVIOUS, POLICY_AWARE, AFFINE = (
    "intervention-aware",
    "intervention-oblivious",
    "policy-aware",
    "affine",
)
PDGD, BIASED_PDGD, COLTR = "pdgd", "biased-pdgd", "coltr"
# As the authors' programs had it: docs/online.md compares the two.
AUTHORS_COLTR = "coltr(remainder=logging, variance=0.447)"


class Line(BaseModel):
    """A curve: the mean over the runs of an arm, with its confidence bounds.

    Attributes:
        arm: the arm whose runs are drawn.
        label: its label in the legend.
        look: the number of its colour and marker; a learner looks the same in all panels.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    arm: Arm
    label: str
    look: int


class Panel(BaseModel):
    """Curves on common axes.

    Attributes:
        title: the title above the panel.
        quantity: whether to draw the NDCG of the learned or of the logging policies.
        lines: the curves.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    quantity: Quantity
    lines: tuple[Line, ...]


class CurvesFigure(BaseModel):
    """A figure of the paper whose curves show NDCG by impressions.

    Attributes:
        name: the name of its files, and on the command line.
        caption: what it shows.
        panels: from top to bottom.
        levels: the baselines that it shows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    caption: str
    panels: tuple[Panel, ...]
    levels: tuple[Level, ...] = ("noise_free", "best_supervised", "supervised", "oracle", "start")

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms whose runs it needs, each once."""
        return tuple(dict.fromkeys(line.arm for panel in self.panels for line in panel.lines))


def line(learner: str, interventions: int | Literal["all"], label: str, look: int) -> Line:
    """A line of an arm."""
    return Line(arm=Arm(learner=learner, interventions=interventions), label=label, look=look)


def learned_and_logging(*lines: Line) -> tuple[Panel, Panel]:
    """The paper's pair of panels: the learned policies, and the logging policies that users see meanwhile."""
    return (
        Panel(title="Learned policy", quantity="learned", lines=lines),
        Panel(title="Logging policy", quantity="logging", lines=lines),
    )


# Users without bias: a document's weight is then its click weight alone.
_BIAS = Bias(alpha=np.ones(1), beta=np.zeros(1), examination=np.ones(1))


class ExampleFigure(BaseModel):
    """One document of one query under a logging policy that is changed once.

    Attributes:
        name: the name of its files, and on the command line.
        caption: what it shows.
        change: the last impression of the first policy.
        before: the document's expected α under the first policy.
        after: the document's expected α under the second policy.
        last: the last impression T.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "example"
    caption: str = "The weight of a click on one document around an intervention at t = 100."
    change: int = 100
    before: float = 0.25
    after: float = 0.05
    last: int = 400

    @property
    def arms(self) -> tuple[Arm, ...]:
        """It needs no runs."""
        return ()

    @property
    def times(self) -> Int64:
        """Every impression T."""
        return np.arange(1, self.last + 1)

    def weights(self, estimator: Estimator) -> Float64:
        """The weight of a click at impression T when T impressions have been logged, for every T."""
        return np.array([self.weight(estimator, click=int(t), impressions=int(t)) for t in self.times])

    def weight(self, estimator: Estimator, *, click: int, impressions: int) -> float:
        """The weight of a click at one impression when this many have been logged.

        Example:
            >>> from rankloop.estimators import InterventionAware
            >>> figure, aware = ExampleFigure(), InterventionAware(clip="off")
            >>> round(figure.weight(aware, click=101, impressions=400), 9)
            10.0
        """
        parts = [("first", self.before, min(impressions, self.change), click <= self.change)]
        if impressions > self.change:
            parts.append(("second", self.after, impressions - self.change, click > self.change))
        log = Statistics.empty(np.array([0, 1]), 1)
        for policy, alpha, length, clicked in parts:
            log += Statistics.of_policy(
                policy,
                np.array([0, 1]),
                Exposure(np.array([alpha]), np.zeros(1), np.array([alpha])),
                impressions_by_query=[length],
                displays_by_position=[[int(clicked)]],
                clicks_by_position=[[int(clicked)]],
            )
        return float(estimator.weights(log, _BIAS)[0] * log.impressions)


AnyFigure = CurvesFigure | ExampleFigure

EXAMPLE = ExampleFigure()

ESTIMATORS = CurvesFigure(
    name="estimators",
    caption="Estimators without interventions (top) and with 50 (bottom).",
    panels=(
        Panel(
            title="No interventions (intervention-oblivious equals intervention-aware)",
            quantity="learned",
            lines=(
                line(AWARE, 0, "intervention-aware", 0),
                line(POLICY_AWARE, 0, "policy-aware", 2),
                line(AFFINE, 0, "affine", 3),
            ),
        ),
        Panel(
            title="50 interventions",
            quantity="learned",
            lines=(
                line(AWARE, 50, "intervention-aware", 0),
                line(OBLIVIOUS, 50, "intervention-oblivious", 1),
                line(POLICY_AWARE, 50, "policy-aware", 2),
                line(AFFINE, 50, "affine", 3),
            ),
        ),
    ),
)

NUMBERS = (0, 5, 10, 20, 50, 100)


def interventions_label(number: int) -> str:
    """What the legend calls this many interventions."""
    return "no interventions" if number == 0 else f"{number} interventions"


INTERVENTIONS = CurvesFigure(
    name="interventions",
    caption="The intervention-aware estimator with 0 to 100 interventions.",
    panels=learned_and_logging(
        *(line(AWARE, number, interventions_label(number), look) for look, number in enumerate(NUMBERS))
    ),
)

ONLINE = CurvesFigure(
    name="online",
    caption="The intervention-aware estimator with 100 interventions, and online methods.",
    panels=learned_and_logging(
        line(AWARE, 100, "intervention-aware, 100 interventions", 0),
        line(PDGD, "all", "PDGD, online", 1),
        line(BIASED_PDGD, "all", "biased PDGD, online", 4),
        line(AUTHORS_COLTR, "all", "COLTR as the authors ran it, online", 3),
        line(COLTR, "all", "COLTR with its own normaliser, online", 2),
    ),
)

COUNTERFACTUAL_PDGD = CurvesFigure(
    name="pdgd",
    caption="PDGD applied counterfactually, with 100 interventions, and online.",
    panels=learned_and_logging(
        line(PDGD, "all", "PDGD, online", 1),
        line(PDGD, 100, "PDGD, 100 interventions", 5),
        line(PDGD, 0, "PDGD, no interventions", 2),
        line(AWARE, 0, "intervention-aware, no interventions", 0),
    ),
)

# The preset of learning that `rankloop fit` has unless another is chosen.
DEFAULT = "doubly-robust"
# The oracle of a reproduction has the paper's learner: it is no bound for another.
DEFAULT_LEVELS: tuple[Level, ...] = ("noise_free", "best_supervised", "supervised", "start")

DEFAULT_INTERVENTIONS = CurvesFigure(
    name="default-interventions",
    caption="Doubly robust learning with 0 to 100 interventions.",
    panels=learned_and_logging(
        *(line(DEFAULT, number, interventions_label(number), look) for look, number in enumerate(NUMBERS))
    ),
    levels=DEFAULT_LEVELS,
)
DEFAULT_ONLINE = CurvesFigure(
    name="default-online",
    caption="Doubly robust learning and the intervention-aware estimator of the paper, both with 100 "
    "interventions, and online methods.",
    panels=learned_and_logging(
        line(DEFAULT, 100, "doubly robust learning, 100 interventions", 5),
        line(AWARE, 100, "intervention-aware, 100 interventions", 0),
        line(PDGD, "all", "PDGD, online", 1),
        line(BIASED_PDGD, "all", "biased PDGD, online", 4),
    ),
    levels=DEFAULT_LEVELS,
)

# In the order of the paper.
FIGURES: dict[str, AnyFigure] = {
    figure.name: figure for figure in (EXAMPLE, ESTIMATORS, INTERVENTIONS, ONLINE, COUNTERFACTUAL_PDGD)
}
# Drawn only if they are named.
DEFAULT_FIGURES: dict[str, AnyFigure] = {
    figure.name: figure for figure in (DEFAULT_INTERVENTIONS, DEFAULT_ONLINE)
}


def figures_with(learners: Collection[str]) -> list[AnyFigure]:
    """The figures of the paper that show one of these learners, or those of the default if none of them does.

    >>> [figure.name for figure in figures_with(["intervention-aware-100"])]
    ['interventions', 'online']
    >>> [figure.name for figure in figures_with(["pdgd-0", "doubly-robust-5"])]
    ['pdgd', 'default-interventions']

    Raises:
        BadNameError: no figure shows one of them.
    """
    left, chosen = set(learners), []
    for figures in (FIGURES, DEFAULT_FIGURES):
        wanted = frozenset(left)
        for figure in figures.values():
            if shown := wanted.intersection(arm.name for arm in figure.arms):
                chosen.append(figure)
                left -= shown
    if left:
        known = {
            arm.name for figures in (FIGURES, DEFAULT_FIGURES) for one in figures.values() for arm in one.arms
        }
        raise names.unknown("learner", min(left), sorted(known))
    return chosen


def figure(name: str) -> AnyFigure:
    """The figure of this name, of the paper or of the default.

    >>> figure("interventions").caption
    'The intervention-aware estimator with 0 to 100 interventions.'
    """
    known = {**FIGURES, **DEFAULT_FIGURES}
    if name not in known:
        raise names.unknown("figure", name, known)
    return known[name]


def arms(figures: Sequence[AnyFigure]) -> tuple[Arm, ...]:
    """The arms that figures show, each once."""
    return tuple(dict.fromkeys(arm for figure in figures for arm in figure.arms))
