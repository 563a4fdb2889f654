"""The paper's figures as specs: one file each."""

from __future__ import annotations

from rankloop import names
from rankloop.experiments.reproduce.figures import estimators, example, interventions, online, pdgd
from rankloop.experiments.reproduce.figures.base import CurvesFigure as CurvesFigure
from rankloop.experiments.reproduce.figures.base import Line as Line
from rankloop.experiments.reproduce.figures.base import Panel as Panel
from rankloop.experiments.reproduce.figures.example import ExampleFigure as ExampleFigure

AnyFigure = CurvesFigure | ExampleFigure

FIGURES: dict[str, AnyFigure] = {
    module.FIGURE.name: module.FIGURE
    for module in (example, estimators, interventions, online, pdgd)  # in the order of the paper
}


def figure(name: str) -> AnyFigure:
    """The figure of this name.

    >>> figure("interventions").caption
    'The intervention-aware estimator with 0 to 100 interventions.'
    """
    if name not in FIGURES:
        raise names.unknown("figure", name, FIGURES)
    return FIGURES[name]
