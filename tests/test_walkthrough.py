"""The walk-through is run as it stands: every command of the page, in one folder, with what it prints."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "walkthrough.md"
WRITE_DOCS = "RANKLOOP_WRITE_DOCS"
# Stands for lines of output that the page leaves out; such blocks are brought up to date by hand.
ELLIPSIS = "…"
BLOCK = re.compile(r"(?<=```console\n)(.*?)(?=```\n)", re.DOTALL)
NUMBER = re.compile(r"[-−+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
# The fingerprint of a model is another one wherever a single bit of the model differs.
FINGERPRINT = re.compile(r"\b[0-9a-f]{16}\b")
# Other processors round other last digits, and trees are grown from them: words must be the same, numbers
# nearly.
NEARLY = {"rel": 0.05, "abs": 0.02}


def printed(command: str, folder: Path) -> str:
    """What a command prints to standard output, in a terminal of 100 columns without colours."""
    words = shlex.split(command)
    in_rankloop = {"rankloop": True, "python": False}[words[0]]
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    # The installed script, not ``python -c``, which DuckDB takes for an interactive session: it then prints a
    # progress bar of its own whenever a query takes more than two seconds.
    start = [sys.executable, *([Path(sys.executable).with_name("rankloop")] if in_rankloop else [])]
    done = subprocess.run(
        [*start, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def run_block(block: str, folder: Path) -> str:
    """The block with what its commands print now."""
    commands = re.findall(r"^\$ (.*?(?:\\\n.*?)*)$", block, re.MULTILINE)
    return "".join(f"$ {command}\n{printed(command.replace(chr(92), ''), folder)}" for command in commands)


def numbers(text: str) -> list[float]:
    """All numbers of a text, in its order."""
    return [float(found.replace(",", "").replace("−", "-")) for found in NUMBER.findall(text)]


def parts(said: str, shown: str) -> tuple[str, str]:
    """What a page says without the lines ``…``, and the lines that are shown in their places.

    ``…`` stands for any lines, up to the next one that the page has; numbers may differ in it.
    """
    chosen: list[str] = []
    rest, skipping = shown.splitlines(), False
    for line in said.splitlines():
        if line == ELLIPSIS:
            skipping = True
            continue
        while skipping and rest and words(rest[0]) != words(line):
            rest.pop(0)
        skipping = False
        chosen += rest[:1]
        rest = rest[1:]
    chosen += [] if skipping else rest
    return "\n".join(line for line in said.splitlines() if line != ELLIPSIS), "\n".join(chosen)


def test_lines_may_be_left_out() -> None:
    shown = "$ run\na 1\nb 2\nc 3\nd 4\n"
    assert parts("$ run\n…\nc 5\nd 4", shown) == ("$ run\nc 5\nd 4", "$ run\nc 3\nd 4")
    assert parts("$ run\na 1\n…", shown) == ("$ run\na 1", "$ run\na 1")
    # What is not on the page, and not in the place of an ellipsis, is a difference.
    assert parts("$ run\na 1\n…\nc 3", shown)[1].endswith("c 3\nd 4")


def words(text: str) -> list[str]:
    """All that are no numbers; how wide a table is depends on its numbers, so its lines do not count."""
    return re.sub(r"[─━┃│┏┓┗┛┡┩┳┻╇┼┴├┤└┘]+", " ", NUMBER.sub("#", text)).split()


@pytest.mark.long
def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    write = bool(os.environ.get(WRITE_DOCS))

    def shown_now(found: re.Match[str]) -> str:
        text = run_block(found[1], tmp_path)
        return found[1] if write and ELLIPSIS in found[1].splitlines() else text

    now = BLOCK.sub(shown_now, page)
    if write:
        PAGE.write_text(now, encoding="utf-8")
        return
    assert len(BLOCK.findall(page)) >= 5
    page, now = (FINGERPRINT.sub("fingerprint", text) for text in (page, now))
    for block in zip(BLOCK.findall(page), BLOCK.findall(now), strict=True):
        said, shown = parts(*block)
        assert words(shown) == words(said), f"out of date: {WRITE_DOCS}=1 pytest {Path(__file__).name}"
        assert numbers(shown) == pytest.approx(numbers(said), **NEARLY)
