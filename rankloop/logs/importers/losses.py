"""How much of the source an import leaves out, and the limit beyond which no log is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rankloop.errors import DataError
from rankloop.logs.problems import Problem, ProblemCounter

if TYPE_CHECKING:
    from rankloop.logs.importers.report import ImportReport

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
