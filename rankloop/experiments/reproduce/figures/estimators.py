"""The comparison of estimators: without interventions, and with 50."""

from rankloop.experiments.reproduce.figures.base import (
    AFFINE,
    AWARE,
    OBLIVIOUS,
    POLICY_AWARE,
    CurvesFigure,
    Panel,
    line,
)

FIGURE = CurvesFigure(
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
