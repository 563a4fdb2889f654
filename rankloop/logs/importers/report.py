"""The report of an import: what it read, how much of that it leaves out, and what looks wrong with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from rankloop.errors import DataError
from rankloop.logs.problems import Problem, ProblemCounter, add_problems
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
        normalise: what was grouped by case, white space and forms of Unicode: ``("query",)``, or nothing.
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
    normalise: tuple[str, ...] = ()
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


# Problems that cost rows of shown documents, and clicks. Repeated rows and clicks are counted once, and a
# search without results shows nothing: nothing is lost there.
ROW_PROBLEMS = (
    "unknown_queries",
    "bad_positions",
    "mixed_impressions",
    "repeated_positions",
    "repeated_documents",
    "conflicting_impressions",
)
CLICK_PROBLEMS = ("clicks_without_impression", "clicks_on_left_out", "clicks_not_shown")
COSTLY = ("broken_lines", *ROW_PROBLEMS, *CLICK_PROBLEMS)


@dataclass(frozen=True)
class Loss:
    """How many records of a kind are not in the log.

    Attributes:
        what: the kind of record.
        lost: the number of records that are not in the log.
        total: the number of records in the source.
    """

    plain_properties: ClassVar[tuple[str, ...]] = ("share",)
    what: str
    lost: int
    total: int

    @property
    def share(self) -> float:
        """The share of records that are not in the log."""
        return self.lost / self.total if self.total else 0.0

    def __str__(self) -> str:
        return f"{self.lost:,} of {self.total:,} {self.what} ({self.share:.1%})"


class ImportLossError(DataError):
    """More of the source would be left out than allowed; no log was written.

    Attributes:
        report: what the import found.
    """

    def __init__(self, message: str, report: ImportReport) -> None:
        super().__init__(message)
        self.report = report


def measure_losses(
    found: ProblemCounter, rows: Mapping[str, int], records: Mapping[str, int], broken: Mapping[str, int]
) -> tuple[Loss, ...]:
    """Measure what is not in the log, kind by kind; kinds without a loss are not listed.

    Args:
        found: the problems.
        rows: number of rows of impressions and of clicks that were read.
        records: number of records by kind.
        broken: number of them that are broken.
    """
    # Rows whose query is unknown, and clicks that name no impression, are not staged.
    unstaged = found.left_out("unknown_queries")
    shown = found.left_out(*ROW_PROBLEMS)
    clicks = found.left_out(*CLICK_PROBLEMS)
    losses = [
        *(Loss(kind, broken.get(kind, 0), total) for kind, total in records.items()),
        Loss("rows of shown documents", shown, rows["impressions"] + unstaged),
        Loss("clicks", clicks, max(rows["clicks"], clicks)),
    ]
    return tuple(sorted((loss for loss in losses if loss.lost), key=lambda loss: -loss.share))


def check_losses(report: ImportReport, limit: float, diagnoses: Iterable[str] = ()) -> None:
    """Refuse an import that loses more than a share of any kind of record.

    Args:
        report: what the import found.
        limit: the share that may be lost.
        diagnoses: sentences on what is wrong with the source.
    """
    worst = next((loss for loss in report.losses if loss.share > limit), None)
    if worst is None:
        return
    costly = [problem for problem in report.problems if problem.name in COSTLY]
    costly.sort(key=lambda problem: -problem.left_out)
    reasons = [f"{problem.count:,} {problem.what}{_such_as(problem)}" for problem in costly]
    raise ImportLossError(
        f"{', '.join(report.sources)}: {worst} would be left out, which is more than max_loss allows "
        f"({limit:.0%}): {'; '.join(reasons)}. {''.join(f'{text} ' for text in diagnoses)}"
        f"No log was written: correct the source, or raise the limit if the rest is what you want "
        f"(--max-loss {_above(worst.share)})",
        report,
    )


def _such_as(problem: Problem) -> str:
    """The first example of what is lost."""
    return f" (such as {problem.examples[0]})" if problem.examples else ""


def _above(share: float) -> str:
    """A round limit that allows a share."""
    return f"{min(1.0, int(share * 100 + 1) / 100):g}"


# The share of impressions with a problem from which on it is no accident.
SUSPICIOUS = 0.05
# The share of clicked rows from which on nothing else was logged, and the number of rows that it takes.
NEARLY_ALL = 0.95
ENOUGH = 20
NOT_UTF8 = "not UTF-8"


def describe_ids(found: ProblemCounter, impressions: int) -> tuple[str, ...]:
    """Say what ids that hold several searches look like, and what to do about it.

    Args:
        found: the problems.
        impressions: the number of impressions in the source.
    """
    mixed, repeated = found.count("mixed_impressions"), found.count("repeated_positions")
    hints = []
    if mixed > SUSPICIOUS * impressions:
        hints.append(
            f"{mixed:,} of {impressions:,} impression ids hold several queries or policies: this looks like "
            f"a session id. Make the impression id of several columns, as in --impression "
            f"session_id,query,timestamp."
        )
    if repeated > SUSPICIOUS * impressions:
        hints.append(
            f"{repeated:,} of {impressions:,} impression ids show two documents at one position: this looks "
            f"like an id that several searches or pages share. Add what tells them apart, such as the time "
            f"or the page, as in --impression session_id,query,timestamp."
        )
    conflicts = found.count("conflicting_impressions")
    if conflicts > SUSPICIOUS * impressions:
        hints.append(
            f"{conflicts:,} impression ids are in the log already with other content: every file seems to "
            f"count its ids from the beginning. Add what tells the files apart, such as the day, as in "
            f"--impression day,impression_id."
        )
    return tuple(hints)


def describe_source(found: ProblemCounter, rows: int, clicks: int) -> tuple[str, ...]:
    """Say what text in another encoding, and rows that are all clicked, look like.

    Args:
        found: the problems.
        rows: the number of rows of the log.
        clicks: the number of them that are clicked.
    """
    hints = []
    examples = [example for problem in found.problems() for example in problem.examples]
    if any(example.endswith(NOT_UTF8) for example in examples):
        hints.append(
            "Some text is not UTF-8. If it was written on Windows, convert it: iconv -f WINDOWS-1252 -t "
            "UTF-8 FILE > CONVERTED."
        )
    if rows >= ENOUGH and clicks >= NEARLY_ALL * rows:
        hints.append(
            f"{clicks:,} of {rows:,} rows are clicked: only clicks seem to have been logged, and nothing can "
            f"be learned without what was shown and not clicked. If there is a table of that, import it, and "
            f"this one as --clicks TABLE."
        )
    return tuple(hints)
