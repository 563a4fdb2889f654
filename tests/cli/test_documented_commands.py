"""Commands that the documentation shows have the arguments and options that they are shown with."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from rankloop.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# A line of a block of code that starts with the program, also after a prompt.
LINE = re.compile(r"^[ ]*(?:\$ )?rankloop ((?:[^\n]*\\\n)*[^\n]*)$", re.MULTILINE)
BLOCK = re.compile(r"^(?P<indent> *)```(?:console|sh)\n(.*?)^(?P=indent)```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[str]:
    """The commands in the fenced blocks of a page, and in the indented ones of the README."""
    blocks = [block[2] for block in BLOCK.finditer(text)] or re.findall(r"^    .*$", text, re.MULTILINE)
    return [found[1] for block in blocks for found in LINE.finditer(block) if "…" not in found[1]]


def parse(line: str) -> None:
    """Read the words of a command as the program does, without running it."""
    command: Any = typer.main.get_command(app)
    words = shlex.split(line.replace("\\\n", " "), comments=True)
    context = None
    while hasattr(command, "commands"):
        context = command.context_class(command, parent=context)
        if words[0] not in command.commands and "." in words[0]:
            # `rankloop import clicks.csv` looks at the file before it is read.
            Path(words[0]).touch()
        _, command, words = command.resolve_command(context, words)
    command.make_context("rankloop", words, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_on_a_page_can_be_typed(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = page.read_text(encoding="utf-8")
    # Settings that the page shows are read, too.
    settings = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "rankloop.toml").write_text("\n".join(settings), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for line in commands(text):
        try:
            parse(line)
        except Exception as error:
            pytest.fail(f"rankloop {line}: {error!r}")


def test_commands_are_found_and_wrong_ones_noticed() -> None:
    found = [line for page in PAGES for line in commands(page.read_text(encoding="utf-8"))]
    assert len(found) > 50
    with pytest.raises(Exception, match="--no-such-option"):
        parse("fit log --no-such-option 1")
    with pytest.raises(Exception, match="fti"):
        parse("fti log")
