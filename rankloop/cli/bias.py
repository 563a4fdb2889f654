"""The command that estimates how users click."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankloop.cli.options import (
    EngineOption,
    JsonOption,
    LogArgument,
    MasterOption,
    PageOption,
    SeedOption,
)

if TYPE_CHECKING:
    from rankloop.bias import BiasEstimate, RankIntervals

NONE = "–"


def bias(
    log: LogArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to store the bias in.")] = Path(
        "bias.json"
    ),
    model: Annotated[
        str, typer.Option(help="affine, position, or harvesting (also position-based, from pairs of ranks).")
    ] = "affine",
    ranks: Annotated[int | None, typer.Option(help=r"How many ranks to use. \[default: all]", min=1)] = None,
    resamples: Annotated[
        int,
        typer.Option(help="How often queries are resampled for the intervals; 0 for no intervals.", min=0),
    ] = 100,
    confidence: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.9,
    held_out: Annotated[
        bool, typer.Option(help="Compare the affine and the position-based model on held-out queries.")
    ] = True,
    page: PageOption = None,
    seed: SeedOption = 0,
    engine: EngineOption = "duckdb",
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Estimate how users click, α and β per rank, from a log in which documents moved between ranks."""
    from rankloop import open_log, save_bias, write_report
    from rankloop.cli import console
    from rankloop.cli.updates import show_on
    from rankloop.storage.files import check_writable

    check_writable(out, page)
    opened = open_log(log, engine=engine, master=master)
    with console.announce_compilation(), console.progress() as tasks:
        estimate = opened.estimate_bias(
            model,
            ranks=ranks,
            resamples=resamples,
            confidence=confidence,
            held_out=held_out,
            seed=seed,
            progress=show_on(tasks),
        )
    save_bias(estimate, out)
    if page is not None:
        write_report(estimate, page)
    if as_json:
        typer.echo(json.dumps({"path": str(out), **estimate.to_dict()}, indent=2, ensure_ascii=False))
        return
    _print(estimate)
    for path in (out, page):
        if path is not None:
            console.print_out(f"wrote {path}")


def _print(estimate: BiasEstimate) -> None:
    from rankloop.cli import console

    found, moved, share = estimate.bias, estimate.movement, f"{estimate.confidence:.0%} interval"
    rows = [
        [
            f"{k + 1}",
            *(f"{found.alpha[k]:.3f}", _ends(estimate.alpha, k)),
            *(f"{found.beta[k]:.3f}", _ends(estimate.beta, k)),
            f"{found.examination[k]:.3f}",
        ]
        for k in range(found.ranks)
    ]
    rows += [[f"{k + 1}", *[NONE] * 5] for k in range(found.ranks, len(moved.displays))]
    head = ["rank", "α", share, "β", share, "examination"]
    console.out.print(console.table(f"{estimate.model} model", head, rows))
    rows = [
        [
            f"{k + 1}",
            f"{shown:,.0f}",
            f"{moved.rates[k]:.3f}",
            f"{moved.items[k, k]:,}",
            f"{moved.moved[k]:,.0f}",
        ]
        for k, shown in enumerate(moved.displays)
    ]
    head = ["rank", "displays", "clicked", "documents", "displays that compare"]
    console.out.print(console.table("movement between ranks", head, rows))
    console.print_out(f"anchor: {estimate.anchor}")
    if estimate.comparison is not None:
        console.print_out(estimate.comparison.verdict)
    for note in estimate.notes:
        console.print_out(f"warning: {note}")


def _ends(of: RankIntervals | None, k: int) -> str:
    return NONE if of is None else f"{of.low[k]:.3f} – {of.high[k]:.3f}"
