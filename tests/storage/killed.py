"""Processes that end without a chance to clean up."""

from __future__ import annotations

import signal
import subprocess
import sys


def run_until_killed(program: str, *arguments: object) -> None:
    """Run a program that prints a line where it is to be killed; nothing in it runs after that line."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline(), "the program ended before it could be killed"
        process.kill()
    assert process.returncode == -signal.SIGKILL
