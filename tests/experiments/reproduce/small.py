"""Reproductions so small that they can be run in a test."""

from __future__ import annotations

from pathlib import Path

from rankloop.experiments.reproduce import FIGURES, Preset, Reproduction, plan, reproduce
from rankloop.experiments.reproduce.executors import Executor, local
from rankloop.experiments.reproduce.figures import AnyFigure, CurvesFigure, learned_and_logging, line

TINY = Preset(
    name="tiny",
    data="synthetic(queries=60, features=5)",
    runs=2,
    horizon=1_000,
    horizons={"pdgd": 500},
    evaluations=3,
)
# The paper's figures have up to a hundred interventions: too many for a test.
CURVES = CurvesFigure(
    name="curves",
    caption="Three learners.",
    panels=learned_and_logging(
        line("intervention-aware", 0, "aware", 0),
        line("affine", 4, "affine", 1),
        line("pdgd", "all", "PDGD", 2),
    ),
)
FEW: tuple[AnyFigure, ...] = (FIGURES["example"], CURVES)


def made(
    folder: Path, *figures: AnyFigure, preset: Preset = TINY, executor: Executor = local
) -> Reproduction:
    """A reproduction, made."""
    return reproduce(plan(preset, figures or FEW, folder), executor)
