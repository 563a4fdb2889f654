"""The command that reproduces the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop import extras
from rankloop.cli.loops import resumable
from rankloop.cli.spec_options import Given, read_spec, spec_options
from rankloop.errors import RankloopError
from rankloop.experiments.reproduce.presets import Preset, preset_named

if TYPE_CHECKING:
    from rankloop.experiments.reproduce import Reproduction

# Defaults of options.
QUICK, LOCAL = "quick", "local"


@spec_options(Preset)
def reproduce(
    given: Given,
    folders: Annotated[
        list[str] | None,
        typer.Argument(metavar="FOLDER", help="With --merge, further folders.", show_default=False),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="quick (5 runs, 1,000 queries), medium (10 runs, 6,000 queries, as the authors' programs), "
            "or paper (20 runs, 10⁸ logged queries)."
        ),
    ] = QUICK,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", help="Folder to write to; an interrupted reproduction resumes there."),
    ] = Path("rankloop-paper"),
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIGURE",
            help="example, estimators, interventions, online or pdgd, or for rankloop's own learner "
            r"default-interventions or default-online; can be given several times. "
            r"\[default: the paper's]",
            show_default=False,
        ),
    ] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEARNER",
            help="Make only the runs of this learner, such as intervention-aware-50 or pdgd-online; can be "
            r"given several times. \[default: all learners of the figures]",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help=r"Make only the runs of these seeds, such as 3-5 or 3,7. \[default: all runs]",
            show_default=False,
        ),
    ] = None,
    merge: Annotated[
        bool,
        typer.Option(
            "--merge",
            help="Merge the results in several folders (DATA and FOLDER…) instead of making runs.",
        ),
    ] = False,
    engine: Annotated[
        str, typer.Option(help="local: the cores of this machine; ray: a Ray cluster (needs the extra).")
    ] = LOCAL,
) -> None:
    """Reproduce the paper's experiments: every figure, and for every claim whether it holds."""
    extras.require("logs", "reports")
    from rankloop.experiments import reproduce as experiments

    if merge:
        if only or learner or seeds or preset != QUICK or engine != LOCAL:
            raise RankloopError("--merge takes folders and --out, and no other option")
        named = [given.get("data"), *(folders or ())]
        _print_outcome(experiments.merge([Path(folder) for folder in named if folder is not None], out))
        return
    if folders:
        raise RankloopError(f"unexpected arguments: {' '.join(folders)}; only --merge takes several folders")
    size = read_spec(Preset, {**preset_named(preset).model_dump(), **given})
    _print_outcome(_make(size, out, engine, only=only, learners=learner, seeds=seeds))


def _make(
    preset: Preset,
    out: Path,
    engine: str,
    *,
    only: list[str] | None,
    learners: list[str] | None,
    seeds: str | None,
) -> Reproduction:
    from rankloop.cli import console
    from rankloop.experiments import reproduce as experiments
    from rankloop.experiments.reproduce.executors import executor
    from rankloop.experiments.reproduce.figures import figure, figures_with

    if learners and not only:
        figures = figures_with(learners)
    else:
        figures = [figure(name) for name in dict.fromkeys(only or experiments.FIGURES)]
    execute = executor(engine)
    chosen = None if seeds is None else experiments.read_seeds(seeds)
    with resumable(), console.announce_compilation():
        planned = experiments.plan(preset, figures, out, chosen, learners)
        console.print_err(str(planned))
        with console.progress() as progress:
            return experiments.reproduce(planned, execute, progress)


def _print_outcome(done: Reproduction) -> None:
    from rankloop.cli import console
    from rankloop.experiments.reproduce.about import spell_missing
    from rankloop.experiments.reproduce.costs import format_duration
    from rankloop.experiments.reproduce.report import claims_document

    console.print_document(claims_document(done.judged, {}))
    if done.missing:
        console.print_out(f"runs not made: {spell_missing(done.missing)}")
    console.print_out(f"took {format_duration(done.seconds)}")
    console.print_out(f"wrote {done.folder / 'claims.md'} and {done.folder / 'report.html'}")
