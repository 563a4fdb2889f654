"""Every program in examples/ starts, and says how it is used."""

from __future__ import annotations

import runpy
import sys

import pytest

PROGRAMS = [
    "dependence",
    "efficiency_figure",
    "loop_tables",
    "messy_log",
    "messy_truth",
    "plackett_luce_error",
    "safety_tables",
    "supervised_on_real_data",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_example_explains_its_arguments(
    program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [program, "--help"])
    # The program runs as a script even if another test has imported it.
    monkeypatch.delitem(sys.modules, f"examples.{program}", raising=False)
    with pytest.raises(SystemExit) as left:
        runpy.run_module(f"examples.{program}", run_name="__main__")
    assert not left.value.code
    assert f"usage: python -m examples.{program} " in capsys.readouterr().out
