"""What an import did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankloop.logs.problems import Problem


@dataclass(frozen=True)
class ImportReport:
    """What was read, what was found wrong with it, and what is in the log now.

    Attributes:
        log: the folder of the log.
        sources: the files that were read.
        read: how many rows of shown documents, clicks and scores could be read.
        impressions: how many impressions are in the log.
        rows: how many rows of shown documents.
        clicks: how many of them are clicked.
        candidates: how many rows of candidates; 0: there is no such table.
        features: how many rows of features; 0: there is no such table.
        position_base: the number of the first position in the source, 0 or 1; None where positions were
            counted.
        problems: what was wrong, and what was done about it.
        aside: records of other kinds, which have no place in a log, by kind.
    """

    log: Path
    sources: tuple[str, ...]
    read: Mapping[str, int]
    impressions: int
    rows: int
    clicks: int
    candidates: int
    features: int
    position_base: int | None
    problems: tuple[Problem, ...]
    aside: Mapping[str, int]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before anything is computed from the log."""
        if self.candidates:
            return ()
        return (
            "The log has no candidates: exposures will be estimated from how often each document was shown "
            "at each rank.",
        )

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            **self.__dict__,
            "log": str(self.log),
            "sources": list(self.sources),
            "read": dict(self.read),
            "problems": [problem.to_dict() for problem in self.problems],
            "aside": dict(self.aside),
            "notes": list(self.notes),
        }
