"""Progress where there is a terminal, and where there is none."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from rankloop.cli import console
from rankloop.progress import Update


def test_without_a_terminal_what_is_worth_it_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress() as progress:
        progress(Update("loop", 0.1, "100 [red]"))
        progress(Update("loop", 0.2, "200 [red]\x1b[31m", milestone=True))
        progress(Update("loop", 0.3, milestone=True))
    out, err = capsys.readouterr()
    assert (out, err) == ("", "loop: 200 [red]\\x1b[31m (0 s)\n")


def test_without_a_terminal_a_line_comes_from_time_to_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    with console.progress() as progress:
        for seconds in (1.0, 9.0, 10.0, 11.0, 19.0, 20.5):
            now = seconds
            progress(Update("training", note=f"epoch {seconds:g}"))
    assert capsys.readouterr().err == "training: epoch 10 (10 s)\ntraining: epoch 20.5 (20 s)\n"


def test_in_a_terminal_every_task_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(console, "err", Console(file=screen, force_terminal=True, width=100))
    with console.progress() as progress:
        progress(Update("first", note="beginning"))
        progress(Update("second", 0.25, "learned [red] 0.5"))
        progress(Update("second", 0.5))
        progress(Update("second", 1.0, "learned [red] 0.75"))
    shown = screen.getvalue()
    assert "first" in shown
    assert "learned [red] 0.75" in shown
    assert "0:00:00" in shown


def test_lines_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    long = "[bold]" + "x " * 100
    console.print_out(long)
    console.print_err(long)
    out, err = capsys.readouterr()
    assert out == err == f"{long}\n"
