"""Runs that are interrupted."""

from __future__ import annotations

from rankloop.loop import Event
from rankloop.progress import Progress, Update


class InterruptedRunError(Exception):
    """The run was interrupted by the test."""


def interrupt_after(events: int) -> Progress:
    """Let a run have this many events, and interrupt it; what is trained before them does not count."""
    left = events

    def interrupt(update: Update) -> None:
        nonlocal left
        left -= isinstance(update.detail, Event)
        if left == 0:
            raise InterruptedRunError

    return interrupt
