"""What the terminal shows: progress, tables, and the word that kernels are being compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

# Results go to standard output and can be piped; everything else goes to standard error.
out = Console()
err = Console(stderr=True)


@contextmanager
def saying_what_compiles() -> Iterator[None]:
    """Say so when a kernel has to be compiled: it happens once, and takes a while."""
    from numba.core import event

    class Listener(event.Listener):
        def __init__(self) -> None:
            self.depth = 0
            self.said = False

        def on_start(self, _event: Any) -> None:
            # Kernels compile the kernels they call: only the outermost is worth a line.
            if self.depth == 0 and not self.said:
                err.print(
                    "[dim]compiling kernels for this machine; it is done once and takes up to a minute …[/]"
                )
                self.said = True
            self.depth += 1

        def on_end(self, _event: Any) -> None:
            self.depth -= 1

    with event.install_listener("numba:compile", Listener()):
        yield


@contextmanager
def progress() -> Iterator[Progress]:
    """A progress display on standard error; silent where that is not a terminal."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=err,
        disable=not sys.stderr.isatty(),
    ) as bar:
        yield bar


def say(line: str) -> None:
    """Print a line as it is: a path may hold what rich would take for markup, and must not be wrapped."""
    out.print(line, soft_wrap=True, highlight=False, markup=False)


def table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    """A table: the first column is text, the others are numbers."""
    result = Table(title=Text(title), title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        result.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        result.add_row(*map(Text, row))
    return result
