"""What the terminal shows: progress, tables, and the word that kernels are being compiled."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

# Results go to standard output and can be piped; everything else goes to standard error.
out = Console()
err = Console(stderr=True)

# Where there is no terminal, a line at least this many seconds after the last: a log stays short, and nobody
# has to wonder whether anything is happening.
SECONDS_BETWEEN_LINES = 10.0


@contextmanager
def announce_compilation() -> Iterator[None]:
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


class Tasks(Protocol):
    """What is under way."""

    def update(self, name: str, note: str | None, *, share: float | None = None, told: bool = False) -> None:
        """Say how far a task has come; a name that is new is a new task.

        Args:
            name: which task.
            note: where it stands; None where there is nothing new to be said.
            share: how much of it is done, from 0 to 1; None where nobody knows.
            told: whether this is worth a line where there is no terminal.
        """
        ...


class _Bars:
    """One bar a task, for terminals."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._ids: dict[str, Any] = {}

    def update(
        self,
        name: str,
        note: str | None,
        *,
        share: float | None = None,
        told: bool = False,  # noqa: ARG002
    ) -> None:
        if name not in self._ids:
            self._ids[name] = self._bars.add_task(name, total=None if share is None else 1.0, note="")
        task = self._ids[name]
        self._bars.update(task, completed=share)
        if note is not None:
            self._bars.update(task, note=note)

    def finish(self) -> None:
        for task in self._ids.values():
            self._bars.update(task, total=1.0, completed=1.0)


class _Lines:
    """A line now and then, for logs and pipes."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._last = self._begun

    def update(
        self,
        name: str,
        note: str | None,
        *,
        share: float | None = None,  # noqa: ARG002
        told: bool = False,
    ) -> None:
        now = time.monotonic()
        if note is not None and (told or now - self._last >= SECONDS_BETWEEN_LINES):
            self._last = now
            print_err(f"{name}: {note} ({now - self._begun:.0f} s)")


@contextmanager
def progress() -> Iterator[Tasks]:
    """Progress on standard error: bars in a terminal, lines elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines()
        return
    # Together no wider than the 80 columns of a usual terminal.
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=10), TextColumn("{task.fields[note]}"))
    with Progress(*columns, TimeElapsedColumn(), console=err) as bars:
        tasks = _Bars(bars)
        yield tasks
        tasks.finish()


def print_out(line: str) -> None:
    """Print a line as it is: a path may hold what rich would take for markup, and must not be wrapped."""
    out.print(line, soft_wrap=True, highlight=False, markup=False)


def print_err(line: str) -> None:
    """Print a line to standard error, as it is."""
    err.print(line, soft_wrap=True, highlight=False, markup=False)


def table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    """A table: the first column is text, the others are numbers."""
    result = Table(title=Text(title), title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        result.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        result.add_row(*map(Text, row))
    return result
