"""The effect of interventions on PDGD."""

from rankloop.experiments.reproduce.figures.base import AWARE, PDGD, CurvesFigure, learned_and_logging, line

FIGURE = CurvesFigure(
    name="pdgd",
    caption="PDGD applied counterfactually, with 100 interventions, and online.",
    panels=learned_and_logging(
        line(PDGD, "all", "PDGD, online", 1),
        line(PDGD, 100, "PDGD, 100 interventions", 5),
        line(PDGD, 0, "PDGD, no interventions", 2),
        line(AWARE, 0, "intervention-aware, no interventions", 0),
    ),
)
