"""Programs of this folder as commands."""

from __future__ import annotations

import sys
from collections.abc import Callable

from rankloop.errors import RankloopError


def run(main: Callable[[], None]) -> None:
    """Run a program; bad input ends it with a message that says what is wrong, not with a traceback."""
    try:
        main()
    except RankloopError as error:
        sys.exit(f"error: {error}")
