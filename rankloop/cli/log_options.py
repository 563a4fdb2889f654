"""Options of the commands that read a log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.options import EngineOption, LogArgument, MasterOption
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.bias import BiasEstimate
    from rankloop.offline import Log
    from rankloop.progress import Progress

ESTIMATE = "estimate"

BiasOption = Annotated[
    str | None,
    typer.Option(
        help="How users click: a file that `rankloop bias` wrote, the name of simulated users such as "
        r"paper@5, or estimate, from the log itself. \[default: estimate]",
        show_default=False,
    ),
]
RanksOption = Annotated[
    int | None,
    typer.Option(help=r"If the bias is estimated: how many ranks to use. \[default: all]", min=1),
]
HoldOutFromOption = Annotated[
    str | None,
    typer.Option(
        metavar="DATE",
        help="Hold out the queries first seen on this date or later, and train on the impressions "
        "before it, instead of holding out a random share.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class LogSource:
    """Which log to read, and by which engine."""

    log: LogArgument
    engine: EngineOption = "duckdb"
    master: MasterOption = None

    def open(self) -> Log:
        """Open the log."""
        from rankloop import open_log

        return open_log(self.log, engine=self.engine, master=self.master)


@dataclass(frozen=True)
class TargetedLogSource(LogSource):
    """Which log to fit to and to judge by, and what its displays are worth."""

    displays: Annotated[
        bool,
        typer.Option(
            "--displays",
            help="Estimate exposures from displays, for policies that do not draw rankings from their "
            "scores.",
        ),
    ] = False
    target: Annotated[
        str,
        typer.Option(
            help="What policies are fitted to and judged by: clicks, signal (what displays were worth, by "
            "the weights of the import), or auto: the signal of logs that have one."
        ),
    ] = "auto"

    def open(self) -> Log:
        """Open the log."""
        from rankloop import open_log

        return open_log(
            self.log,
            engine=self.engine,
            master=self.master,
            exposure="displays" if self.displays else "candidates",
            target=self.target,
        )


def require_for_fit(model: str) -> None:
    """Name all extras at once that a fit needs and that are not installed."""
    from rankloop import extras
    from rankloop.models.specs import LightGBMSpec, model_spec

    extras.require("logs", *(["trees"] if isinstance(model_spec(model), LightGBMSpec) else []))


def choose_bias(
    log: Log, text: str | None, ranks: int | None, seed: int, progress: Progress
) -> str | BiasEstimate | None:
    """The bias that was asked for; None for the default of the function that is called."""
    from rankloop.offline.assumed_bias import explain_missing_bias

    if text not in (None, ESTIMATE):
        if ranks is not None:
            raise RankloopError(f"--ranks is for --bias {ESTIMATE}: a bias that is given has its own ranks")
        return text
    if text is None and ranks is None:
        return None
    with explain_missing_bias():
        return log.estimate_bias(ranks=ranks, seed=seed, progress=progress)
