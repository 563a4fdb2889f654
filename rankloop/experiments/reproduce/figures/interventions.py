"""The effect of interventions on the intervention-aware estimator."""

from rankloop.experiments.reproduce.figures.base import AWARE, CurvesFigure, learned_and_logging, line

NUMBERS = (0, 5, 10, 20, 50, 100)


def _label(number: int) -> str:
    return "no interventions" if number == 0 else f"{number} interventions"


FIGURE = CurvesFigure(
    name="interventions",
    caption="The intervention-aware estimator with 0 to 100 interventions.",
    panels=learned_and_logging(
        *(line(AWARE, number, _label(number), look) for look, number in enumerate(NUMBERS))
    ),
)
