"""The command that makes the paper's experiments."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankloop.cli.options import FoldOption
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.experiments.reproduce import Plan, Preset
    from rankloop.experiments.reproduce.reproduction import Watch
    from rankloop.progress import Progress

# Below this, what is left cannot be told from what is done.
SHARE_TO_TELL_FROM = 0.02


def reproduce(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="[DATA]",
            help="A LETOR or SVMlight file or folder, or synthetic(…). "
            r"\[default: as the preset has it: synthetic, of Yahoo's size for paper]",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option(help="quick (5 runs, smaller data), or paper (20 runs, 10⁸ queries).")
    ] = "quick",
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The folder; a reproduction that was cut goes on there.")
    ] = Path("rankloop-paper"),
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIGURE",
            help="example, estimators, interventions, online or pdgd; may be given several times. "
            r"\[default: all]",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help=r"Runs of each learner. \[default: as the preset has it]", min=1)
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help=r"Logged queries. \[default: as the preset has it]", min=10)
    ] = None,
    relevance: Annotated[
        str, typer.Option(help="How a label becomes a chance: linear(max_label=2), …")
    ] = "linear",
    learning: Annotated[
        str, typer.Option(help="How weights become a policy: paper, or robust for rankloop's own way.")
    ] = "paper",
    engine: Annotated[
        str, typer.Option(help="local: the cores of this machine; ray: a Ray cluster (needs the extra).")
    ] = "local",
    fold: FoldOption = 1,
) -> None:
    """Make the paper's experiments: every figure, and claim by claim whether it holds."""
    from rankloop.cli import console
    from rankloop.experiments import reproduce as experiments
    from rankloop.experiments.reproduce.costs import in_words
    from rankloop.experiments.reproduce.executors import engine as engine_called
    from rankloop.experiments.reproduce.figures import figure
    from rankloop.experiments.reproduce.report import claims_document

    changed = {"data": data, "runs": runs, "horizon": horizon}
    chosen = _preset(preset, relevance=relevance, learning=learning, fold=fold, **changed)
    wanted = [figure(name) for name in dict.fromkeys(only or experiments.FIGURES)]
    make = engine_called(engine)
    try:
        with console.announce_compilation():
            planned = experiments.plan(chosen, wanted, out)
            console.print_err(str(planned))
            with console.progress() as progress:
                done = experiments.reproduce(planned, make, _watch(progress, planned))
    except KeyboardInterrupt:
        console.print_err("stopped; the same command goes on from here")
        raise
    console.print_document(claims_document(done.judged, {}))
    console.print_out(f"took {in_words(done.seconds)}")
    console.print_out(f"wrote {done.folder / 'claims.md'} and {done.folder / 'report.html'}")


def _preset(name: str, **changed: Any) -> Preset:
    from pydantic import ValidationError

    from rankloop import names
    from rankloop.experiments.reproduce import PRESETS, Preset

    if name not in PRESETS:
        raise names.unknown("preset", name, PRESETS)
    given = {key: value for key, value in changed.items() if value is not None}
    try:
        return Preset(**{**PRESETS[name].model_dump(), **given})
    except ValidationError as error:
        first = error.errors()[0]
        # An error of ours says it all; pydantic's do not say what was given.
        message = first.get("ctx", {}).get("error") or f"{first['msg']}, got {first['input']!r}"
        raise RankloopError(f"--{first['loc'][0]}: {message}") from error


def _watch(progress: Progress, planned: Plan) -> Watch:
    from rankloop.experiments.reproduce.costs import in_words
    from rankloop.progress import report

    begun, ended = time.monotonic(), len(planned.jobs) - len(planned.left)

    def watch(share: float, name: str | None) -> None:
        nonlocal ended
        ended += name is not None
        passed = time.monotonic() - begun
        left = planned.seconds if share < SHARE_TO_TELL_FROM else passed * (1.0 - share) / share
        note = f"{ended} of {len(planned.jobs)} runs, {share:.0%}, {in_words(left)} left"
        report(progress, "reproduce", share, note, milestone=name is not None)

    return watch
