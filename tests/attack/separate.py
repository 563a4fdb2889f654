"""Campaigns in another process: a crash or a hang costs one input, and is reported as a defect."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.attack.campaign import CAMPAIGNS, Outcome, attempt

# Wall seconds for one input: any of them may be the first to need a kernel, which is then compiled.
PATIENCE = 600.0


def serve(name: str, seed: int, first: int) -> None:
    """Try one input after the other, and say what was found; the number of the input is said before it."""
    with tempfile.TemporaryDirectory() as folder:
        attack = CAMPAIGNS[name].prepare(Path(folder))
        number = first
        while sys.stdin.readline():
            found = attempt(attack, seed, number)
            # LightGBM prints to standard output, too: a mark tells our lines from its own.
            os.write(1, b"\n@" + json.dumps(found).encode() + b"\n")
            number += 1


def carry_out_separately(
    name: str, seed: int, *, inputs: int | None = None, budget: float | None = None, first: int = 0
) -> Outcome:
    """As `campaign.carry_out`, in a process that is started again after every crash."""
    outcome, process = Outcome(), None
    end = time.monotonic() + (budget or float("inf"))
    while (inputs is None or outcome.inputs < inputs) and time.monotonic() < end:
        number = first + outcome.inputs
        if process is None:
            process = _start(name, seed, number)
        found = _ask(process)
        outcome.inputs += 1
        if isinstance(found, tuple):
            outcome.defects.append(f"{name}, seed {seed}, input {number}: {found[0]}")
            _end(process)
            process = None
        elif found is not None:
            outcome.defects.append(f"{name}, seed {seed}, input {number}: {found}")
    if process is not None:
        _end(process)
    return outcome


def _start(name: str, seed: int, first: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.attack", "--serve", name, str(seed), str(first)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a process, which ends without input, and wait for it."""
    with process:
        pass


def _ask(process: subprocess.Popen[bytes]) -> str | tuple[str] | None:
    """What an input showed; a tuple if the process did not survive it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    read, end = b"", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        ready, _, _ = select.select([process.stdout], [], [], 1.0)
        if not ready:
            continue
        part = os.read(process.stdout.fileno(), 65536)
        if not part:
            code = process.wait()
            what = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return (f"the process ended with {what}",)
        read += part
        for line in read.split(b"\n")[:-1]:
            if line.startswith(b"@"):
                return json.loads(line[1:])  # type: ignore[no-any-return]
    process.kill()
    process.wait()
    return (f"no answer within {PATIENCE:.0f} seconds",)
