"""Figures as specs: those of the paper, one file each, and what rankloop's default does in their place."""

from __future__ import annotations

from collections.abc import Collection

from rankloop import names
from rankloop.experiments.reproduce.figures import default, estimators, example, interventions, online, pdgd
from rankloop.experiments.reproduce.figures.base import CurvesFigure as CurvesFigure
from rankloop.experiments.reproduce.figures.base import Line as Line
from rankloop.experiments.reproduce.figures.base import Panel as Panel
from rankloop.experiments.reproduce.figures.example import ExampleFigure as ExampleFigure

AnyFigure = CurvesFigure | ExampleFigure

FIGURES: dict[str, AnyFigure] = {
    module.FIGURE.name: module.FIGURE
    for module in (example, estimators, interventions, online, pdgd)  # in the order of the paper
}
# Drawn only if they are named.
DEFAULT_FIGURES: dict[str, AnyFigure] = {
    figure.name: figure for figure in (default.INTERVENTIONS, default.ONLINE)
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
