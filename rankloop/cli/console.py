"""Output to the terminal: progress, documents, and a notice when kernels are compiled.

Text that comes from data is printed with its control characters spelled out.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich import progress as rich_progress
from rich.console import Console

from rankloop import extras
from rankloop.progress import Progress, Update
from rankloop.reports import terminal
from rankloop.reports.document import Document
from rankloop.storage.plain import to_json

# Results go to standard output and can be piped; everything else goes to standard error.
out = Console()
err = Console(stderr=True)

# Without a terminal, lines are at least this many seconds apart: a log stays short, and still shows that
# something is happening.
SECONDS_BETWEEN_LINES = 10.0

# What commands say that are stopped.
NOTHING_WRITTEN = "nothing was written"
RESUMABLE = "run the same command again to resume"


@contextmanager
def announce_compilation() -> Iterator[None]:
    """Print a notice when a kernel has to be compiled: it happens once, and takes a while."""
    from numba.core import event

    class Listener(event.Listener):
        def __init__(self) -> None:
            self.depth = 0
            self.announced = False

        def on_start(self, _event: Any) -> None:
            # Kernels compile the kernels they call: only the outermost is worth a line.
            if self.depth == 0 and not self.announced:
                err.print("[dim]compiling kernels for this machine; this happens once, within a minute …[/]")
                self.announced = True
            self.depth += 1

        def on_end(self, _event: Any) -> None:
            self.depth -= 1

    with event.install_listener("numba:compile", Listener()):
        yield


class _Bars:
    """One bar per task, for terminals."""

    def __init__(self, bars: rich_progress.Progress) -> None:
        self._bars = bars
        self._ids: dict[str, rich_progress.TaskID] = {}
        self._lock = threading.Lock()

    def __call__(self, update: Update) -> None:
        with self._lock:
            if update.task not in self._ids:
                name = terminal.printable(update.task)
                self._ids[update.task] = self._bars.add_task(name, total=None, note="")
            task = self._ids[update.task]
            if update.share is not None:
                self._bars.update(task, total=1.0, completed=update.share)
            if update.note:
                self._bars.update(task, note=terminal.printable(update.note))

    def finish(self) -> None:
        with self._lock:
            for task in self._ids.values():
                self._bars.update(task, total=1.0, completed=1.0)


class _Lines:
    """A line from time to time, for logs and pipes."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._last = self._begun
        self._lock = threading.Lock()

    def __call__(self, update: Update) -> None:
        with self._lock:
            now = time.monotonic()
            if update.note and (update.milestone or now - self._last >= SECONDS_BETWEEN_LINES):
                self._last = now
                print_err(f"{update.task}: {update.note} ({now - self._begun:.0f} s)")


@contextmanager
def working(if_stopped: str = NOTHING_WRITTEN) -> Iterator[Progress]:
    """What most commands do their work in: progress, and a notice if kernels are compiled.

    Args:
        if_stopped: what is there if the command is stopped, and how to go on.
    """
    with telling(if_stopped), announce_compilation(), progress() as shown:
        yield shown


@contextmanager
def telling(if_stopped: str) -> Iterator[None]:
    """If the command is stopped meanwhile, print what is there then, and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        print_err(f"stopped; {if_stopped}")
        raise


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress on standard error: bars with the time left in a terminal, lines elsewhere.

    What it yields can be called from several threads.
    """
    if not sys.stderr.isatty():
        yield _Lines()
        return
    # Together they fit the 80 columns of a usual terminal.
    columns = (
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(bar_width=10),
        rich_progress.TextColumn("{task.fields[note]}", markup=False),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(elapsed_when_finished=False),
    )
    with rich_progress.Progress(*columns, console=err) as bars:
        shown = _Bars(bars)
        yield shown
        shown.finish()


def print_document(document: Document) -> None:
    """Print what a document says in brief."""
    terminal.print_document(document, out)


def present(
    value: object,
    document: Document,
    *,
    as_json: bool,
    wrote: Iterable[object] = (),
    page: object | None = None,
) -> None:
    """Print a result: as JSON for programs, or what its document says in brief, and what was written.

    Args:
        value: the result.
        document: its document.
        as_json: which of the two.
        wrote: files that were written.
        page: the page that was written; None if none was.
    """
    if as_json:
        print_json(value)
        return
    print_document(document)
    for path in wrote:
        print_out(f"wrote {path}")
    if page is not None:
        announce_page(page)


def print_json(value: object) -> None:
    """Print a result for programs."""
    typer.echo(to_json(value))


def print_out(line: str) -> None:
    """Print a line that is not wrapped, such as one with a path."""
    terminal.print_line(line, out)


def announce_page(path: object) -> None:
    """Print that a page was written, and what to install if its figures are missing."""
    print_out(f"wrote {path}")
    if not extras.is_installed("reports"):
        print_err('the page has no figures: they need matplotlib; pip install "rankloop[reports]"')


def print_err(line: str) -> None:
    """Print such a line to standard error."""
    terminal.print_line(line, err)
