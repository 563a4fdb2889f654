"""The command that reproduces the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankloop import extras
from rankloop.cli.loops import resumable
from rankloop.cli.spec_options import Given, read_spec, spec_options
from rankloop.experiments.reproduce.presets import Preset, preset_named


@spec_options(Preset)
def reproduce(
    preset: Annotated[
        str, typer.Option(help="quick (5 runs, smaller data), or paper (20 runs, 10⁸ queries).")
    ] = "quick",
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder to write to; an interrupted reproduction resumes there."),
    ] = Path("rankloop-paper"),
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIGURE",
            help="example, estimators, interventions, online or pdgd; can be given several times. "
            r"\[default: all]",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="local: the cores of this machine; ray: a Ray cluster (needs the extra).")
    ] = "local",
    *,
    given: Given,
) -> None:
    """Reproduce the paper's experiments: every figure, and for every claim whether it holds."""
    extras.require("logs", "reports")
    from rankloop.cli import console
    from rankloop.experiments import reproduce as experiments
    from rankloop.experiments.reproduce.costs import format_duration
    from rankloop.experiments.reproduce.executors import executor
    from rankloop.experiments.reproduce.figures import figure
    from rankloop.experiments.reproduce.report import claims_document

    chosen = read_spec(Preset, {**preset_named(preset).model_dump(), **given})
    figures = [figure(name) for name in dict.fromkeys(only or experiments.FIGURES)]
    execute = executor(engine)
    with resumable(), console.announce_compilation():
        planned = experiments.plan(chosen, figures, out)
        console.print_err(str(planned))
        with console.progress() as progress:
            done = experiments.reproduce(planned, execute, progress)
    console.print_document(claims_document(done.judged, {}))
    console.print_out(f"took {format_duration(done.seconds)}")
    console.print_out(f"wrote {done.folder / 'claims.md'} and {done.folder / 'report.html'}")
