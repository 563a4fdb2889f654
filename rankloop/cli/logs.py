"""Commands on logs: make one of another program's, and say what is in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankloop.cli.options import EngineOption, JsonOption, LogArgument, MasterOption, PageOption
from rankloop.errors import RankloopError

if TYPE_CHECKING:
    from rankloop.logs import ImportOptions, ImportReport, LogCheck, Problem

importing = typer.Typer(
    help="Make a log of what another program has logged: count what is wrong, repair it, and say so.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

FILES = "A file, or a folder of them"
# Ranks that a terminal has room for; the page and the JSON have all.
RANKS_SHOWN = 10

OutOption = Annotated[Path, typer.Option("--out", "-o", help="The folder of the log.")]
FeaturesOption = Annotated[
    Path | None, typer.Option(help="A Parquet or CSV file with query_id, doc_id and features.")
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Refuse a log with any problem.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace a log that is there.")]


@importing.command()
def ubi(
    queries: Annotated[
        Path, typer.Argument(metavar="QUERIES", help=f"{FILES}: ubi_queries as JSON lines or Parquet.")
    ],
    events: Annotated[
        Path, typer.Argument(metavar="EVENTS", help=f"{FILES}: ubi_events as JSON lines or Parquet.")
    ],
    out: OutOption = Path("log"),
    features: FeaturesOption = None,
    policy: Annotated[str | None, typer.Option(help="The policy of queries that name none.")] = None,
    ranks: Annotated[
        int | None, typer.Option(help=r"How many of the hits were shown. \[default: all]", min=1)
    ] = None,
    clicks: Annotated[
        list[str] | None,
        typer.Option(
            help=r"An action that is a click; may be given several times. \[default: click, click_through]",
            show_default=False,
        ),
    ] = None,
    position_base: Annotated[
        int | None,
        typer.Option(help=r"Whether positions of events count from 0 or from 1. \[default: find out]"),
    ] = None,
    strict: StrictOption = False,
    overwrite: OverwriteOption = False,
    page: PageOption = None,
    as_json: JsonOption = False,
) -> None:
    """OpenSearch's User Behavior Insights: ubi_queries and ubi_events."""
    from rankloop.logs import import_ubi

    given = {} if clicks is None else {"clicks": clicks}
    _import(
        lambda options: import_ubi(
            queries, events, out, policy=policy, ranks=ranks, options=options, **given
        ),
        {"features": features, "position_base": position_base, "strict": strict, "overwrite": overwrite},
        page,
        as_json,
    )


@importing.command()
def metarank(
    events: Annotated[
        Path, typer.Argument(metavar="EVENTS", help=f"{FILES}: events as JSON lines or Parquet.")
    ],
    out: OutOption = Path("log"),
    features: FeaturesOption = None,
    policy: Annotated[str | None, typer.Option(help="The policy of rankings that name none.")] = None,
    clicks: Annotated[
        list[str] | None,
        typer.Option(
            help=r"A type of interaction that is a click; may be given several times. \[default: click]",
            show_default=False,
        ),
    ] = None,
    query_field: Annotated[str, typer.Option(help="The rankings' field with the query.")] = "query",
    policy_field: Annotated[str, typer.Option(help="The rankings' field with the policy.")] = "policy",
    score_field: Annotated[
        str | None,
        typer.Option(help="The items' field with the score that rankings are drawn from, if there is one."),
    ] = None,
    strict: StrictOption = False,
    overwrite: OverwriteOption = False,
    page: PageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Metarank's ranking and interaction events."""
    from rankloop.logs import MetarankFields, import_metarank

    fields = MetarankFields(query=query_field, policy=policy_field, score=score_field)
    given = {} if clicks is None else {"clicks": clicks}
    _import(
        lambda options: import_metarank(events, out, policy=policy, fields=fields, options=options, **given),
        {"features": features, "strict": strict, "overwrite": overwrite},
        page,
        as_json,
    )


@importing.command()
def columns(
    impressions: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE",
            help=f"{FILES}: one row a document that was shown, as CSV, TSV, JSON lines or Parquet.",
        ),
    ],
    out: OutOption = Path("log"),
    names: Annotated[
        str,
        typer.Option(
            "--columns",
            help="What columns are called, as in 'impression_id=session, clicked=clicks, timestamp=-'; - for "
            "one that is not there.",
        ),
    ] = "",
    features: FeaturesOption = None,
    policy: Annotated[
        str | None, typer.Option(help="The policy of all rows, where no column says it.")
    ] = None,
    clicks: Annotated[Path | None, typer.Option(help="A second table, with one row a click.")] = None,
    candidates: Annotated[
        Path | None, typer.Option(help="A table with policy_id, query_id, doc_id and score.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows that count, as in split=train; may be given several times.", show_default=False
        ),
    ] = None,
    position_base: Annotated[
        int | None, typer.Option(help=r"Whether positions count from 0 or from 1. \[default: find out]")
    ] = None,
    strict: StrictOption = False,
    overwrite: OverwriteOption = False,
    page: PageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Any table with one row a document that was shown."""
    from rankloop.logs import Columns, import_columns

    called, wanted = Columns.parse(names), _only(only or [])
    _import(
        lambda options: import_columns(
            impressions,
            out,
            columns=called,
            policy=policy,
            clicks=clicks,
            candidates=candidates,
            only=wanted,
            options=options,
        ),
        {"features": features, "position_base": position_base, "strict": strict, "overwrite": overwrite},
        page,
        as_json,
    )


def check(
    log: LogArgument,
    page: PageOption = None,
    engine: EngineOption = "duckdb",
    master: MasterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say what is in a log: policies over time, clicks by rank, support, and what is wrong."""
    from rankloop.cli import console
    from rankloop.logs import check as checked
    from rankloop.logs import open_log
    from rankloop.storage.files import check_writable, write_whole

    check_writable(page)
    with console.announce_compilation(), console.progress() as tasks:
        found = checked(
            open_log(log), engine=engine, master=master, progress=lambda what: tasks.update("check", what)
        )
    if page is not None:
        from rankloop.reports.check import check_page

        write_whole(page, check_page(found).encode())
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    _print_check(found)
    if page is not None:
        console.print_out(f"wrote {page}")


def _import(
    make: Callable[[ImportOptions], ImportReport],
    options: Mapping[str, Any],
    page: Path | None,
    as_json: bool,
) -> None:
    from rankloop.cli import console
    from rankloop.logs import ImportOptions
    from rankloop.storage.files import check_writable, write_whole

    check_writable(page)
    with console.progress() as tasks:
        report = make(
            ImportOptions(**options, progress=lambda update: tasks.update(update.task, update.note))
        )
    if page is not None:
        from rankloop.reports.import_report import import_page

        write_whole(page, import_page(report).encode())
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
        return
    _print_import(report)
    for path in (report.log, page):
        if path is not None:
            console.print_out(f"wrote {path}")


def _only(given: Iterable[str]) -> dict[str, str]:
    wanted = {}
    for text in given:
        column, equals, value = text.partition("=")
        if not column or not equals:
            raise RankloopError(f"--only takes column=value, as in split=train, got {text!r}")
        wanted[column] = value
    return wanted


def _print_import(report: ImportReport) -> None:
    from rankloop.cli import console

    read = report.read
    rows = [
        ["impressions", "", f"{report.impressions:,}"],
        ["documents shown", f"{read['impressions']:,}", f"{report.rows:,}"],
        ["clicks", f"{read['clicks']:,}" if read["clicks"] else "", f"{report.clicks:,}"],
        ["candidates with a score", f"{read['scores']:,}", f"{report.candidates:,}"],
        ["documents with features", f"{report.features:,}", f"{report.features:,}"],
        *([f"set aside: {kind}", f"{count:,}", ""] for kind, count in report.aside.items()),
    ]
    console.out.print(console.table("rows", ["", "read", "in the log"], rows))
    _print_problems("what was wrong", report.problems)
    for note in report.notes:
        console.print_out(f"note: {note}")


def _print_problems(title: str, problems: Iterable[Problem]) -> None:
    from rankloop.cli import console

    found = list(problems)
    if not found:
        console.print_out(f"{title}: nothing that is looked for")
        return
    rows = [[p.name, f"{p.count:,}", f"{p.left_out:,}", f"{p.what}: {p.done}"] for p in found]
    head = ["problem", "count", "left out", "what it is: what was done"]
    if not any(problem.left_out for problem in found):
        del head[2]
        rows = [[*row[:2], row[3]] for row in rows]
    listed = console.table(title, head, rows)
    listed.columns[-1].justify = "left"
    console.out.print(listed)
    for problem in found:
        if problem.examples:
            console.print_out(f"{problem.name}: such as {problem.examples[0]}")


def _print_check(found: LogCheck) -> None:
    from rankloop.cli import console

    console.print_out(
        f"{found.log}: {found.impressions:,} impressions of {found.queries:,} queries, {found.rows:,} rows, "
        f"{found.clicks:,} clicks; {found.documents:,} documents, {found.ranks:,} ranks; "
        f"tables: {', '.join(found.tables)}"
    )
    none = "–"
    rows = [
        [
            policy.policy_id,
            f"{policy.impressions:,}",
            none if policy.first is None else f"{policy.first:%Y-%m-%d}",
            none if policy.last is None else f"{policy.last:%Y-%m-%d}",
            none if policy.explores is None else f"{policy.explores:.0%}",
            none if policy.support is None else f"{policy.support.never_shown:.1%}",
        ]
        for policy in found.policies
    ]
    head = ["policy", "impressions", "from", "to", "explores", "never shown"]
    console.out.print(console.table("policies", head, rows))
    shown = range(min(found.ranks, RANKS_SHOWN))
    rates = [
        [
            policy.policy_id,
            *(none if (rate := policy.click_rate_by_rank[k]) is None else f"{rate:.3f}" for k in shown),
        ]
        for policy in found.policies
    ]
    console.out.print(
        console.table("share clicked, by rank", ["policy", *(str(k + 1) for k in shown)], rates)
    )
    for warning in found.warnings:
        console.print_out(f"warning: {warning}")
    _print_problems("what is wrong with the log as it is", found.problems)
    if found.imported:
        counted = ", ".join(f"{problem['count']:,} {problem['name']}" for problem in found.imported)
        console.print_out(f"found when it was imported: {counted}")
