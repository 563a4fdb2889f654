"""The reference of the command line: the options of every command, and all settings of services.

    python -m rankloop.cli.reference docs/cli.md docs/settings.md

The prose of the page is written by hand. The options of a command are in a block after a comment such as
``<!-- rankloop run --help -->``, and these blocks are generated; a command without one gets a section at the
end. Options that several commands share are described once, after ``<!-- rankloop shared options -->``, and
those of services are on the page of settings.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
import typer.main

from rankloop.cli.configuration import OTHERS, SERVICES
from rankloop.cli.options import list_names
from rankloop.errors import RankloopError
from rankloop.storage.files import write_whole

PROGRAM = "rankloop"
SHARED = "shared options"
# In how many commands the same option is described once for all of them.
SHARED_FROM = 3
_END = "<!-- end of options -->"
_BLOCK = re.compile(
    rf"<!-- {PROGRAM} ((?:[a-z]+ )*--help|{SHARED}) -->\n(?:(?:(?!<!-- ).)*?{_END}\n)?", re.DOTALL
)


def commands(app: typer.Typer) -> list[str]:
    """All commands of an app by their full names, such as ``rankloop import ubi``, the app itself first."""
    return list(_walk(app))


def _walk(app: typer.Typer) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def visit(command: Any, name: str) -> None:
        found[name] = command
        # Only groups have commands; their class is click's or typer's own, depending on the version of typer.
        for child, subcommand in getattr(command, "commands", {}).items():
            visit(subcommand, f"{name} {child}")

    visit(typer.main.get_command(app), PROGRAM)
    return found


def update_page(app: typer.Typer, page: str) -> str:
    """The page with the current options of every command.

    Args:
        app: the command line.
        page: the Markdown of the page.

    Raises:
        RankloopError: the page has a block for a command that does not exist.
    """
    found = _walk(app)
    for name in found:
        marker = f"<!-- {name} --help -->"
        if marker not in page:
            page = f"{page.rstrip()}\n\n## {name}\n\n{marker}\n"
    rows = Counter(row for command in found.values() for row in _rows(command))
    shared = {row for row, count in rows.items() if count >= SHARED_FROM}

    def block(match: re.Match[str]) -> str:
        if match[1] == SHARED:
            lines = [f"- {_entry(row)}" for row in rows if row in shared]
        else:
            name = f"{PROGRAM} {match[1]}".removesuffix("--help").strip()
            if name not in found:
                raise RankloopError(f"there is no command {name!r}: remove its section from the page")
            lines = list(_lines(name, found[name], shared))
        return "\n".join([f"<!-- {PROGRAM} {match[1]} -->", "", *lines, "", _END, ""])

    return _BLOCK.sub(block, page)


def _lines(name: str, command: Any, shared: set[tuple[str, str]]) -> Iterator[str]:
    """Usage and summary of a command, and the options that it does not share with others."""
    arguments = [_spelling(each) for each in command.params if each.param_type_name == "argument"]
    yield f"`{' '.join([name, *arguments])}`"
    yield ""
    yield " ".join((command.help or "").partition("\n\n")[0].split())
    if children := getattr(command, "commands", {}):
        yield ""
        for child, subcommand in children.items():
            anchor = f"{name} {child}".replace(" ", "-")
            yield f"- [`{child}`](#{anchor}): {(subcommand.help or '').partition(chr(10))[0]}"
    visible = _visible(command)
    if name.removeprefix(f"{PROGRAM} ") in SERVICES:
        yield ""
        yield "Options, and where else they can be set: [settings](settings.md). Besides:"
        visible = [each for each in visible if each.name in OTHERS]
    panels: dict[str, list[tuple[str, str]]] = {}
    for parameter in visible:
        panels.setdefault(getattr(parameter, "rich_help_panel", None) or "", []).append(_row(parameter))
    for panel, rows in panels.items():
        own = [row for row in rows if row not in shared]
        if own:
            yield ""
        if own and panel:
            yield f"**{panel}**"
            yield ""
        for row in own:
            yield f"- {_entry(row)}"
    if others := [row for rows in panels.values() for row in rows if row in shared]:
        yield ""
        yield f"[Shared](#{SHARED.replace(' ', '-')}): {', '.join(spelling for spelling, _ in others)}."


def _rows(command: Any) -> Iterator[tuple[str, str]]:
    """Spelling and description of the parameters of a command."""
    return (_row(parameter) for parameter in _visible(command))


def _visible(command: Any) -> list[Any]:
    return [
        each for each in command.params if not getattr(each, "hidden", False) and "--help" not in each.opts
    ]


def _row(parameter: Any) -> tuple[str, str]:
    text = " ".join(list_names(parameter.help or "").replace("\\[", "[").split())
    default = parameter.default
    plain = default is not None and default != () and not callable(default) and default is not False
    if plain and not parameter.required and "[default:" not in text and parameter.show_default:
        on = parameter.opts[0].removeprefix("--")
        text = f"{text} [default: {on if default is True else default}]"
    return f"`{_spelling(parameter)}`", text


def _spelling(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = str(parameter.metavar or parameter.name).upper()
        return name if parameter.required else f"[{name}]"
    short = sorted((each for each in parameter.opts if not each.startswith("--")), key=len)
    long = [each for each in parameter.opts if each.startswith("--")]
    return ", ".join([*long, *short, *parameter.secondary_opts])


def _entry(row: tuple[str, str]) -> str:
    spelling, text = row
    return f"{spelling}: {text}" if text else spelling


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
