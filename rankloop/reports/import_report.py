"""What an import did, as a page: what was read, what was wrong with it, and what is in the log now."""

from __future__ import annotations

from collections.abc import Iterable

from rankloop.logs.importers.report import ImportReport
from rankloop.logs.problems import Problem
from rankloop.reports.components import page
from rankloop.reports.html import Html, element, joined, listing, table


def import_page(report: ImportReport) -> str:
    """The page: the same report gives the same page, byte for byte."""
    body = joined(
        element("h1", f"Import of {report.log.name}"),
        element("p", _in_short(report)),
        *(element("p", note, class_="warning") for note in report.notes),
        _contents(report),
        element("h2", "What was wrong"),
        *problem_parts(report.problems),
    )
    return page(f"rankloop: import of {report.log.name}", body)


def problem_parts(problems: Iterable[Problem]) -> list[Html]:
    """A table of problems, and examples of each."""
    found = list(problems)
    if not found:
        return [element("p", "Nothing that is looked for.")]
    rows = [[problem.name, f"{problem.count:,}", f"{problem.left_out:,}"] for problem in found]
    caption, head = (
        "Left out: rows, lines or clicks that are not in the log",
        ["problem", "count", "left out"],
    )
    if not any(problem.left_out for problem in found):
        caption, head, rows = "Problems", head[:2], [row[:2] for row in rows]
    parts = [table(caption, head, rows)]
    for problem in found:
        examples = element("ul", *(element("li", element("code", where)) for where in problem.examples))
        parts.append(
            joined(
                element("h3", problem.name),
                element("p", f"{problem.count:,} {problem.what}: {problem.done}."),
                examples if problem.examples else "",
            )
        )
    return parts


def _in_short(report: ImportReport) -> str:
    left_out = sum(problem.left_out for problem in report.problems)
    aside = sum(report.aside.values())
    return (
        f"{report.impressions:,} impressions with {report.clicks:,} clicks are in the log. Left out are "
        f"{left_out:,} rows, lines or clicks, each counted below; set aside {aside:,} records of other kinds."
    )


def _contents(report: ImportReport) -> Html:
    base = report.position_base
    facts: list[tuple[object, object]] = [
        ("log", report.log),
        ("read from", ", ".join(report.sources)),
        ("positions", "counted by the import, from 1" if base is None else f"in the source, from {base}"),
        *((f"set aside: {kind}", f"{count:,}") for kind, count in report.aside.items()),
    ]
    read = report.read
    rows = [
        ["documents shown", f"{read['impressions']:,}", f"{report.rows:,}"],
        ["clicks", f"{read['clicks']:,}" if read["clicks"] else "in the rows", f"{report.clicks:,}"],
        ["candidates with a score", f"{read['scores']:,}", f"{report.candidates:,}"],
        ["documents with features", f"{report.features:,}", f"{report.features:,}"],
    ]
    return joined(
        element("h2", "What was read"),
        listing(facts),
        table(
            "Rows; a score that comes with every search is one candidate",
            ["", "could be read", "in the log"],
            rows,
        ),
    )
