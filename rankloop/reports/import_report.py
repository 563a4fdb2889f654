"""The report on an import: what was read, what was wrong with it, and what is in the log now."""

from __future__ import annotations

from collections.abc import Iterable

from rankloop.logs.importers.report import ImportReport
from rankloop.logs.problems import Problem
from rankloop.reports.document import Block, Column, Document, Examples, Facts, Section, Table, Text, warnings


def import_document(report: ImportReport) -> Document:
    """The report on an import."""
    return Document(
        f"import of {report.log.name}",
        f"Import of {report.log.name}",
        (
            Text(_in_short(report)),
            *_losses(report),
            *warnings(report.notes),
            Section("What was read", (_facts(report), _rows(report))),
            Section("What was wrong", problem_blocks("Problems of the source", report.problems)),
        ),
    )


def problem_blocks(caption: str, problems: Iterable[Problem]) -> tuple[Block, ...]:
    """A table of problems, and examples of each."""
    found = list(problems)
    if not found:
        return (Text(f"{caption}: none found.", brief=True),)
    left_out = any(problem.left_out for problem in found)
    columns: list[str | Column] = ["problem", "count", *(["left out"] if left_out else [])]
    columns.append(Column("what it is: what was done", words=True))
    rows = [
        [
            problem.name,
            f"{problem.count:,}",
            *([f"{problem.left_out:,}"] if left_out else []),
            f"{problem.what}: {problem.done}",
        ]
        for problem in found
    ]
    explained = "; left out are rows, lines or clicks that are not in the log" if left_out else ""
    return (
        Table.build(f"{caption}{explained}", columns, rows, brief=True),
        *(
            Examples(problem.name, problem.examples, brief=True)
            for problem in found
            if problem.examples
        ),
    )  # fmt: skip


def _in_short(report: ImportReport) -> str:
    left_out = sum(problem.left_out for problem in report.problems)
    aside = sum(report.aside.values())
    return (
        f"The log has {report.impressions:,} impressions with {report.clicks:,} clicks. {left_out:,} rows, "
        f"lines or clicks were left out, and {aside:,} records of other kinds were set aside; each is "
        "counted below."
    )


def _losses(report: ImportReport) -> tuple[Block, ...]:
    if not report.losses:
        return ()
    rows = [[loss.what, f"{loss.lost:,}", f"{loss.total:,}", f"{loss.share:.1%}"] for loss in report.losses]
    return (Table.build("Left out of the log, by kind", ["", "left out", "of", "share"], rows, brief=True),)


def _facts(report: ImportReport) -> Facts:
    base = report.position_base
    facts = [
        ("log", str(report.log)),
        ("read from", ", ".join(report.sources)),
        ("positions", "counted by the import, from 1" if base is None else f"in the source, from {base}"),
    ]
    if report.imports > 1:
        facts.append(
            ("imports", f"{report.imports:,}; what was read and what was wrong is that of all of them")
        )
    if report.randomised:
        facts.append(("randomised policies", ", ".join(report.randomised)))
    return Facts(tuple(facts))


def _rows(report: ImportReport) -> Table:
    read = report.read
    rows = [
        ["impressions", "", f"{report.impressions:,}"],
        ["documents shown", f"{read['impressions']:,}", f"{report.rows:,}"],
        ["clicks", f"{read['clicks']:,}" if read["clicks"] else "", f"{report.clicks:,}"],
        ["candidates with a score", f"{read['scores']:,}", f"{report.candidates:,}"],
        ["documents with features", f"{report.features:,}", f"{report.features:,}"],
        *([f"set aside: {kind}", f"{count:,}", ""] for kind, count in report.aside.items()),
    ]
    caption = "Rows; a score that is repeated with every search is one candidate"
    return Table.build(caption, ["", "read", "in the log"], rows, brief=True)
