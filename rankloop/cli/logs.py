"""Commands that import a log from another format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from rankloop.cli.options import JsonOption, NamesInHelp, PageOption, argument, expand_options, option
from rankloop.errors import RankloopError
from rankloop.names import unknown

if TYPE_CHECKING:
    from rankloop.logs import ImportOptions, ImportReport
    from rankloop.progress import Progress


class FormatGroup(TyperGroup):
    """The importers by the names of their formats, and one for files whose format is to be found out."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the importer; files that are named first are looked at."""
        if args and args[0] not in self.commands:
            if not Path(args[0].partition(":")[0]).exists():
                raise unknown("format or file", args[0], self.commands)
            return "", self.commands[ANY_FILES], args
        return super().resolve_command(ctx, args)


importing = typer.Typer(
    cls=FormatGroup,
    help="Import the log of another program: problems are counted, repaired and reported.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

FILES = "Files, or folders of them"
# The importer of files whose format is to be found out.
ANY_FILES = "files"
# The exit code if more of the source would be left out than --max-loss allows.
TOO_MUCH_LOST = 3

AmountOption = Annotated[
    list[str] | None,
    option(
        "What an action is worth, as in purchase=5; may be given several times. The log then has a "
        "column amount with the highest weight of the actions on each document; a click is worth 1.",
        "--amount",
        shown="",
    ),
]


@dataclass(frozen=True)
class ImportTarget:
    """Where a log is written, what is added to it, and what is reported: the options of every importer."""

    out: Annotated[Path, option("The folder to write the log to.", "--out", "-o")] = Path("log")
    features: Annotated[
        list[Path] | None,
        option(
            "A Parquet or CSV file with query_id, doc_id and features, or with doc_id and features of "
            "documents; may be given twice, once for each kind.",
            shown="",
        ),
    ] = None
    randomised: Annotated[
        list[str] | None,
        option("A policy that shows documents in random order; may be given several times.", shown=""),
    ] = None
    normalise: Annotated[
        list[str] | None,
        option(
            "query: queries that differ by case, white space or forms of Unicode alone are one.", shown=""
        ),
    ] = None
    strict: Annotated[bool, option("Refuse a log with any problem.", "--strict")] = False
    max_loss: Annotated[
        float,
        option(
            "The share of rows, clicks or lines that may be left out; beyond it no log is written, and "
            "the exit code is 3.",
            min=0.0,
            max=1.0,
        ),
    ] = 0.1
    overwrite: Annotated[bool, option("Replace an existing log.", "--overwrite")] = False
    append: Annotated[bool, option("Add to an existing log, if there is one.", "--append")] = False
    page: PageOption = None
    as_json: JsonOption = False

    def options(self, position_base: int | None, progress: Progress) -> ImportOptions:
        """What the importers take."""
        from rankloop.logs import ImportOptions

        return ImportOptions(
            features=self.features,
            position_base=position_base,
            randomised=tuple(self.randomised or ()),
            normalise=tuple(dict.fromkeys(self.normalise or ())),
            strict=self.strict,
            max_loss=self.max_loss,
            overwrite=self.overwrite,
            append=self.append,
            progress=progress,
        )


@importing.command(ANY_FILES, cls=NamesInHelp)
@expand_options
def any_files(
    files: Annotated[list[Path], argument("FILES", f"{FILES}, of one kind: any table, UBI or Metarank.")],
    mapping: Annotated[
        Path | None,
        option(
            "The mapping to run, a TOML file; what it says is not guessed, and nothing is asked.", "--map"
        ),
    ] = None,
    yes: Annotated[
        bool, option("Import without asking, if nothing has to be decided.", "--yes", "-y")
    ] = False,
    dry_run: Annotated[bool, option("Show what would be imported, and stop.", "--dry-run")] = False,
    clicks: Annotated[Path | None, option("A second table, with one row per click.")] = None,
    *,
    target: ImportTarget,
) -> None:
    """Look at files, show what would be imported, and ask.

    `rankloop import FILES` is enough. It shows which column each field is read from, why, and which other
    column came closest; three impressions as they would be in the log; and what only you can decide. The
    mapping is stored in the log, and can be given again with --map.
    """
    from rankloop.cli.import_dialogue import settle_mapping
    from rankloop.logs.importers.mapped import run_proposal
    from rankloop.logs.importers.mapping import TableMapping, read_mapping

    given = None if mapping is None else read_mapping(mapping)
    if given is None and clicks is not None:
        given = TableMapping(clicks=clicks)
    proposal = settle_mapping(
        files, given, target, asks=mapping is None and not yes, shows=mapping is None, dry_run=dry_run
    )
    if proposal is not None:
        _import(lambda options: run_proposal(proposal, files, target.out, options), target)


@importing.command(cls=NamesInHelp)
@expand_options
def ubi(
    files: Annotated[
        list[Path],
        argument(
            "FILES",
            f"{FILES}: ubi_queries and ubi_events, together or apart, as JSON (lines, bulk, search "
            "responses, arrays), CSV or Parquet.",
        ),
    ],
    policy: Annotated[
        str | None, option("The policy of queries that do not name one.", shown="production")
    ] = None,
    shown: Annotated[
        str,
        option(
            "Where to find what was shown: hits, impressions (events), or auto: impression events of "
            "queries that have them, and hits of the others."
        ),
    ] = "auto",
    ranks: Annotated[int | None, option("How many of the hits were shown.", shown="all", min=1)] = None,
    clicks: Annotated[
        list[str] | None,
        option("An action that counts as a click; may be given several times.", shown="click, click_through"),
    ] = None,
    amount: AmountOption = None,
    position_base: Annotated[
        int | None,
        option("Whether positions of events count from 0 or from 1.", shown="detected"),
    ] = None,
    *,
    target: ImportTarget,
) -> None:
    """Import OpenSearch's User Behavior Insights: ubi_queries and ubi_events."""
    from rankloop.logs import import_ubi
    from rankloop.logs.importers.actions import parse_amounts
    from rankloop.logs.importers.mapping import CLICK_ACTIONS

    amounts = parse_amounts(amount or [])
    _import(
        lambda options: import_ubi(
            files,
            target.out,
            policy=policy,
            ranks=ranks,
            clicks=clicks or CLICK_ACTIONS,
            amounts=amounts,
            shown=shown,
            options=options,
        ),
        target,
        position_base,
    )


@importing.command(cls=NamesInHelp)
@expand_options
def metarank(
    events: Annotated[list[Path], argument("EVENTS", f"{FILES}: events as JSON lines or Parquet.")],
    policy: Annotated[
        str | None, option("The policy of rankings that do not name one.", shown="production")
    ] = None,
    clicks: Annotated[
        list[str] | None,
        option("A type of interaction that counts as a click; may be given several times.", shown="click"),
    ] = None,
    amount: AmountOption = None,
    query: Annotated[
        str,
        option(
            "The query of rankings: a field that all of them have; ranking, session or user; none for "
            "one query for all; or auto: the field query, or the ranking itself where it has none."
        ),
    ] = "auto",
    policy_field: Annotated[str, option("The field of rankings that holds the policy.")] = "policy",
    score_field: Annotated[
        str | None,
        option("The field of items with the score that rankings are drawn from, if any."),
    ] = None,
    items: Annotated[bool, option("Make features of the fields of items.", "--items/--no-items")] = True,
    *,
    target: ImportTarget,
) -> None:
    """Import Metarank's ranking, interaction and item events."""
    from rankloop.logs import MetarankFields, import_metarank
    from rankloop.logs.importers.actions import parse_amounts
    from rankloop.logs.importers.mapping import CLICK_TYPES

    fields = MetarankFields(query=query, policy=policy_field, score=score_field, items=items)
    amounts = parse_amounts(amount or [])
    _import(
        lambda options: import_metarank(
            events,
            target.out,
            policy=policy,
            clicks=clicks or CLICK_TYPES,
            amounts=amounts,
            fields=fields,
            options=options,
        ),
        target,
    )


@importing.command(cls=NamesInHelp)
@expand_options
def columns(
    impressions: Annotated[
        list[Path],
        argument(
            "TABLE",
            f"{FILES}: one row per document shown, per search with a list of documents, or per event; "
            "as CSV, TSV, JSON lines or Parquet.",
        ),
    ],
    names: Annotated[
        str,
        option(
            "The names of the columns, as in 'impression_id=session, doc_id=payload.sku, timestamp=-'; "
            "- for a column that does not exist. Others are guessed from their names and values, and the "
            "guess is printed.",
            "--columns",
        ),
    ] = "",
    impression: Annotated[
        str | None,
        option(
            "The columns that together tell impressions apart, as in session_id,query,timestamp.", shown=""
        ),
    ] = None,
    policy: Annotated[
        str | None,
        option("The policy of all rows, if there is no column for it.", shown="production"),
    ] = None,
    clicks: Annotated[Path | None, option("A second table, with one row per click.")] = None,
    candidates: Annotated[Path | None, option("A table with policy_id, query_id, doc_id and score.")] = None,
    only: Annotated[
        list[str] | None,
        option("Rows to import, as in split=train; may be given several times.", shown=""),
    ] = None,
    shown_event: Annotated[
        list[str] | None,
        option(
            "In a table of events: a kind of event that shows documents; may be given several times.",
            shown="recognised by its name",
        ),
    ] = None,
    click_event: Annotated[
        list[str] | None,
        option(
            "In a table of events: a kind of event that is a click; may be given several times.",
            shown="recognised by its name",
        ),
    ] = None,
    amount: Annotated[
        list[str] | None,
        option(
            "What an action is worth, as in purchase=5: a kind of event, or a column that is true where "
            "it happened; may be given several times. A click is worth 1.",
            "--amount",
            shown="",
        ),
    ] = None,
    feature_columns: Annotated[
        list[str] | None,
        option(
            "A column of the table that is a feature, also with wildcards, as in 'prop_*'; or auto for "
            "all columns of numbers that are known before a click, and text that is a category of "
            "documents. May be given several times.",
            shown="",
            metavar="NAME",
        ),
    ] = None,
    position_base: Annotated[
        int | None, option("Whether positions count from 0 or from 1.", shown="detected")
    ] = None,
    *,
    target: ImportTarget,
) -> None:
    """Import any table: one row per document shown, per search with a list of documents, or per event."""
    from rankloop.logs import Columns, Events, import_columns
    from rankloop.logs.importers.actions import parse_amounts

    events = Events(tuple(shown_event or ()), tuple(click_event or ()))
    amounts = parse_amounts(amount or [])
    called, wanted = Columns.parse(names), _only(only or [])
    if impression is not None:
        called = called.identified_by(impression)
    _import(
        lambda options: import_columns(
            impressions,
            target.out,
            columns=called,
            policy=policy,
            clicks=clicks,
            candidates=candidates,
            only=wanted,
            events=events,
            amounts=amounts,
            feature_columns=feature_columns or (),
            options=options,
        ),
        target,
        position_base,
    )


def _import(
    make: Callable[[ImportOptions], ImportReport], target: ImportTarget, position_base: int | None = None
) -> None:
    from rankloop import write_report
    from rankloop.cli import console
    from rankloop.logs import ImportLossError
    from rankloop.reports.import_report import import_document
    from rankloop.reports.terminal import printable
    from rankloop.storage.files import check_writable

    check_writable(target.page)
    refused = None
    with console.telling(console.NOTHING_WRITTEN), console.progress() as progress:
        try:
            imported = make(target.options(position_base, progress))
        except ImportLossError as error:
            refused, imported = error, error.report
    if target.page is not None:
        write_report(imported, target.page)
    if target.as_json:
        console.print_json(imported)
    else:
        console.print_document(import_document(imported))
        for path in (None if refused else imported.log, target.page):
            if path is not None:
                console.print_out(f"wrote {path}")
    if refused is not None:
        typer.echo(f"rankloop: {printable(str(refused), lines=True)}", err=True)
        raise typer.Exit(TOO_MUCH_LOST)


def _only(given: Iterable[str]) -> dict[str, str]:
    wanted = {}
    for text in given:
        column, equals, value = text.partition("=")
        if not column or not equals:
            raise RankloopError(f"--only expects column=value, as in split=train, got {text!r}")
        wanted[column] = value
    return wanted
