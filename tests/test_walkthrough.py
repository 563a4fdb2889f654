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


def words(text: str) -> list[str]:
    """All that are no numbers; how wide a table is depends on its numbers, so its lines do not count."""
    return re.sub(r"[─━┃│┏┓┗┛┡┩┳┻╇┼┴├┤└┘]+", " ", NUMBER.sub("#", text)).split()


@pytest.mark.long
def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    now = BLOCK.sub(lambda found: run_block(found[1], tmp_path), page)
    if os.environ.get(WRITE_DOCS):
        PAGE.write_text(now, encoding="utf-8")
        return
    assert len(BLOCK.findall(page)) >= 5
    page, now = (FINGERPRINT.sub("fingerprint", text) for text in (page, now))
    for said, shown in zip(BLOCK.findall(page), BLOCK.findall(now), strict=True):
        assert words(shown) == words(said), f"out of date: {WRITE_DOCS}=1 pytest {Path(__file__).name}"
        assert numbers(shown) == pytest.approx(numbers(said), **NEARLY)
