"""The runs that figures need: each run once, however many figures show it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rankloop import names
from rankloop.experiments.reproduce.figures import AnyFigure
from rankloop.experiments.reproduce.presets import Arm, Preset
from rankloop.experiments.spec import RunSpec


@dataclass(frozen=True)
class Job:
    """One run of a reproduction.

    Attributes:
        arm: how it learns.
        spec: what to run.
    """

    arm: Arm
    spec: RunSpec

    @property
    def name(self) -> str:
        """The name of its folder in the folder of all runs."""
        return f"{self.arm.name}/seed-{self.spec.seed}"


def arms(figures: Sequence[AnyFigure]) -> tuple[Arm, ...]:
    """The arms that the figures show, each once."""
    return tuple(dict.fromkeys(arm for figure in figures for arm in figure.arms))


def jobs(
    figures: Sequence[AnyFigure],
    preset: Preset,
    seeds: Sequence[int] | None = None,
    learners: Sequence[str] | None = None,
) -> list[Job]:
    """The runs that the figures need, seed by seed.

    Args:
        figures: the figures.
        preset: how large the reproduction is.
        seeds: the seeds to make runs of; None for all of the preset.
        learners: the names of the arms to make runs of; None for all that the figures show.

    Example:
        >>> from rankloop.experiments.reproduce.figures import FIGURES
        >>> from rankloop.experiments.reproduce.presets import QUICK
        >>> len(jobs([FIGURES["online"]], QUICK)), len(jobs([FIGURES["pdgd"]], QUICK))
        (25, 20)
        >>> len(jobs([FIGURES["online"], FIGURES["pdgd"]], QUICK))  # they share PDGD online
        40
        >>> [job.name for job in jobs([FIGURES["pdgd"]], QUICK, [3], ["pdgd-0"])]
        ['pdgd-0/seed-3']
    """
    chosen = preset.seeds if seeds is None else seeds
    shown = {arm.name: arm for arm in arms(figures)}
    for name in learners or ():
        if name not in shown:
            raise names.unknown("learner", name, shown)
    made = [arm for name, arm in shown.items() if learners is None or name in learners]
    return [Job(arm, preset.spec(arm, seed)) for seed in chosen for arm in made]


def seeds(jobs: Iterable[Job]) -> list[int]:
    """The seeds of the runs, each once."""
    return sorted({job.spec.seed for job in jobs})
