"""Commands on logs: import one from another format, and check what is in it."""

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
    help="Import the log of another program: problems are counted, repaired and reported.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

FILES = "A file, or a folder of them"
# A terminal has room for this many ranks; the page and the JSON have all of them.
RANKS_SHOWN = 10

OutOption = Annotated[Path, typer.Option("--out", "-o", help="The folder to write the log to.")]
FeaturesOption = Annotated[
    Path | None, typer.Option(help="A Parquet or CSV file with query_id, doc_id and features.")
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Refuse a log with any problem.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace an existing log.")]


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
    policy: Annotated[str | None, typer.Option(help="The policy of queries that do not name one.")] = None,
    ranks: Annotated[
        int | None, typer.Option(help=r"How many of the hits were shown. \[default: all]", min=1)
    ] = None,
    clicks: Annotated[
        list[str] | None,
        typer.Option(
            help="An action that counts as a click; may be given several times. "
            r"\[default: click, click_through]",
            show_default=False,
        ),
    ] = None,
    position_base: Annotated[
        int | None,
        typer.Option(help=r"Whether positions of events count from 0 or from 1. \[default: detected]"),
    ] = None,
    strict: StrictOption = False,
    overwrite: OverwriteOption = False,
    page: PageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import OpenSearch's User Behavior Insights: ubi_queries and ubi_events."""
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
    policy: Annotated[str | None, typer.Option(help="The policy of rankings that do not name one.")] = None,
    clicks: Annotated[
        list[str] | None,
        typer.Option(
            help="A type of interaction that counts as a click; may be given several times. "
            r"\[default: click]",
            show_default=False,
        ),
    ] = None,
    query_field: Annotated[str, typer.Option(help="The field of rankings that holds the query.")] = "query",
    policy_field: Annotated[
        str, typer.Option(help="The field of rankings that holds the policy.")
    ] = "policy",
    score_field: Annotated[
        str | None,
        typer.Option(help="The field of items with the score that rankings are drawn from, if any."),
    ] = None,
    strict: StrictOption = False,
    overwrite: OverwriteOption = False,
    page: PageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import Metarank's ranking and interaction events."""
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
            help=f"{FILES}: one row per document shown, as CSV, TSV, JSON lines or Parquet.",
        ),
    ],
    out: OutOption = Path("log"),
    names: Annotated[
        str,
        typer.Option(
            "--columns",
            help="The names of the columns, as in 'impression_id=session, clicked=clicks, timestamp=-'; - "
            "for a column that does not exist.",
        ),
    ] = "",
    features: FeaturesOption = None,
    policy: Annotated[
        str | None, typer.Option(help="The policy of all rows, if there is no column for it.")
    ] = None,
    clicks: Annotated[Path | None, typer.Option(help="A second table, with one row per click.")] = None,
    candidates: Annotated[
        Path | None, typer.Option(help="A table with policy_id, query_id, doc_id and score.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Rows to import, as in split=train; may be given several times.", show_default=False
        ),
    ] = None,
    position_base: Annotated[
        int | None, typer.Option(help=r"Whether positions count from 0 or from 1. \[default: detected]")
    ] = None,
    strict: StrictOption = False,
    overwrite: OverwriteOption = False,
    page: PageOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import any table with one row per document shown."""
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
    """Check what is in a log: policies over time, clicks per rank, support, and problems."""
    from rankloop import open_log, write_report
    from rankloop.cli import console
    from rankloop.cli.updates import show_on
    from rankloop.storage.files import check_writable

    check_writable(page)
    opened = open_log(log, engine=engine, master=master)
    with console.announce_compilation(), console.progress() as tasks:
        found = opened.check(progress=show_on(tasks))
    if page is not None:
        write_report(found, page)
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
    from rankloop import ImportOptions, write_report
    from rankloop.cli import console
    from rankloop.cli.updates import show_on
    from rankloop.storage.files import check_writable

    check_writable(page)
    with console.progress() as tasks:
        report = make(ImportOptions(**options, progress=show_on(tasks)))
    if page is not None:
        write_report(report, page)
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
            raise RankloopError(f"--only expects column=value, as in split=train, got {text!r}")
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
