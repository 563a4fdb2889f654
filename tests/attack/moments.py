"""Commands in trouble: ended at random moments, without disk or memory, side by side, moved, out of time.

Afterwards, what a command writes is as it was before, or as it is after the whole command; and the same
command, run again, gives the same bytes as one that had no trouble. Commands are forked from a process that
has imported everything (`tests.attack.forked`), so that a trial takes a second or two.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import rankloop
from rankloop.logs import import_columns
from tests.attack.campaign import Attack, campaign
from tests.attack.forked import NO_TROUBLE, Trouble, cpu_seconds, errors_of, start
from tests.offline.worlds_of_logs import simulated

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
HEADER = "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked"
RUN_FILES = ("spec.json", "facts.json", "results.jsonl", "start.rankloop", "learned.rankloop")
# Seconds between two looks at the CPU time of a command.
LOOK = 0.002
# A user who may read the folder, and not write to it.
NOBODY = 65534
YEARS = 10 * 365 * 86400.0


@dataclass(frozen=True)
class Command:
    """A command, and what it leaves behind.

    Attributes:
        words: the command line, with ``{}`` for the folder.
        state: what is there now, given the folder: anything that compares equal.
        partial: whether it stores its progress, so that there are states between before and after.
    """

    words: tuple[str, ...]
    state: Callable[[Path], object]
    partial: bool = False

    def start(self, folder: Path, trouble: Trouble = NO_TROUBLE) -> ForkServerProcess:
        """Start it in a folder."""
        words = [word.format(folder) if "{}" in word else word for word in self.words]
        return start(words, folder, trouble)


def _run_state(folder: Path) -> object:
    files = {name: folder / "run" / name for name in RUN_FILES}
    return {name: path.read_bytes() for name, path in files.items() if path.exists()}


def _reproduction_state(folder: Path) -> object:
    home = folder / "paper"
    files = [
        *home.glob("runs/*/*/*.jsonl"),
        *home.glob("runs/*/*/learned.rankloop"),
        *home.glob("results.csv"),
    ]
    return {path.relative_to(home): path.read_bytes() for path in files}


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
        partial=True,
    ),
    "reproduce": Command(
        ("reproduce", "synthetic(queries=60, features=5)", "--only", "pdgd", "--runs", "1",
         "--horizon", "300", "--out", "{}/paper"),
        _reproduction_state,
        partial=True,
    ),
    "import": Command(
        ("import", "columns", "{}/new.csv", "--out", "{}/log", "--overwrite"), _log_state
    ),
    "append": Command(("import", "columns", "{}/new.csv", "--out", "{}/log", "--append"), _log_state),
    "bias": Command(
        ("bias", "{}/log", "--out", "{}/bias.json", "--resamples", "0", "--seed", "1"),
        _file_state("bias.json"),
    ),
    # Ctrl-C stores the best model so far.
    "fit": Command(
        ("fit", "{}/simulated", "--model", "linear", "--bias", "paper@3", "--seed", "1", "--out", "{}/fit"),
        _file_state("fit/model.rankloop"),
        partial=True,
    ),
}  # fmt: skip


def random_table(first: int, impressions: int) -> str:
    """A log as CSV: random orders of six documents for five queries, of different relevance."""
    chosen = random.Random(first)
    lines = [HEADER]
    for number in range(first, first + impressions):
        shown = chosen.sample(range(6), 3)
        for rank, document in enumerate(shown, 1):
            clicked = int(chosen.random() < (document + 1) / (7 * rank))
            lines.append(f"i{number},{number},q{number % 5},p,{rank},d{document},{clicked}")
    return "\n".join(lines) + "\n"


class Trial:
    """A place in which commands have trouble, and what they do without any.

    Attributes:
        place: the folder, as it was before each command.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._begin, self.place = folder, folder / "begin", folder / "place"
        folder.chmod(0o755)  # temporary folders are private
        (self._begin / "tmp").mkdir(parents=True)
        (self._begin / "tmp").chmod(0o777)
        (self._begin / "old.csv").write_text(random_table(0, 3000))
        (self._begin / "new.csv").write_text(random_table(5000, 60))
        import_columns(self._begin / "old.csv", self._begin / "log")
        simulated(self._begin / "simulated", queries=20, impressions=500)
        self._whole: dict[str, tuple[object, object, float]] = {}

    def uninterrupted(self, name: str) -> tuple[object, object, float]:
        """The states before and after the whole command, and the CPU seconds that it takes."""
        if name not in self._whole:
            self.reset()
            before, seconds = COMMANDS[name].state(self.place), 0.0
            process = COMMANDS[name].start(self.place)
            while process.is_alive():
                seconds = cpu_seconds(process) or seconds
                time.sleep(LOOK)
            assert process.exitcode == 0, errors_of(self.place)
            self._whole[name] = before, COMMANDS[name].state(self.place), seconds
        return self._whole[name]

    def reset(self) -> None:
        """Make the place what it was."""
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(self._begin, self.place)

    def end_at_some_moment(self, process: ForkServerProcess, seconds: float, kind: signal.Signals) -> None:
        """Send a signal when a process has taken so much CPU time."""
        while process.is_alive() and cpu_seconds(process) < seconds:
            time.sleep(LOOK)
        if process.is_alive():
            os.kill(process.pid or 0, kind)
        process.join()

    def problem(self, name: str, exit_code: int | None, *, whole: bool = False) -> str | None:
        """What is wrong after a command; with ``whole``, there are only the states before and after."""
        command, (before, after, _) = COMMANDS[name], self.uninterrupted(name)
        errors = errors_of(self.place)
        if "Traceback" in errors and "KeyboardInterrupt" not in errors:
            return f"{name}: a traceback: {errors[-400:]}"
        if exit_code == 0 and command.state(self.place) != after and not command.partial:
            return f"{name}: it ended well with another state"
        if (whole or not command.partial) and command.state(self.place) not in (before, after):
            return f"{name}: neither the state before nor the one after"
        return None

    def again(self, name: str) -> str | None:
        """Run the same command again: it ends as if it had never been ended."""
        _, after, _ = self.uninterrupted(name)
        process = COMMANDS[name].start(self.place)
        process.join()
        if process.exitcode != 0:
            return f"{name}: run again, it fails: {errors_of(self.place)[-300:]}"
        if COMMANDS[name].state(self.place) != after:
            return f"{name}: run again, it gives something else"
        endings = (".rankloop-tmp", ".rankloop-lock")
        left = [path.name for path in self.place.rglob("*") if path.name.endswith(endings)]
        return f"{name}: left behind: {left}" if left else None


@campaign("moments", inputs=3)
def attack_moments(folder: Path) -> Attack:
    """Amounts at random moments; a folder that is moved before the command is run again."""
    trial = Trial(folder)

    def attack(chosen: random.Random) -> str | None:
        name = chosen.choice(list(COMMANDS))
        _, _, seconds = trial.uninterrupted(name)
        trial.reset()
        process = COMMANDS[name].start(trial.place)
        trial.end_at_some_moment(process, chosen.uniform(0.0, 1.05 * seconds), chosen.choice(SIGNALS))
        problem = trial.problem(name, process.exitcode)
        if problem is None and chosen.random() < 0.2:
            home, trial.place = trial.place, trial.place.with_name("moved")
            home.rename(trial.place)
            problem = trial.again(name)
            shutil.rmtree(trial.place)
            trial.place = home
            return problem
        return problem or trial.again(name)

    return attack


@campaign("scarcity", inputs=2)
def attack_scarcity(folder: Path) -> Attack:
    """Full disks, little memory, folders that may not be written to, clocks that jump, two at once."""
    trial = Trial(folder)
    kinds: tuple[Callable[[random.Random], Trouble], ...] = (
        lambda chosen: Trouble(file_bytes=chosen.choice([0, 100, 1000, 4000])),
        lambda chosen: Trouble(memory_bytes=chosen.randrange(0, 400) * 2**20),
        lambda chosen: Trouble(clock_jump=chosen.choice([-YEARS, -3600.0, 3600.0, YEARS])),
        *((lambda _: Trouble(user=NOBODY),) if os.getuid() == 0 else ()),
    )

    def attack(chosen: random.Random) -> str | None:
        name = chosen.choice(list(COMMANDS))
        trial.uninterrupted(name)
        trial.reset()
        if chosen.random() < 0.2 and name != "append":
            return _side_by_side(trial, name)
        trouble = chosen.choice(kinds)(chosen)
        process = COMMANDS[name].start(trial.place, trouble)
        process.join()
        if (process.exitcode or 0) < 0:
            return f"{name}: ended by signal {-(process.exitcode or 0)} with {trouble}"
        if trouble.clock_jump and process.exitcode != 0:
            return f"{name}: fails when the clock jumps: {errors_of(trial.place)[-300:]}"
        if process.exitcode not in (0, 2):
            return f"{name}: exit code {process.exitcode} with {trouble}: {errors_of(trial.place)[-300:]}"
        return trial.problem(name, process.exitcode) or trial.again(name)

    return attack


def _side_by_side(trial: Trial, name: str) -> str | None:
    """Two processes do the same in one folder: one of them ends well, and so does the folder."""
    both = [COMMANDS[name].start(trial.place) for _ in range(2)]
    for process in both:
        process.join()
    codes = sorted(process.exitcode or 0 for process in both)
    if codes not in ([0, 0], [0, 2]):
        return f"{name}: two at once end with {codes}: {errors_of(trial.place)[-300:]}"
    return trial.problem(name, None, whole=True) or trial.again(name)
