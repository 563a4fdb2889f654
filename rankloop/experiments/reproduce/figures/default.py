"""The paper's figures for rankloop's default learner, which the paper does not have."""

from rankloop.experiments.reproduce.figures.base import (
    AWARE,
    BIASED_PDGD,
    PDGD,
    CurvesFigure,
    Level,
    learned_and_logging,
    line,
)
from rankloop.experiments.reproduce.figures.interventions import NUMBERS, interventions_label

# The preset of learning that `rankloop run` has unless another is chosen.
DEFAULT = "doubly-robust"
# The oracle of a reproduction has the paper's learner: it is no bound for another.
LEVELS: tuple[Level, ...] = ("noise_free", "best_supervised", "supervised", "start")

INTERVENTIONS = CurvesFigure(
    name="default-interventions",
    caption="rankloop's default with 0 to 100 interventions.",
    panels=learned_and_logging(
        *(line(DEFAULT, number, interventions_label(number), look) for look, number in enumerate(NUMBERS))
    ),
    levels=LEVELS,
)
ONLINE = CurvesFigure(
    name="default-online",
    caption="rankloop's default and the intervention-aware estimator of the paper, both with 100 "
    "interventions, and online methods.",
    panels=learned_and_logging(
        line(DEFAULT, 100, "rankloop's default, 100 interventions", 5),
        line(AWARE, 100, "intervention-aware, 100 interventions", 0),
        line(PDGD, "all", "PDGD, online", 1),
        line(BIASED_PDGD, "all", "biased PDGD, online", 4),
    ),
    levels=LEVELS,
)
