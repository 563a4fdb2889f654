"""Progress of the library, shown in the terminal."""

from __future__ import annotations

from rankloop.cli.console import Tasks
from rankloop.progress import Progress, Update


def show_on(tasks: Tasks) -> Progress:
    """Show updates as tasks of the terminal."""

    def show(update: Update) -> None:
        tasks.update(update.task, update.note or None, share=update.share, told=update.milestone)

    return show
