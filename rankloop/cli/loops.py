"""Commands on simulated clicks: run the loop, report on runs, and a demonstration of both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.options import JsonOption
from rankloop.cli.spec_options import Given, read_spec, spec_options
from rankloop.experiments.spec import RunSpec

if TYPE_CHECKING:
    from rankloop.experiments.setup import SetupFacts

# Held-out queries below which caution may err: with 200, no policy of 20 runs was more than .005 below its
# start; with 30, one was (docs/loop.md).
FEW_HELD_OUT = 100


@spec_options(
    RunSpec, only=("data", "horizon", "interventions", "fold", "seed"), defaults={"interventions": "10"}
)
def demo(
    given: Given,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the runs; an interrupted demo resumes there.")
    ] = Path("rankloop-demo"),
) -> None:
    """Learn from simulated clicks: a static log, an online method (PDGD), and the loop."""
    from rankloop.cli import console
    from rankloop.experiments.demo import demonstrate, set_up
    from rankloop.experiments.report import demo_document

    spec = read_spec(RunSpec, given)
    with resumable(), console.announce_compilation(), console.progress() as progress:
        setup = set_up(spec, out, progress)
        _print_setup(setup.facts, spec.metric)
        results, page = demonstrate(spec, out, setup, progress)
    console.print_document(demo_document(results))
    console.announce_page(page)


@spec_options(RunSpec)
def run(
    given: Given,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the run; an interrupted run resumes there.")
    ] = Path("rankloop-run"),
    as_json: JsonOption = False,
) -> None:
    """Learn from the clicks of simulated users, and deploy learned policies along the way."""
    from rankloop.cli import console
    from rankloop.experiments.report import REPORT, run_document, write_report
    from rankloop.experiments.run import Run

    one = Run(read_spec(RunSpec, given), out)
    with resumable(), console.announce_compilation(), console.progress() as progress:
        setup = one.set_up(progress)
        _print_setup(setup.facts, one.spec.metric)
        held_out = setup.facts.queries["validation"]
        if one.spec.caution and one.spec.evidence is None and held_out < FEW_HELD_OUT:
            console.print_err(
                f"{held_out} held-out queries are few: the first policies that are deployed may be slightly "
                "worse than the start; --evidence click-noise is slower, and safer"
            )
        result = one.resume(setup, progress)
    page = write_report([result], out / REPORT)
    if result.rows[-1].kept_start and one.spec.caution:
        console.print_err(
            f"the starting policy was kept: on {held_out} held-out queries, no "
            f"learned policy gained more than {one.spec.caution:g} standard errors; more clicks or more "
            "held-out queries help, and a lower --caution asks for less"
        )
    if as_json:
        typer.echo(json.dumps([row.model_dump() for row in result.rows], indent=2))
        return
    console.print_document(run_document(result))
    console.announce_page(page)


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER…", help="Folders of runs, or folders that contain such folders."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help=r"The HTML page to write. \[default: report.html, inside the folder if only one is given]",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn runs into one page of tables and curves; runs that differ only in their seed are averaged."""
    from rankloop.cli import console
    from rankloop.experiments.report import REPORT, report_document
    from rankloop.experiments.results import find_results
    from rankloop.experiments.summary import group_runs, summarise
    from rankloop.reports.html import write_page
    from rankloop.storage.files import check_writable

    path = out or (folders[0] / REPORT if len(folders) == 1 else Path(REPORT))
    results = find_results(folders)
    check_writable(path)
    document = report_document(results)
    write_page(document, path)
    if as_json:
        lines = [summarise(group) for group in group_runs(results)]
        typer.echo(json.dumps([line.as_dict() for line in lines], indent=2))
        return
    console.print_document(document)
    console.announce_page(path)


@contextmanager
def resumable() -> Iterator[None]:
    """If the command is interrupted, print that the same command resumes it."""
    from rankloop.cli import console

    try:
        yield
    except KeyboardInterrupt:
        console.print_err("stopped; run the same command again to resume")
        raise


def _print_setup(facts: SetupFacts, metric: str) -> None:
    from rankloop.cli import console
    from rankloop.experiments.starting_policy import PEAKED_ADVICE

    console.print_err(f"starting policy: {metric} {facts.start:.4f}; {facts.peakedness}")
    if facts.peakedness.nearly_deterministic:
        console.print_err(f"the starting policy is {PEAKED_ADVICE}")
    for name, value in (("oracle", facts.oracle), ("supervised", facts.supervised)):
        if value is not None:
            console.print_err(f"{name}: {metric} {value:.4f}")
