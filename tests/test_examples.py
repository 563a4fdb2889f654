"""Programs in examples/ and experiments/ start, and say how they are used."""

from __future__ import annotations

import runpy
import sys

import pytest

PROGRAMS = [
    "examples.messy_log",
    "examples.messy_truth",
    "experiments.decision_table",
    "experiments.dependence",
    "experiments.efficiency_figure",
    "experiments.live_loops",
    "experiments.live_traffic",
    "experiments.loop_tables",
    "experiments.plackett_luce_error",
    "experiments.safety_tables",
    "experiments.scale",
    "experiments.self_test_table",
    "experiments.supervised_on_real_data",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_explains_its_arguments(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    # The program runs as a script even if another test has imported it.
    monkeypatch.delitem(sys.modules, program, raising=False)
    with pytest.raises(SystemExit) as left:
        runpy.run_module(program, run_name="__main__")
    assert not left.value.code
    assert f"usage: python -m {program} " in capsys.readouterr().out
