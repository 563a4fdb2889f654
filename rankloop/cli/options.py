"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

# The data set that every command takes where it is given none.
DATA = "synthetic(queries=2000, features=100)"

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A LETOR or SVMlight file or folder, or synthetic(shape=…, queries=…, features=…, seed=…).",
    ),
]
FoldOption = Annotated[int, typer.Option(help="Which fold, where the folder has several.", min=1)]
SeedOption = Annotated[int, typer.Option(help="Of everything random: same seed, same result.", min=0)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for other programs.")]
