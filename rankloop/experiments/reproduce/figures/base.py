"""Figures of curves: panels of lines, where each line is an arm."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from rankloop.experiments.reproduce.presets import Arm

Quantity = Literal["learned", "logging"]
# The baselines that are drawn as horizontal lines.
Level = Literal["noise_free", "best_supervised", "supervised", "oracle", "start"]

AWARE, OBLIVIOUS, POLICY_AWARE, AFFINE = (
    "intervention-aware",
    "intervention-oblivious",
    "policy-aware",
    "affine",
)
PDGD, BIASED_PDGD, COLTR = "pdgd", "biased-pdgd", "coltr"
# As the authors' programs had it: docs/online.md compares the two.
AUTHORS_COLTR = "coltr(remainder=logging, variance=0.447)"


class Line(BaseModel):
    """A curve: the mean over the runs of an arm, with its confidence bounds.

    Attributes:
        arm: the arm whose runs are drawn.
        label: its label in the legend.
        look: the number of its colour and marker; a learner looks the same in all panels.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    arm: Arm
    label: str
    look: int


class Panel(BaseModel):
    """Curves on common axes.

    Attributes:
        title: the title above the panel.
        quantity: whether to draw the NDCG of the learned or of the logging policies.
        lines: the curves.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    quantity: Quantity
    lines: tuple[Line, ...]


class CurvesFigure(BaseModel):
    """A figure of the paper whose curves show NDCG by impressions.

    Attributes:
        name: the name of its files, and on the command line.
        caption: what it shows.
        panels: from top to bottom.
        levels: the baselines that it shows.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    caption: str
    panels: tuple[Panel, ...]
    levels: tuple[Level, ...] = ("noise_free", "best_supervised", "supervised", "oracle", "start")

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms whose runs it needs, each once."""
        return tuple(dict.fromkeys(line.arm for panel in self.panels for line in panel.lines))


def line(learner: str, interventions: int | Literal["all"], label: str, look: int) -> Line:
    """A line of an arm."""
    return Line(arm=Arm(learner=learner, interventions=interventions), label=label, look=look)


def learned_and_logging(*lines: Line) -> tuple[Panel, Panel]:
    """The paper's pair of panels: the learned policies, and the logging policies that users see meanwhile."""
    return (
        Panel(title="Learned policy", quantity="learned", lines=lines),
        Panel(title="Logging policy", quantity="logging", lines=lines),
    )
