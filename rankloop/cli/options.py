"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# The data set that every command takes where it is given none.
DATA = "synthetic(queries=2000, features=100)"

ENGINE = "Engine"

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A LETOR or SVMlight file or folder, "
        "or synthetic(shape=…, queries=…, features=…, noise=…, seed=…).",
    ),
]
FoldOption = Annotated[int, typer.Option(help="Which fold to use, if the folder has several.", min=1)]
SeedOption = Annotated[int, typer.Option(help="Random seed.", min=0)]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="The folder of a log.")]
PageOption = Annotated[Path | None, typer.Option("--report", help="The HTML report to write.")]
EngineOption = Annotated[
    str, typer.Option(help="The engine that counts the log: duckdb or spark.", rich_help_panel=ENGINE)
]
MasterOption = Annotated[
    str | None,
    typer.Option(help="Where Spark runs, such as 'local[4]' or spark://host:7077.", rich_help_panel=ENGINE),
]
