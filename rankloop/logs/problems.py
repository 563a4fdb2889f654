"""The problems that a log can have, and what an import does about each: they are counted and reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

# Enough to see what is wrong; the count says how often.
EXAMPLES = 3
KEPT = "kept"


class Kind(NamedTuple):
    """What is wrong, and what an import does about it."""

    what: str
    done: str


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "broken_lines": Kind("lines or rows that cannot be read", "left out"),
        "empty_impressions": Kind("impressions that show nothing", "left out"),
        "unknown_queries": Kind("rows shown for a query that is not in the source", "left out"),
        "bad_positions": Kind("rows with a position before the first", "left out"),
        "duplicate_rows": Kind(
            "rows that repeat the impression, position and document of another",
            "kept once, clicked if any of them is",
        ),
        "mixed_impressions": Kind("impressions with two queries or two policies", "left out"),
        "repeated_positions": Kind("impressions with two documents at one position", "left out"),
        "repeated_documents": Kind(
            "rows that show a document again, further down in its impression",
            "left out; the document keeps its highest position, clicked if any is",
        ),
        "conflicting_impressions": Kind(
            "impressions whose id is in the log already, with another query, policy or document",
            "left out; the log keeps what it has",
        ),
        "missing_positions": Kind("impressions whose positions are not 1, 2, 3 … without a gap", KEPT),
        "missing_times": Kind("impressions without a timestamp, in a log with timestamps", KEPT),
        "clock_jumps": Kind("impressions more than an hour earlier than the one before them", KEPT),
        "clicks_without_impression": Kind("clicks on impressions that do not exist", "left out"),
        "clicks_on_left_out": Kind("clicks on impressions that were left out", "left out"),
        "clicks_not_shown": Kind("clicks on documents that their impression does not show", "left out"),
        "repeated_clicks": Kind("clicks on a document that was clicked already", "counted once"),
        "early_clicks": Kind("clicks before their impression", KEPT),
        "disagreeing_positions": Kind(
            "clicks whose position is not that of their document", "kept at the document's position"
        ),
        "score_conflicts": Kind(
            "candidates with different scores under one policy", "the first score is kept"
        ),
        "missing_features": Kind("documents without features", "kept; models leave them out"),
    }
)


@dataclass(frozen=True)
class Problem:
    """A problem of a log.

    Attributes:
        name: one of `KINDS`.
        count: how often it occurs.
        what: what is wrong.
        done: what was done about it.
        left_out: the number of rows, lines or clicks that are not in the log because of it.
        examples: a few places where it occurs.
    """

    name: str
    count: int
    what: str
    done: str
    left_out: int = 0
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = f" (such as {'; '.join(self.examples)})" if self.examples else ""
        return f"{self.count:,} {self.what}: {self.done}{where}"


class ProblemCounter:
    """Collects problems.

    Example:
        >>> found = ProblemCounter()
        >>> found.add("broken_lines", "log.csv, line 7: no position")
        >>> print(*found.problems())
        1 lines or rows that cannot be read: left out (such as log.csv, line 7: no position)
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._left_out: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    def add(self, name: str, *examples: str, count: int = 1, left_out: int | None = None) -> None:
        """Count a problem; ``left_out`` is the count itself by default."""
        if not count:
            return
        self._counts[name] = self._counts.get(name, 0) + count
        self._left_out[name] = self._left_out.get(name, 0) + (count if left_out is None else left_out)
        kept = self._examples.setdefault(name, [])
        kept.extend(examples[: EXAMPLES - len(kept)])

    def count(self, name: str) -> int:
        """How often a problem was found."""
        return self._counts.get(name, 0)

    def left_out(self, *names: str) -> int:
        """How many rows, lines or clicks are not in the log because of these problems."""
        return sum(self._left_out.get(name, 0) for name in names)

    def problems(self) -> tuple[Problem, ...]:
        """All problems that were found, in the order of `KINDS`."""
        return tuple(
            Problem(
                name,
                self._counts[name],
                kind.what,
                kind.done,
                self._left_out[name],
                tuple(self._examples[name]),
            )
            for name, kind in KINDS.items()
            if name in self._counts
        )


def add_problems(*reports: Iterable[Problem]) -> tuple[Problem, ...]:
    """Add the problems of several imports by name."""
    found = ProblemCounter()
    for problems in reports:
        for problem in problems:
            found.add(problem.name, *problem.examples, count=problem.count, left_out=problem.left_out)
    return found.problems()
