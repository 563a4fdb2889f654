"""The command that estimates the relevance of every document of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.log_options import BiasOption, LogSource, RanksOption, choose_bias
from rankloop.cli.option_groups import expand_groups
from rankloop.cli.options import JsonOption, SeedOption


@expand_groups
def relevance(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The table to write, ending in .parquet or .csv.")
    ] = Path("relevance.parquet"),
    bias: BiasOption = None,
    ranks: RanksOption = None,
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink/--no-shrink",
            help="Shrink estimates from few displays towards the mean of the document's ranks.",
        ),
    ] = True,
    *,
    source: LogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Estimate the relevance of every document that was shown, corrected for position and trust bias.

    No features are needed. The table has one row per query and document, and is a policy for `rankloop
    evaluate`: evaluate it on another log, such as that of a later week.
    """
    from rankloop.cli import console
    from rankloop.reports.relevance import relevance_document
    from rankloop.storage.files import check_writable

    check_writable(out)
    log = source.open()
    with console.announce_compilation(), console.progress() as progress:
        known = choose_bias(log, bias, ranks, seed, progress)
        found = log.relevance(bias=known, shrink=shrink, seed=seed, progress=progress)
    found.save(out)
    if as_json:
        values = {"path": str(out), "documents": len(found), "mean": found.mean, "spread": found.spread}
        typer.echo(json.dumps({**values, "notes": list(found.notes)}, indent=2, ensure_ascii=False))
        return
    console.print_document(relevance_document(found))
    console.print_out(f"wrote {out}")
