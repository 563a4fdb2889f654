"""Caps on what one user's clicks can teach or prove.

A user who asks for thousands of pages and clicks what suits him, or a program that does, would decide what
everybody sees. So of the pages of a user only some count: they are drawn and stored like all others, and are
left out of the log and of all evidence. What counts is decided before the page is drawn, by the number of
pages alone, so the pages that are left are still a fair sample.
"""

from __future__ import annotations

import math
import threading
import time

# The record of a page that does not count, and the entry of the context that names its user.
UNCOUNTED, USER = "uncounted", "user"
# Pages are forgotten at this pace, in seconds.
MEMORY = 86_400.0
# Users who came longest ago are forgotten.
MOST_USERS = 50_000


class UserCap:
    """Decides which pages count: of each user a share of all pages of a day, and always a few.

    Args:
        share: the largest share of all pages that one user's pages can be.
        least: as many pages of a user count per day in any case.

    Example:
        >>> cap = UserCap(0.01, 3)
        >>> [cap.counts("robot", now=0.0) for _ in range(5)]
        [True, True, True, False, False]
        >>> sum(cap.counts(f"user {number}", now=1.0) for number in range(1_000))
        1000
        >>> [cap.counts("robot", now=2.0) for _ in range(10)].count(True)  # 1 % of about 1,000 pages
        7
    """

    def __init__(self, share: float, least: int) -> None:
        self._share, self._least = share, least
        self._users: dict[str, tuple[float, float]] = {}
        self._all, self._since = 0.0, -math.inf
        self._lock = threading.Lock()

    def counts(self, user: str, now: float | None = None) -> bool:
        """Whether the next page of a user counts; pages without a user always do."""
        now = time.monotonic() if now is None else now
        with self._lock:
            self._all, self._since = _faded(self._all, self._since, now), now
            if not user:
                self._all += 1.0
                return True
            pages = _faded(*self._users.pop(user, (0.0, now)), now)
            counted = pages + 1.0 <= max(float(self._least), self._share * (self._all + 1.0))
            self._users[user] = (pages + counted, now)
            self._all += counted
            if len(self._users) > MOST_USERS:
                del self._users[next(iter(self._users))]
            return counted


def _faded(pages: float, since: float, now: float) -> float:
    return pages * math.exp(-max(now - since, 0.0) / MEMORY)
