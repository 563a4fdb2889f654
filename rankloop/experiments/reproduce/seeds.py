"""Seeds as people write them: ``0-4,7``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

from rankloop.errors import RankloopError

# More runs than anybody makes; it catches mistyped ranges.
MOST = 10_000


def read_seeds(text: str) -> tuple[int, ...]:
    """The seeds of a text, each once, ascending.

    >>> read_seeds("3-5, 9"), read_seeds("7,3")
    ((3, 4, 5, 9), (3, 7))
    """
    seeds: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first, last = (0, -1) if found is None else (int(found[1]), int(found[2] or found[1]))
        if not first <= last < MOST:
            raise RankloopError(f"seeds are written as 3-5 or 3,7, each below {MOST:,}, got {text!r}")
        seeds.update(range(first, last + 1))
    return tuple(sorted(seeds))


def spell_seeds(seeds: Iterable[int]) -> str:
    """The shortest text of the seeds.

    >>> spell_seeds([0, 1, 2, 5]), spell_seeds([3])
    ('0-2,5', '3')
    """
    runs = groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0])
    parts = [[seed for _, seed in run] for _, run in runs]
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
