"""When things are due: the end of a window, and the next time to learn. Clocks of machines jump.

An impression is sealed when its window has passed; a click that comes later is left out. If that were decided
by comparing the time of the impression with the time of day, a clock that jumps forward would seal pages that
users are still looking at, and one that was set back would leave pages unsealed for as long.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from rankloop.live.learner.settings import LearnerSettings

HOUR = 3600.0
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


@dataclass(frozen=True)
class LastLearned:
    """What the log was like when the learner learned last.

    Attributes:
        sealed: impressions that were ever sealed, also those that retention has deleted.
        held: impressions that were in the log.
        at: when, in seconds since 1970.
    """

    sealed: int
    held: int
    at: float

    def is_past(self, sealed: int, now: float, settings: LearnerSettings) -> bool:
        """Whether it is time to learn again.

        What counts is what is new: retention deletes old impressions, so the log itself may never double.

        Example:
            >>> last = LastLearned(sealed=5_000, held=1_000, at=0.0)
            >>> [last.is_past(sealed, 0.0, LearnerSettings()) for sealed in (5_999, 6_000)]
            [False, True]
            >>> last.is_past(5_001, 7_200.0, LearnerSettings(learn_hours=2.0))
            True
        """
        new = sealed - self.sealed
        # A clock that was set back must not stop the schedule.
        late = settings.learn_hours is not None and abs(now - self.at) >= settings.learn_hours * HOUR
        return new >= (settings.growth - 1.0) * self.held or (late and new > 0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, from which `from_note` makes it again."""
        return asdict(self)

    @classmethod
    def from_note(cls, note: Mapping[str, Any] | int | None) -> LastLearned | None:
        """What `to_dict` gave; None if nothing was learned yet. Earlier versions noted the impressions."""
        if not note:
            return None
        return cls(note, note, 0.0) if isinstance(note, int) else cls(**note)
