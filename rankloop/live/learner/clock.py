"""Time for the learner: clocks of machines jump, and nothing may be lost by that.

An impression is sealed when its window has passed; a click that comes later is left out. If that were decided
by comparing the time of the impression with the time of day, a clock that jumps forward would seal pages that
users are still looking at, and one that was set back would leave pages unsealed for as long.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

# Marks per window at most. Each becomes a part of the log, of which many small ones are slow to read; and a
# window ends this much later than it could, relative to its length.
MARKS = 20


class SteadyClock:
    """Tells the time of day as it was when this process started, plus what has passed since then.

    Example:
        >>> clock = SteadyClock()
        >>> first = clock.now()
        >>> first <= clock.now()
        True
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """The time in seconds since 1970."""
        return self._offset + time.monotonic()


class Closed(NamedTuple):
    """Impressions whose window has passed.

    Attributes:
        through: all up to this number.
        known: up to this number, also those that say they are from before ``before``.
        before: in seconds since 1970.
    """

    through: int
    known: int
    before: float


class Windows:
    """Knows which impressions are older than a window, by when this process first saw them.

    The times that impressions have themselves count only for those that were there when the process started.

    Args:
        seconds: the window.
        now: the time of day, by a clock that does not jump.

    Example:
        >>> moment = [100.0]
        >>> windows = Windows(60.0, lambda: moment[0])
        >>> windows.look(last=7)  # seven are there; nothing is known but what they say
        Closed(through=0, known=7, before=40.0)
        >>> moment[0] = 130.0
        >>> windows.look(last=9)
        Closed(through=0, known=7, before=70.0)
        >>> moment[0] = 160.0
        >>> windows.look(last=12)  # the seven were seen sixty seconds ago
        Closed(through=7, known=7, before=100.0)
    """

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds, self._now = seconds, now
        self._known: int | None = None
        self._through = 0
        # When a mark was first made and last moved, and the number of the last impression that it covers.
        self._marks: deque[tuple[float, float, int]] = deque()

    def look(self, last: int) -> Closed:
        """What is closed now, where ``last`` is the number of the last impression."""
        now = self._now()
        if self._known is None:
            self._known = last
        made = now
        if self._marks and now - self._marks[-1][0] < self._seconds / MARKS:
            made = self._marks.pop()[0]
        self._marks.append((made, now, last))
        while self._marks and now - self._marks[0][1] >= self._seconds:
            self._through = self._marks.popleft()[2]
        return Closed(self._through, self._known, now - self._seconds)
