"""The command line, run inside the tests."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """What a command left behind.

    Attributes:
        code: its exit code.
        out: standard output.
        err: standard error.
    """

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


def plain(text: str) -> str:
    """Without colours, which some environments ask for even where there is no terminal."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
