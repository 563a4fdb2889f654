"""The command that estimates how users click."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.options import (
    EngineOption,
    JsonOption,
    LogArgument,
    MasterOption,
    PageOption,
    SeedOption,
)


def bias(
    log: LogArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the bias is stored.")] = Path("bias.json"),
    model: Annotated[
        str, typer.Option(help="affine, position, or harvesting (position-based too, from pairs of ranks).")
    ] = "affine",
    ranks: Annotated[
        int | None, typer.Option(help=r"How many ranks to look at. \[default: all]", min=1)
    ] = None,
    resamples: Annotated[
        int, typer.Option(help="How often queries are drawn anew for the intervals; 0 for none.", min=0)
    ] = 100,
    confidence: Annotated[float, typer.Option(help="How often intervals are to hold the truth.")] = 0.9,
    held_out: Annotated[
        bool, typer.Option(help="Compare the affine and the position-based model on held-out queries.")
    ] = True,
    page: PageOption = None,
    seed: SeedOption = 0,
    engine: EngineOption = "duckdb",
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate how users click, α and β by rank, from a log in which documents moved between ranks."""
    import numpy as np

    from rankloop.bias import estimate_bias, save_bias
    from rankloop.cli import console
    from rankloop.logs import count, open_log
    from rankloop.progress import report
    from rankloop.reports.bias import bias_document
    from rankloop.reports.html import write_page
    from rankloop.storage.files import check_writable

    check_writable(out, page)
    with console.announce_compilation(), console.progress() as progress:
        opened = open_log(log)
        report(progress, "counting", 0.0)
        counts = count(opened, ranks=ranks, engine=engine, master=master)
        report(progress, "counting", 1.0, f"{counts.rows:,} rows")
        estimate = estimate_bias(
            counts,
            rng=np.random.default_rng(seed),
            model=model,
            resamples=resamples,
            confidence=confidence,
            held_out=held_out,
            progress=progress,
        )
    save_bias(estimate, out)
    document = bias_document(estimate)
    if page is not None:
        write_page(document, page)
    if as_json:
        typer.echo(json.dumps({"path": str(out), **estimate.to_dict()}, indent=2, ensure_ascii=False))
        return
    console.print_document(document)
    for path in (out, page):
        if path is not None:
            console.print_out(f"wrote {path}")
