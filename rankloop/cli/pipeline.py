"""The command that goes from a log to a verdict."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.log_options import (
    ESTIMATE,
    BiasOption,
    HoldOutFromOption,
    TargetedLogSource,
    require_for_fit,
)
from rankloop.cli.option_groups import expand_groups
from rankloop.cli.options import JsonOption, SeedOption


@expand_groups
def pipeline(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write to.")] = Path("pipeline"),
    model: Annotated[str, typer.Option(help="lightgbm, mlp or linear; with options.")] = "lightgbm",
    bias: BiasOption = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="OLD", help=r"The policy of the log to compare with. \[default: the last one]"),
    ] = None,
    measure: Annotated[str, typer.Option(help="The value of a ranking: dcg, dcg@10 or clicks.")] = "dcg",
    hold_out_from: HoldOutFromOption = None,
    *,
    source: TargetedLogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Check a log, estimate its bias, fit a ranker and evaluate it, with one page for everything.

    The exit code is for schedulers: 0 if the new ranker is better than the old policy, 10 if it leans better,
    11 if both rank alike, 12 if the log does not tell, 13 if it leans worse, 14 if it is worse, 2 for errors.
    """
    require_for_fit(model)
    from rankloop.cli import console
    from rankloop.reports.evaluation import evaluation_document
    from rankloop.reports.pipeline import PAGE, PipelineOptions, run_pipeline

    log = source.open()
    options = PipelineOptions(
        model=model,
        bias=None if bias == ESTIMATE else bias,
        against=against,
        measure=measure,
        hold_out_from=hold_out_from,
        seed=seed,
    )
    with console.announce_compilation(), console.progress() as progress:
        found = run_pipeline(log, out, options, progress=progress)
    if as_json:
        content = {**found.comparison.to_dict(), "exit_code": found.exit_code, "page": str(out / PAGE)}
        typer.echo(json.dumps(content, indent=2))
    else:
        console.print_document(evaluation_document(found.comparison))
        console.announce_page(out / PAGE)
    raise typer.Exit(found.exit_code)
