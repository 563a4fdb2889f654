"""Fixtures shared by all tests."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from rankloop import cli
from rankloop.cli import console
from tests.cli.commands import Outcome, Run, plain

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("RANKLOOP_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of public data sets; set RANKLOOP_DATA to run these tests elsewhere."""
    if not DATA.is_dir():
        pytest.skip(f"no real data at {DATA}: set RANKLOOP_DATA to its folder")
    return DATA


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """Inputs and outputs of the paper authors' own programs."""
    path = DATA.parent / "golden" / "reference.json"
    if not path.is_file():
        pytest.skip(f"no golden values at {path}: set RANKLOOP_DATA to the data folder beside them")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run the command line in an empty folder, as the installed script does, on 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(console, "out", Console(width=80))
    monkeypatch.setattr(console, "err", Console(stderr=True))

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["rankloop", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capsys.readouterr()
        return Outcome(int(left.value.code or 0), plain(out), plain(err))

    return run


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
