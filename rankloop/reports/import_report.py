"""The report on an import: what was read, what was wrong with it, and what is in the log now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rankloop.logs.importers.mapped import LONGEST, ExampleImpression
from rankloop.logs.importers.mapping import MetarankMapping, TableMapping, UbiMapping
from rankloop.logs.importers.proposal import Proposal
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.tables.choices import FieldChoice
from rankloop.logs.problems import Problem
from rankloop.reports.document import (
    NONE,
    Block,
    Column,
    Document,
    Examples,
    Facts,
    Listing,
    Section,
    Table,
    Text,
    warnings,
)


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


NAMES = {
    "impression_id": "impression",
    "query_id": "query",
    "timestamp": "time",
    "policy_id": "policy",
    "position": "position",
    "doc_id": "document",
    "clicked": "click",
}
OTHER_FIELDS = ("event", "page", "randomised", "amount", "row_id")


def proposal_document(
    proposal: Proposal, source: str, examples: Sequence[ExampleImpression], failure: str = ""
) -> Document:
    """What an import would do.

    Args:
        proposal: what was found out.
        source: the files.
        examples: impressions as they would be in the log.
        failure: why there are none.
    """
    blocks: list[Block] = [_fields(proposal), *_kinds(proposal)]
    if proposal.unused:
        blocks.append(Text(f"Not used: {', '.join(proposal.unused)}", brief=True))
    blocks += [Listing(_drawn(example), brief=True) for example in examples]
    if failure:
        blocks.append(Text(f"No impression can be shown: {failure}", brief=True))
    for question in proposal.questions:
        blocks.append(Text(f"To decide: {question}", "warning", brief=True))
    return Document(f"import of {source}", f"Import of {source}", tuple(blocks))


def _fields(proposal: Proposal) -> Block:
    mapping = proposal.mapping
    if isinstance(mapping, UbiMapping):
        return Text(
            "OpenSearch's User Behavior Insights: queries and events are read as they are.", brief=True
        )
    if isinstance(mapping, MetarankMapping):
        return Text("Metarank's events.", brief=True)
    asked = {question.field for question in proposal.questions}
    rows = [
        [NAMES[one.field], "?" if one.field in asked else _column(one), one.why, _runner_up(one)]
        for one in proposal.choices
    ]
    rows += [
        [field, value, "", NONE]
        for field in OTHER_FIELDS
        if isinstance(value := getattr(mapping.columns, field), str)
    ]
    columns: list[str | Column] = [
        "field",
        "column",
        Column("because", words=True),
        Column("runner-up", words=True),
    ]
    return Table.build("What would be read from where", columns, rows, brief=True)


def _column(choice: FieldChoice) -> str:
    if choice.column is None:
        return NONE
    return choice.column if isinstance(choice.column, str) else " + ".join(choice.column)


def _runner_up(choice: FieldChoice) -> str:
    if choice.options:
        return " or ".join(choice.options)
    if not choice.rivals:
        return NONE
    rival = choice.rivals[0]
    more = f" (and {len(choice.rivals) - 1} more)" if len(choice.rivals) > 1 else ""
    return f"{rival.column}: {rival.why}{more}"


def _kinds(proposal: Proposal) -> list[Block]:
    mapping = proposal.mapping
    if not isinstance(mapping, TableMapping) or mapping.columns.event is None:
        return []
    return [Text(mapping.events.sentence, brief=True)]


def _drawn(example: ExampleImpression) -> str:
    """An impression as a ranked list.

    The query is above it, the time beside the query, and clicks are marked.
    """
    time = "no time" if example.time is None else f"{example.time:%Y-%m-%d %H:%M:%S}"
    lines = [f"  {example.query}    {time}    {example.policy}"]
    lines += [
        f"    {row.position:>3}  {'●' if row.clicked else ' '} {row.document}"
        for row in example.rows[:LONGEST]
    ]
    if len(example.rows) > LONGEST:
        lines.append(f"         and {len(example.rows) - LONGEST} more")
    return "\n".join([*lines, ""])
