"""Take a policy to a search engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rankloop.cli.options import JsonOption


def export(
    policy: Annotated[
        Path,
        typer.Argument(
            metavar="POLICY",
            help="A policy that `rankloop fit` stored, or a model, which may come from another program.",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="opensearch, elasticsearch, solr, vespa, onnx, lightgbm or xgboost; with options: "
            "opensearch(format=ranklib), vespa(format=onnx).",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help=r"The file to write the model to. \[default: NAME, with the format's ending]"
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help=r"Name of the model and its feature set in the engine. \[default: that of POLICY]",
            show_default=False,
        ),
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
        result = {"format": exported.format, "files": [str(path) for path in paths], "notes": exported.notes}
        typer.echo(json.dumps(result, indent=2))
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
