"""Runs that are cut."""

from __future__ import annotations

from collections.abc import Callable


class CutError(Exception):
    """Somebody pulled the plug."""


def cut_after(events: int) -> Callable[..., None]:
    """Watch a run until it has had this many events, and cut it."""
    left = events

    def cut(*_event: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise CutError

    return cut
