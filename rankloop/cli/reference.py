"""The reference of the command line: what `--help` prints for every command, and all settings of services.

    python -m rankloop.cli.reference docs/cli.md docs/settings.md

The prose of the page is written by hand. The help of a command is in a block after a comment such as
``<!-- rankloop run --help -->``, and these blocks are generated; a command without one gets a
section at the end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer.main
from typer.testing import CliRunner

from rankloop.errors import RankloopError
from rankloop.storage.files import write_whole

PROGRAM = "rankloop"
# The same on every terminal.
ENVIRONMENT = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "xterm"}
_BLOCK = re.compile(r"<!-- (rankloop [^>]*--help) -->\n(\n```text\n.*?\n```\n)?", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def commands(app: typer.Typer) -> list[str]:
    """All commands of an app by their full names, such as ``rankloop import ubi``, the app itself first."""
    return list(_walk(typer.main.get_command(app), PROGRAM))


def _walk(command: Any, name: str) -> Iterator[str]:
    yield name
    # Only groups have commands; their class is click's or typer's own, depending on the version of typer.
    for child, subcommand in getattr(command, "commands", {}).items():
        yield from _walk(subcommand, f"{name} {child}")


def help_text(app: typer.Typer, name: str) -> str:
    """Return the output of ``--help`` of a command."""
    arguments = [*name.split()[1:], "--help"]
    result = CliRunner().invoke(app, arguments, env=ENVIRONMENT, prog_name=PROGRAM)
    if result.exit_code != 0:
        raise RankloopError(f"there is no command {name!r}: remove its section from the page")
    lines = _COLOUR.sub("", result.output).splitlines()
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def update_page(app: typer.Typer, page: str) -> str:
    """The page with the current help of every command.

    Args:
        app: the command line.
        page: the Markdown of the page.

    Raises:
        RankloopError: the page has a block for a command that does not exist.
    """
    for name in commands(app):
        marker = f"<!-- {name} --help -->"
        if marker not in page:
            page = f"{page.rstrip()}\n\n## {name}\n\n{marker}\n"

    def block(match: re.Match[str]) -> str:
        text = help_text(app, match[1].removesuffix(" --help"))
        return f"<!-- {match[1]} -->\n\n```text\n{text}\n```\n"

    return _BLOCK.sub(block, page)


def main(arguments: Sequence[str]) -> None:
    """Bring pages up to date: the one of commands, and the one of settings."""
    from rankloop.cli import app
    from rankloop.cli.configuration import TABLE, update_table

    for path in map(Path, arguments):
        page = path.read_text(encoding="utf-8")
        update = update_table if TABLE in page else update_page
        write_whole(path, update(app, page).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
