"""What has to be run for figures: each run once, however many figures show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankloop.experiments.reproduce.figures import AnyFigure
from rankloop.experiments.reproduce.presets import Arm, Preset
from rankloop.experiments.spec import RunSpec


@dataclass(frozen=True)
class Job:
    """One run to be made.

    Attributes:
        arm: how it learns.
        spec: all of it.
    """

    arm: Arm
    spec: RunSpec

    @property
    def name(self) -> str:
        """Its folder, below that of all runs."""
        return f"{self.arm.name}/seed-{self.spec.seed}"


def arms(figures: Sequence[AnyFigure]) -> tuple[Arm, ...]:
    """What the figures show, each once."""
    return tuple(dict.fromkeys(arm for figure in figures for arm in figure.arms))


def jobs(figures: Sequence[AnyFigure], preset: Preset) -> list[Job]:
    """The runs that the figures need, seed by seed.

    Example:
        >>> from rankloop.experiments.reproduce.figures import FIGURES
        >>> from rankloop.experiments.reproduce.presets import QUICK
        >>> len(jobs([FIGURES["online"]], QUICK)), len(jobs([FIGURES["pdgd"]], QUICK))
        (20, 20)
        >>> len(jobs([FIGURES["online"], FIGURES["pdgd"]], QUICK))  # they share PDGD online
        35
    """
    return [Job(arm, preset.spec(arm, seed)) for seed in preset.seeds for arm in arms(figures)]
