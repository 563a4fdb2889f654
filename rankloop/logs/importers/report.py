"""The report of an import."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from rankloop.logs.importers.losses import Loss
from rankloop.logs.problems import Problem, add_problems
from rankloop.notebook import NotebookResult
from rankloop.storage.plain import from_plain, plain_fields

# Problems that stay in the log: an import that adds to it counts those of all rows again.
RECOUNTED = ("missing_positions", "missing_times", "missing_features")


@dataclass(frozen=True)
class ImportReport(NotebookResult):
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
        losses: how much of the source is not in the log, the largest share first.
        hints: sentences on how the source was understood, and on what looks wrong with it.
        randomised: the policies that were declared to show documents in random order.
        imports: how many imports the log consists of; the numbers of records are those of all of them.
    """

    document: ClassVar[str] = "rankloop.reports.import_report:import_document"
    plain_properties: ClassVar[tuple[str, ...]] = ("notes",)
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
    losses: tuple[Loss, ...] = ()
    hints: tuple[str, ...] = ()
    randomised: tuple[str, ...] = ()
    imports: int = 1

    @property
    def notes(self) -> tuple[str, ...]:
        """What affects every result computed from the log."""
        if self.candidates:
            return self.hints
        return (
            *self.hints,
            "The log has no candidates: exposures will be estimated from how often each document was shown "
            "at each rank.",
        )

    def after(self, earlier: ImportReport | None) -> ImportReport:
        """The report of a log to which this import was added.

        Sources, records and problems are those of all imports; losses and hints are those of the last one.
        """
        if earlier is None:
            return self
        before = [problem for problem in earlier.problems if problem.name not in RECOUNTED]
        return replace(
            self,
            sources=(*earlier.sources, *self.sources),
            read={name: rows + earlier.read.get(name, 0) for name, rows in self.read.items()},
            problems=add_problems(before, self.problems),
            aside=dict(Counter(earlier.aside) + Counter(self.aside)),
            imports=earlier.imports + 1,
        )

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain values for JSON."""
        return plain_fields(self)

    @classmethod
    def read_file(cls, path: Path) -> Self | None:
        """Read the report that an import left in a log; None if there is none."""
        if not path.is_file():
            return None
        try:
            return from_plain(cls, json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            # A file of the same name that another program wrote.
            return None
