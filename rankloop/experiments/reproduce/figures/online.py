"""The comparison with online methods."""

from rankloop.experiments.reproduce.figures.base import (
    AUTHORS_COLTR,
    AWARE,
    BIASED_PDGD,
    COLTR,
    PDGD,
    CurvesFigure,
    learned_and_logging,
    line,
)

FIGURE = CurvesFigure(
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
