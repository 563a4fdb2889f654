"""The command that checks what is in a log."""

from __future__ import annotations

import json

import typer

from rankloop.cli.log_options import LogSource
from rankloop.cli.option_groups import expand_groups
from rankloop.cli.options import JsonOption, PageOption


@expand_groups
def check(
    page: PageOption = None,
    *,
    source: LogSource,
    as_json: JsonOption = False,
) -> None:
    """Check what is in a log: policies over time, clicks per rank, support, and problems."""
    from rankloop import write_report
    from rankloop.cli import console
    from rankloop.reports.check import check_document
    from rankloop.storage.files import check_writable

    check_writable(page)
    log = source.open()
    with console.announce_compilation(), console.progress() as progress:
        found = log.check(progress=progress)
    if page is not None:
        write_report(found, page)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=2, ensure_ascii=False))
        return
    console.print_document(check_document(found))
    if page is not None:
        console.announce_page(page)
