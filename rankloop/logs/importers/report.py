"""The report of an import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rankloop.logs.problems import Problem


@dataclass(frozen=True)
class ImportReport:
    """What an import read, which problems it found, and what the log contains.

    Attributes:
        log: the folder of the log.
        sources: the files that were read.
        read: number of valid rows in the source: of shown documents, clicks and scores.
        impressions: number of impressions in the log.
        rows: number of rows of shown documents in the log.
        clicks: number of these rows that are clicked.
        candidates: number of rows of candidates; 0 if there is no such table.
        features: number of rows of features; 0 if there is no such table.
        position_base: the number of the first position in the source, 0 or 1; None if positions follow from
            the order of the source.
        problems: the problems that were found, and how they were handled.
        aside: number of records by kind that are not part of a log and were ignored.
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
        """Limitations of the log that affect every result computed from it."""
        if self.candidates:
            return ()
        return (
            "The log has no candidates: exposures will be estimated from how often each document was shown "
            "at each rank.",
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return {
            **self.__dict__,
            "log": str(self.log),
            "sources": list(self.sources),
            "read": dict(self.read),
            "problems": [problem.to_dict() for problem in self.problems],
            "aside": dict(self.aside),
            "notes": list(self.notes),
        }
