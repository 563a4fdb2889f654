"""Processes that are ended at random moments, or run out of disk: the old state or the new one.

A command is ended by a signal, or by a limit on the size of files, at a random moment. Afterwards, what it
writes is as it was before, or as it is after the whole command; and the same command, run again, gives the
same bytes as one that was never ended.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import rankloop
from tests.attack.campaign import Attack, campaign

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
HEADER = "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked"
RUN_FILES = ("spec.json", "facts.json", "results.jsonl", "start.rankloop", "learned.rankloop")


@dataclass(frozen=True)
class Command:
    """A command, and what it leaves behind.

    Attributes:
        words: the command line, with ``{}`` for the folder.
        state: what is there now, given the folder: anything that compares equal.
        finished: whether a state is that of the whole command; None if there is only before and after.
    """

    words: tuple[str, ...]
    state: Callable[[Path], object]
    restarts: bool = False


def _run_state(folder: Path) -> object:
    files = {name: folder / "run" / name for name in RUN_FILES}
    return {name: path.read_bytes() for name, path in files.items() if path.exists()}


def _log_state(folder: Path) -> object:
    return rankloop.open_log(folder / "log").fingerprint if (folder / "log").exists() else None


def _file_state(name: str) -> Callable[[Path], object]:
    def state(folder: Path) -> object:
        path = folder / name
        return path.read_bytes() if path.exists() else None

    return state


COMMANDS = {
    "run": Command(
        ("run", "synthetic(queries=60, features=5)", "--horizon", "3000", "--interventions", "3",
         "--no-oracle", "--out", "{}/run"),
        _run_state,
        restarts=True,
    ),
    "import": Command(
        ("import", "columns", "{}/new.csv", "--out", "{}/log", "--overwrite"), _log_state
    ),
    "append": Command(("import", "columns", "{}/new.csv", "--out", "{}/log", "--append"), _log_state),
    "bias": Command(
        ("bias", "{}/log", "--out", "{}/bias.json", "--resamples", "5", "--seed", "1"),
        _file_state("bias.json"),
    ),
}  # fmt: skip


def _rows(first: int, impressions: int) -> str:
    chosen = random.Random(first)
    lines = [HEADER]
    for number in range(first, first + impressions):
        shown = chosen.sample(range(6), 3)
        lines += [
            f"i{number},{number},q{number % 5},p,{rank},d{document},{int(chosen.random() < 0.5 / rank)}"
            for rank, document in enumerate(shown, 1)
        ]
    return "\n".join(lines) + "\n"


def _start(command: Command, folder: Path, limit: int | None = None) -> subprocess.Popen[bytes]:
    def restrict() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    words = [word.format(folder) if "{}" in word else word for word in command.words]
    return subprocess.Popen(
        [sys.executable, "-c", "from rankloop.cli import main; main()", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "RANKLOOP_THREADS": "1"},
        preexec_fn=restrict,
    )


@campaign("moments", inputs=1)
def attack_moments(folder: Path) -> Attack:
    """Signals and full disks at random moments of run, import, append and bias."""
    begin = folder / "begin"
    (begin / "tmp").mkdir(parents=True)
    (begin / "old.csv").write_text(_rows(0, 40))
    (begin / "new.csv").write_text(_rows(1000, 60))
    from rankloop.logs import import_columns

    import_columns(begin / "old.csv", begin / "log")
    whole: dict[str, tuple[object, object, float]] = {}

    def uninterrupted(name: str) -> tuple[object, object, float]:
        """The states before and after the whole command, and how long it takes."""
        if name not in whole:
            place = Path(shutil.copytree(begin, folder / f"whole-{name}"))
            before, start = COMMANDS[name].state(place), time.monotonic()
            process = _start(COMMANDS[name], place)
            _, errors = process.communicate()
            assert process.returncode == 0, errors.decode()
            whole[name] = before, COMMANDS[name].state(place), time.monotonic() - start
        return whole[name]

    def attack(chosen: random.Random) -> str | None:
        name = chosen.choice(list(COMMANDS))
        command, (before, after, seconds) = COMMANDS[name], uninterrupted(name)
        place = folder / "place"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(begin, place)
        full = chosen.random() < 0.25
        process = _start(command, place, chosen.choice([0, 100, 1000, 4000]) if full else None)
        if not full:
            time.sleep(chosen.uniform(0.0, 1.1 * seconds))
            process.send_signal(chosen.choice(SIGNALS))
        _, errors = process.communicate()
        if b"Traceback" in errors and not _is_interrupt(errors):
            return f"{name}: a traceback: {errors.decode(errors='replace')[-300:]}"
        now = command.state(place)
        if not command.restarts and now not in (before, after):
            return f"{name}: neither the state before nor the one after"
        return _again(name, place, before, after)

    return attack


def _is_interrupt(errors: bytes) -> bool:
    """Whether Python itself was interrupted while it started."""
    return b"KeyboardInterrupt" in errors


def _again(name: str, place: Path, before: object, after: object) -> str | None:
    """Run the same command again: it ends as if it had never been ended."""
    command = COMMANDS[name]
    appended = name == "append" and command.state(place) == after != before
    process = _start(command, place)
    _, errors = process.communicate()
    if process.returncode != 0:
        return f"{name}: run again, it fails: {errors.decode(errors='replace')[-300:]}"
    if command.state(place) != after:
        return f"{name}: run again, it gives something else{' (after the end)' if appended else ''}"
    left = [path.name for path in place.rglob("*") if path.name.endswith((".rankloop-tmp", ".rankloop-lock"))]
    return f"{name}: left behind: {left}" if left else None
