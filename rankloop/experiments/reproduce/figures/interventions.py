"""The effect of interventions on the intervention-aware estimator."""

from rankloop.experiments.reproduce.figures.base import AWARE, CurvesFigure, learned_and_logging, line

NUMBERS = (0, 5, 10, 20, 50, 100)


def interventions_label(number: int) -> str:
    """What the legend calls this many interventions."""
    return "no interventions" if number == 0 else f"{number} interventions"


FIGURE = CurvesFigure(
    name="interventions",
    caption="The intervention-aware estimator with 0 to 100 interventions.",
    panels=learned_and_logging(
        *(line(AWARE, number, interventions_label(number), look) for look, number in enumerate(NUMBERS))
    ),
)
