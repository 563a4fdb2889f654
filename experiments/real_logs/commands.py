"""Runs commands as a user types them, and remembers what they printed and what they cost."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

# Commands are run by this process's Python, whatever `rankloop` is on the path.
RUN = "import sys; from rankloop.cli import main; sys.argv[0] = 'rankloop'; main()"
# The characters that tables are drawn with in a terminal.
TABLE = "┏┡│└┃"
# Lines that are left out, as they begin: notes, and the captions of tables.
LEFT_OUT = (
    *("note: ", "wrote ", "import: ", "evaluate: ", "fit: ", "folder ", "dcg@24, as", "Scale: "),
    *(
        "Rows; ",
        "Left out of the log",
        "Problems of the ",
        "missing_features",
        "What this log can",
        "What each command",
    ),
    *("Policies in the order", "Share clicked", "α and β by ", "The 10 documents"),
)
# What the lines contain that name an example of a defect.
EXAMPLE = ": for example "
# Lines of output that are shown per command.
LINES = 14


class Commands:
    """Commands of one log, run in a folder; those that were run before are not run again.

    Args:
        folder: where they run, and where their results are kept.
        data: the folder of the published logs.
    """

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder, self.data = folder, data
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "results.jsonl"
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else []
        self._known: dict[str, Any] = {row["name"]: row["value"] for row in map(json.loads, lines)}
        self.shown: list[str] = []

    def once(self, name: str, compute: Any) -> Any:
        """A value that is computed once."""
        if name not in self._known:
            self._known[name] = compute()
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"name": name, "value": self._known[name]}) + "\n")
        return self._known[name]

    def run(self, command: str, *, lines: int = LINES) -> dict[str, Any]:
        """Run a command, and show it with what it printed; tables and notes are left out."""
        found: dict[str, Any] = self.once(command, lambda: self._run(command))
        text = [line for line in found["output"].splitlines() if line[:1] not in TABLE and line.strip()]
        text = [line for line in text if not line.startswith(LEFT_OUT) and EXAMPLE not in line]
        text = [line.replace(str(self.data), "$RANKLOOP_DATA") for line in text]
        cut = ["…"] if len(text) > lines else []
        code = f", exit code {found['code']}" if found["code"] else ""
        self.shown += [f"```sh\n{command}     # {found['seconds']:.0f} CPU seconds{code}\n```", ""]
        if text:
            self.shown += ["```text", *text[:lines], *cut, "```", ""]
        return found

    def say(self, text: str) -> None:
        """Add a paragraph."""
        self.shown += [text, ""]

    def _run(self, command: str) -> dict[str, Any]:
        words = [word.replace("$RANKLOOP_DATA", str(self.data)) for word in shlex.split(command)]
        before = _seconds()
        done = subprocess.run(
            [sys.executable, "-c", RUN, *words[1:]],
            cwd=self.folder,
            env={**os.environ, "COLUMNS": "100", "RANKLOOP_THREADS": "1", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        output = done.stdout if done.returncode in (0, 1, 4) and done.stdout else done.stdout + done.stderr
        return {"code": done.returncode, "output": output, "seconds": _seconds() - before}


def _seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
