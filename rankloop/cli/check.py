"""The command that checks what is in a log."""

from __future__ import annotations

import json

import typer

from rankloop.cli.options import EngineOption, JsonOption, LogArgument, MasterOption, PageOption


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
    from rankloop.reports.check import check_document
    from rankloop.storage.files import check_writable

    check_writable(page)
    opened = open_log(log, engine=engine, master=master)
    with console.announce_compilation(), console.progress() as progress:
        found = opened.check(progress=progress)
    if page is not None:
        write_report(found, page)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    console.print_document(check_document(found))
    if page is not None:
        console.announce_page(page)
