"""Campaigns: many inputs, one oracle, and a count of what it found wrong."""

from __future__ import annotations

import random
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rankloop.errors import RankloopError

# An attack makes one input and tries it; it returns what is wrong, or None.
Attack = Callable[[random.Random], str | None]
Prepare = Callable[[Path], Attack]


@dataclass
class Campaign:
    """An attack and how often to make it.

    Attributes:
        name: its name on the command line.
        prepare: makes the attack, given a folder of its own.
        inputs: how many inputs are tried in the default suite.
        separate: whether an input may end the process, so that it is tried in another one.
    """

    name: str
    prepare: Prepare
    inputs: int
    separate: bool = False


@dataclass
class Outcome:
    """What a campaign found.

    Attributes:
        inputs: the number of inputs that were tried.
        defects: what was wrong, each with the number of its input.
        seconds: how long it took, in CPU seconds.
    """

    inputs: int = 0
    defects: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, other: Outcome) -> None:
        """Add what another part of the campaign found."""
        self.inputs += other.inputs
        self.defects += other.defects
        self.seconds += other.seconds


CAMPAIGNS: dict[str, Campaign] = {}


def campaign(name: str, *, inputs: int, separate: bool = False) -> Callable[[Prepare], Prepare]:
    """Register a campaign."""

    def register(prepare: Prepare) -> Prepare:
        CAMPAIGNS[name] = Campaign(name, prepare, inputs, separate)
        return prepare

    return register


def carry_out(
    chosen: Campaign,
    folder: Path,
    seed: int,
    *,
    inputs: int | None = None,
    budget: float | None = None,
    first: int = 0,
) -> Outcome:
    """Try inputs until there have been enough, or the time is over.

    Every input has random numbers of its own, so that a defect can be repeated alone, and a campaign resumed
    at its input ``first``.
    """
    attack, outcome = chosen.prepare(folder), Outcome()
    begin, end = time.process_time(), time.monotonic() + (budget or float("inf"))
    while (inputs is None or outcome.inputs < inputs) and time.monotonic() < end:
        number = first + outcome.inputs
        problem = attempt(attack, seed, number)
        if problem is not None:
            outcome.defects.append(f"{chosen.name}, seed {seed}, input {number}: {problem}")
        outcome.inputs += 1
    outcome.seconds = time.process_time() - begin
    return outcome


def attempt(attack: Attack, seed: int, number: int) -> str | None:
    """Try one input; an error that is not the library's own is a defect."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return attack(random.Random(f"{seed} {number}"))
    except RankloopError as error:
        return None if str(error).strip() else "an error without a message"
    except Exception as error:  # the attack is looking for exactly these
        frames = [
            f"{Path(one.filename).name}:{one.lineno}" for one in traceback.extract_tb(error.__traceback__)
        ]
        return f"{type(error).__name__}: {str(error)[:200]} ({' '.join(frames[-4:])})"
