"""The page on real logs: its parts run where the public data are."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.real_logs.__main__ import PARTS
from experiments.real_logs.commands import Commands

# RankLens has ten fits besides its commands; the page itself is its test.
CHEAP = ("ubi-chorus", "clicks-yandex", "clicks-clara2")


@pytest.mark.long
@pytest.mark.parametrize("name", CHEAP)
def test_a_published_log_goes_from_the_file_to_a_decision(name: str, tmp_path: Path, real_data: Path) -> None:
    if not (real_data / name).is_dir():
        pytest.skip(f"{real_data / name} is not here")
    lines = PARTS[name](tmp_path, real_data)
    text = "\n".join(lines)
    assert "Traceback" not in text
    assert "rankloop import" in text
    decisions = ("better", "worse", "undecided", "minus click rate")
    assert any(decision in text for decision in decisions)
    # What was run is not run again.
    assert PARTS[name](tmp_path, real_data) == lines


def test_commands_are_run_once_and_shown_with_their_exit_code(tmp_path: Path) -> None:
    do = Commands(tmp_path / "work", tmp_path)
    found = do.run("rankloop check nothing")
    assert found["code"] == 2
    assert "exit code 2" in do.shown[0]
    assert "rankloop: nothing" in "\n".join(do.shown)
    again = Commands(tmp_path / "work", tmp_path)
    again.run("rankloop check nothing")
    assert again.shown == do.shown
