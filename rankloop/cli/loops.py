"""Commands on simulated clicks: run the loop, report on runs, demonstrate all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.options import JsonOption
from rankloop.cli.spec_options import Given, read_spec, spec_options
from rankloop.experiments.spec import RunSpec

if TYPE_CHECKING:
    from rankloop.cli.console import Tasks
    from rankloop.experiments.results import RunResult
    from rankloop.experiments.setup import Facts
    from rankloop.progress import Progress


@spec_options(
    RunSpec, only=("data", "horizon", "interventions", "fold", "seed"), defaults={"interventions": "10"}
)
def demo(
    given: Given,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the runs; an interrupted demo resumes there.")
    ] = Path("rankloop-demo"),
) -> None:
    """Learn from simulated clicks, and compare the loop to a static and a naive learner."""
    from rankloop.cli import console
    from rankloop.experiments.demo import demonstrate, set_up

    spec = read_spec(RunSpec, given)
    with resumable(), console.announce_compilation(), console.progress() as tasks:
        progress = progress_of(tasks)
        setup = set_up(spec, out, progress)
        _print_setup(setup.facts, spec.metric)
        results, page = demonstrate(spec, out, setup, progress)
    _print_demo(results, spec.metric)
    console.print_out(f"wrote {page}")


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
    from rankloop.experiments.report import REPORT, write_report
    from rankloop.experiments.run import Run

    one = Run(read_spec(RunSpec, given), out)
    with resumable(), console.announce_compilation(), console.progress() as tasks:
        progress = progress_of(tasks)
        setup = one.set_up(progress)
        _print_setup(setup.facts, one.spec.metric)
        result = one.resume(setup, progress)
    page = write_report([result], out / REPORT)
    _print_run(result, as_json)
    if not as_json:
        console.print_out(f"wrote {page}")


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="FOLDER…", help="Folders of runs, or folders that contain such folders."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help=r"The page. \[default: report.html, in the folder if only one is given]"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Turn runs into one page of tables and curves; runs that differ only in their seed are averaged."""
    from rankloop.experiments.report import REPORT, write_report
    from rankloop.experiments.results import find_results
    from rankloop.storage.files import check_writable

    path = out or (folders[0] / REPORT if len(folders) == 1 else Path(REPORT))
    results = find_results(folders)
    check_writable(path)
    _print_report(results, write_report(results, path), as_json)


@contextmanager
def resumable() -> Iterator[None]:
    """Say that the same command resumes, if it is interrupted."""
    from rankloop.cli import console

    try:
        yield
    except KeyboardInterrupt:
        console.print_err("stopped; run the same command again to resume")
        raise


def progress_of(tasks: Tasks) -> Progress:
    """Show progress in the terminal."""
    return lambda update: tasks.update(
        update.task, update.note or None, share=update.share, told=update.milestone
    )


def _print_setup(facts: Facts, metric: str) -> None:
    from rankloop.cli import console
    from rankloop.experiments.starting_policy import PEAKED_ADVICE

    console.print_err(f"starting policy: {metric} {facts.start:.4f}; {facts.peakedness}")
    if facts.peakedness.nearly_deterministic:
        console.print_err(f"the starting policy is {PEAKED_ADVICE}")
    for name, value in (("oracle", facts.oracle), ("supervised", facts.supervised)):
        if value is not None:
            console.print_err(f"{name}: {metric} {value:.4f}")


def _print_run(result: RunResult, as_json: bool) -> None:
    from rankloop.cli import console

    spec, rows = result.spec, result.rows
    if rows[-1].kept_start and spec.caution:
        console.print_err(
            f"the starting policy was kept: on {result.facts.queries['validation']} held-out queries, no "
            f"learned policy gained more than {spec.caution:g} standard errors; more clicks or more held-out "
            "queries help, and a lower --caution asks for less"
        )
    if as_json:
        typer.echo(json.dumps([row.model_dump() for row in rows], indent=2))
        return
    cells = [
        [f"{row.timesteps:,}", f"{row.learned:.4f}", f"{row.logging:.4f}", f"{row.support['0.01']:.0%}"]
        for row in rows
    ]
    columns = ["interactions", "learned", "logging", "items below 0.01"]
    console.out.print(console.table(f"{spec.metric} on the test queries, {spec.learner}", columns, cells))


def _print_report(results: list[RunResult], path: Path, as_json: bool) -> None:
    from rankloop.cli import console
    from rankloop.experiments.summary import group_runs, summarise

    lines = [summarise(group) for group in group_runs(results)]
    if as_json:
        typer.echo(json.dumps([line.as_dict() for line in lines], indent=2))
        return
    rows = [
        [f"{line.group.name}: {line.group.label}", str(line.learned), str(line.gain), str(line.shown)]
        for line in lines
    ]
    columns = ["run", "learned", "learned − start", "shown on average"]
    console.out.print(console.table(f"{results[0].spec.metric} on the test queries", columns, rows))
    console.print_out(f"wrote {path}")


def _print_demo(results: Mapping[str, RunResult], metric: str) -> None:
    from rankloop.cli import console
    from rankloop.experiments.demo import LOOP, NAIVE, STATIC

    facts = results[LOOP].facts
    rows: list[tuple[str, float, float | None]] = [
        ("random", facts.random, None),
        ("production ranker", facts.start, None),
    ]
    for name in (NAIVE, STATIC, LOOP):
        result = results[name]
        rows.append((name, result.rows[-1].learned, result.shown(len(result.rows) - 1)))
    if facts.oracle is not None:
        rows.append(("oracle", facts.oracle, None))
    cells = [
        [name, f"{value:.4f}", f"{value - facts.start:+.4f}", "–" if shown is None else f"{shown:.4f}"]
        for name, value, shown in rows
    ]
    title = f"{metric} on {facts.queries['test']} test queries of {facts.dataset}"
    columns = ["ranker", metric, "− production", "shown on average"]
    console.out.print(console.table(title, columns, cells))
