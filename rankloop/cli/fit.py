"""The command that fits a ranker to the clicks of a log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.log_options import (
    BiasOption,
    HoldOutFromOption,
    RanksOption,
    TargetedLogSource,
    choose_bias,
    require_for_fit,
)
from rankloop.cli.option_groups import expand_groups
from rankloop.cli.options import JsonOption, SeedOption


@expand_groups
def fit(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to store the policy in.")] = Path(
        "policy"
    ),
    model: Annotated[
        str, typer.Option(help="lightgbm, mlp or linear; with options: lightgbm(rounds=300).")
    ] = "lightgbm",
    bias: BiasOption = None,
    ranks: RanksOption = None,
    estimator: Annotated[
        str | None,
        typer.Option(
            help="How clicks become weights: naive, ips, policy-aware, affine, intervention-oblivious or "
            r"intervention-aware. \[default: intervention-aware, with the options of --learning]"
        ),
    ] = None,
    learning: Annotated[str, typer.Option(help="doubly-robust, robust or paper.")] = "doubly-robust",
    guess: Annotated[
        str,
        typer.Option(
            help="Model that guesses relevance from features, for doubly robust estimates: trees, logistic "
            "or constant; with options: logistic(penalty=10)."
        ),
    ] = "trees",
    validation: Annotated[float, typer.Option(help="The share of the queries to hold out.")] = 0.2,
    missing: Annotated[
        str,
        typer.Option(
            help="How to replace missing feature values in models that do not support them (lightgbm does): "
            "error, zero or mean."
        ),
    ] = "error",
    hold_out_from: HoldOutFromOption = None,
    *,
    source: TargetedLogSource,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Fit a ranker to the clicks of a log, and store it with its bias, held-out queries and report.

    Ctrl-C ends training, and the best model so far is stored.
    """
    require_for_fit(model)
    from rankloop import write_report
    from rankloop.cli import console
    from rankloop.offline.fit_result import PAGE_FILE, check_fit_path
    from rankloop.reports.fit import fit_document
    from rankloop.training import learning_named

    check_fit_path(out)
    chosen = learning_named(learning, estimator=estimator, guess=guess)
    log = source.open()
    with console.announce_compilation(), console.progress() as progress:
        found = log.fit(
            model,
            bias=choose_bias(log, bias, ranks, seed, progress),
            learning=chosen,
            held_out=hold_out_from or validation,
            missing=missing,  # type: ignore[arg-type]  # refused if it is something else
            seed=seed,
            progress=progress,
        )
    found.save(out)
    page = write_report(found, out / PAGE_FILE)
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "path": str(out), "page": str(page)}, indent=2))
        return
    console.print_document(fit_document(found))
    for path in sorted(out.iterdir()):
        console.print_out(f"wrote {path}")
