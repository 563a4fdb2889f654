"""Commands on a stored policy: rank with it, and take it to a search engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.options import JsonOption, SeedOption, argument, option
from rankloop.errors import RankloopError


def rank(
    policy: Annotated[
        Path,
        argument(
            "POLICY",
            "A policy that `rankloop fit` stored, a model (also of LightGBM, XGBoost or ONNX), or "
            "an exported file.",
        ),
    ],
    features: Annotated[
        list[Path],
        argument(
            "FEATURES",
            "The folder of a log, or a table (Parquet, CSV) of query_id, doc_id and features; a table "
            "of doc_id and features may follow.",
        ),
    ],
    out: Annotated[
        Path | None,
        option("The file to write.", "--out", "-o", shown="standard output"),
    ] = None,
    top: Annotated[int | None, option("How many documents per query.", shown="all", min=1)] = None,
    form: Annotated[
        str | None,
        option(
            "tsv (with a header; ids may contain spaces), jsonl, parquet, or trec, a TREC run.",
            "--format",
            shown="by the ending of OUT, or tsv",
        ),
    ] = None,
    draw: Annotated[
        bool, option("Draw rankings (Plackett–Luce) rather than sort by score.", "--draw")
    ] = False,
    tag: Annotated[str, option("The last column of a TREC run.")] = "rankloop",
    seed: SeedOption = 0,
) -> None:
    """Score and rank documents; documents of equal score are ranked by their ids."""
    import numpy as np

    import rankloop
    from rankloop.cli import console
    from rankloop.offline.scores import RANKING_FORMATS
    from rankloop.storage.files import check_writable

    if form is not None and form not in RANKING_FORMATS:
        *first, last = RANKING_FORMATS
        raise RankloopError(f"--format is {', '.join(first)} or {last}, not {form!r}")
    if out is None and form == "parquet":
        raise RankloopError("Parquet is not for a terminal: name a file, as in -o rankings.parquet")
    check_writable(out)
    with console.working() as progress:
        rng = np.random.default_rng(seed) if draw else None
        ranked = rankloop.rank(policy, features, top=top, rng=rng, progress=progress)
    for note in ranked.notes:
        console.print_err(f"note: {note}")
    if out is None:
        typer.echo(ranked.text(form or "tsv", tag=tag), nl=False)
        return
    ranked.save(out, form, tag=tag)
    console.print_out(f"wrote {out}: {len(ranked):,} documents of {len(ranked.query_ids.unique()):,} queries")


def export(
    policy: Annotated[
        Path,
        argument(
            "POLICY", "A policy that `rankloop fit` stored, or a model, which may come from another program."
        ),
    ],
    to: Annotated[
        str,
        option(
            "{formats}; with options: opensearch(format=ranklib), vespa(format=onnx).",
            "--to",
            metavar="FORMAT",
        ),
    ],
    out: Annotated[
        Path | None,
        option("The file to write the model to.", "--out", "-o", shown="NAME, with the format's ending"),
    ] = None,
    name: Annotated[
        str | None,
        option("Name of the model and its feature set in the engine.", shown="that of POLICY"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a policy for a search engine, with the same scores there, and a first version of its features."""
    import rankloop
    from rankloop.cli import console

    chosen = name or _name_of(policy)
    exported = rankloop.export(policy, to, name=chosen)
    paths = exported.save(out or Path(chosen + exported.suffix))
    if as_json:
        console.print_json({"format": exported.format, "files": paths, "notes": exported.notes})
        return
    for note in exported.notes:
        console.print_err(f"note: {note}")
    for path in paths:
        console.print_out(f"wrote {path}")


def _name_of(policy: Path) -> str:
    """A name that engines accept, from that of the policy's file or folder."""
    stem = policy.absolute().name.partition(".")[0]
    word = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in stem)
    return word if word[:1].isalpha() or word.startswith("_") else f"_{word}"
