"""The command that ranks documents by a policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.options import SeedOption
from rankloop.errors import RankloopError


def rank(
    policy: Annotated[
        Path,
        typer.Argument(
            metavar="POLICY",
            help="A policy that `rankloop fit` stored, a model (also of LightGBM, XGBoost or ONNX), or "
            "an exported file.",
        ),
    ],
    features: Annotated[
        list[Path],
        typer.Argument(
            metavar="FEATURES",
            help="The folder of a log, or a table (Parquet, CSV) of query_id, doc_id and features; a table "
            "of doc_id and features may follow.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help=r"The file to write. \[default: standard output]"),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help=r"How many documents per query. \[default: all]", min=1)
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="tsv (with a header; ids may contain spaces), jsonl, parquet, or trec, a TREC run. "
            r"\[default: by the ending of OUT, or tsv]",
            show_default=False,
        ),
    ] = None,
    draw: Annotated[
        bool, typer.Option("--draw", help="Draw rankings (Plackett–Luce) rather than sort by score.")
    ] = False,
    tag: Annotated[str, typer.Option(help="The last column of a TREC run.")] = "rankloop",
    seed: SeedOption = 0,
) -> None:
    """Score and rank documents; documents of equal score are ranked by their ids."""
    import numpy as np

    import rankloop
    from rankloop.cli import console
    from rankloop.offline.tables import RANKING_FORMATS
    from rankloop.storage.files import check_writable

    if form is not None and form not in RANKING_FORMATS:
        *first, last = RANKING_FORMATS
        raise RankloopError(f"--format is {', '.join(first)} or {last}, not {form!r}")
    if out is None and form == "parquet":
        raise RankloopError("Parquet is not for a terminal: name a file, as in -o rankings.parquet")
    check_writable(out)
    with console.announce_compilation(), console.progress() as progress:
        rng = np.random.default_rng(seed) if draw else None
        ranked = rankloop.rank(policy, features, top=top, rng=rng, progress=progress)
    for note in ranked.notes:
        console.print_err(f"note: {note}")
    if out is None:
        typer.echo(ranked.text(form or "tsv", tag=tag), nl=False)
        return
    ranked.save(out, form, tag=tag)
    console.print_out(f"wrote {out}: {len(ranked):,} documents of {len(ranked.query_ids.unique()):,} queries")
