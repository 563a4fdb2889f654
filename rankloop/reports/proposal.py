"""What an import would do: which field is read from where, and a few impressions as they would be."""

from __future__ import annotations

from collections.abc import Sequence

from rankloop.logs.importers.mapped import LONGEST, ExampleImpression
from rankloop.logs.importers.mapping import MetarankMapping, TableMapping, UbiMapping
from rankloop.logs.importers.proposal import Proposal
from rankloop.logs.importers.tables.choices import FieldChoice
from rankloop.reports.document import NONE, Block, Column, Document, Listing, Table, Text

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
