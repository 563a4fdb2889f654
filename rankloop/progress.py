"""Progress of long-running work: one protocol for every function and every caller.

A function that takes a while has an argument ``progress: Progress | None = None`` and calls `report`. Front
ends decide what a person sees: bars in a terminal, lines in a log, nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Update:
    """The progress of one task.

    Attributes:
        task: the name of the task; a name that has not been seen before is a new task.
        share: how much of it is done, from 0 to 1; None if that is not known.
        note: the current state in a few words; empty if there is nothing new.
        milestone: whether to print a separate line for this where there is no terminal.
        detail: the value behind the update, such as an `Epoch` of training or an event of the loop.
    """

    task: str
    share: float | None = None
    note: str = ""
    milestone: bool = False
    detail: object = None


# Called with every update; work on several threads may call it from any of them.
Progress = Callable[[Update], None]


def report(
    progress: Progress | None,
    task: str,
    share: float | None = None,
    note: str = "",
    *,
    milestone: bool = False,
    detail: object = None,
) -> None:
    """Report an update, if anybody listens.

    Example:
        >>> updates = []
        >>> report(updates.append, "counting", 0.5, "5 of 10 files")
        >>> updates
        [Update(task='counting', share=0.5, note='5 of 10 files', milestone=False, detail=None)]
        >>> report(None, "counting", 1.0)  # nobody listens
    """
    if progress is not None:
        progress(Update(task, share, note, milestone, detail))


def rename_task(progress: Progress | None, task: str) -> Progress | None:
    """A progress that reports everything under another task name; None if nobody listens.

    Example:
        >>> updates = []
        >>> report(rename_task(updates.append, "oracle"), "training", 0.5)
        >>> updates[0].task
        'oracle'
    """
    if progress is None:
        return None
    return lambda update: progress(replace(update, task=task))
