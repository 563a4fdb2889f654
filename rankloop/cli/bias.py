"""The command that estimates how users click."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.log_options import LogSource
from rankloop.cli.option_groups import expand_groups
from rankloop.cli.options import (
    JsonOption,
    PageOption,
    SeedOption,
)


@expand_groups
def bias(
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to store the bias in.")] = Path(
        "bias.json"
    ),
    model: Annotated[
        str, typer.Option(help="affine, position, or harvesting (also position-based, from pairs of ranks).")
    ] = "affine",
    method: Annotated[
        str,
        typer.Option(
            help="Where the estimate comes from: pairs, documents, features, randomised or assumed; auto for "
            "the first that the log supports."
        ),
    ] = "auto",
    randomised: Annotated[
        str | None, typer.Option(metavar="POLICY", help="A policy of the log that ranks at random.")
    ] = None,
    curve: Annotated[
        str | None,
        typer.Option(help="The curve to assume if nothing can be estimated, such as paper@10."),
    ] = None,
    ranks: Annotated[int | None, typer.Option(help=r"How many ranks to use. \[default: all]", min=1)] = None,
    resamples: Annotated[
        int,
        typer.Option(help="How often queries are resampled for the intervals; 0 for no intervals.", min=0),
    ] = 200,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.9,
    held_out: Annotated[
        bool, typer.Option(help="Compare the affine and the position-based model on held-out queries.")
    ] = True,
    page: PageOption = None,
    *,
    source: LogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Estimate how users click, α and β per rank, by the best method that the log supports."""
    from rankloop import BiasOptions, save_bias, write_report
    from rankloop.cli import console
    from rankloop.reports.bias import bias_document
    from rankloop.storage.files import check_writable

    check_writable(out, page)
    options = BiasOptions(method, model, randomised, curve, resamples, confidence, held_out)
    log = source.open()
    with console.announce_compilation(), console.progress() as progress:
        estimate = log.estimate_bias(options, ranks=ranks, seed=seed, progress=progress)
    save_bias(estimate, out)
    if page is not None:
        write_report(estimate, page)
    if as_json:
        typer.echo(json.dumps({"path": str(out), **estimate.to_dict()}, indent=2, ensure_ascii=False))
        return
    console.print_document(bias_document(estimate))
    console.print_out(f"wrote {out}")
    if page is not None:
        console.announce_page(page)
