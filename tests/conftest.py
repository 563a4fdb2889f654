"""Fixtures shared by all tests."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from rich.console import Console

from rankloop import cli
from rankloop.cli import console
from tests.cli.commands import Outcome, Run, plain

ROOT = Path(__file__).parents[1]
# It works when it is imported, which is for the server of forked commands only.
collect_ignore = ["attack/warm.py"]
# The folder of public data sets; a sibling folder ``golden`` holds reference.json.
DATA_VARIABLE = "RANKLOOP_DATA"

# Workers share the cores, so LightGBM's threads must not spin while they wait for each other: that doubles
# the time of training. It must be set before LightGBM is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# The same examples in every run, and no limit on how long one takes: machines differ.
settings.register_profile("rankloop", derandomize=True, deadline=None, database=None)
settings.load_profile("rankloop")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of public data sets."""
    given = os.environ.get(DATA_VARIABLE)
    if not given:
        pytest.skip(f"needs public data sets: set {DATA_VARIABLE} to their folder")
    folder = Path(given).resolve()
    if not folder.is_dir():
        pytest.fail(f"{DATA_VARIABLE} is {given}, which is not a folder: correct it or unset it")
    return folder


@pytest.fixture(scope="session")
def golden(real_data: Path) -> dict[str, Any]:
    """Inputs and outputs of the paper authors' own programs."""
    path = real_data.parent / "golden" / "reference.json"
    if not path.is_file():
        pytest.skip(f"needs golden values: {path} is not a file ({DATA_VARIABLE} is {real_data})")
    return json.loads(path.read_text())  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL of this session."""
    pgserver = pytest.importorskip("pgserver", reason="no PostgreSQL for tests on this system")
    # Not in the folder of pytest: every session takes other users' access to it away, and the server is one.
    with tempfile.TemporaryDirectory(prefix="rankloop-postgres-") as folder:
        data = Path(folder) / "data"
        server = pgserver.get_server(data, cleanup_mode="delete")
        yield server.get_uri()
        if not server.get_postmaster_info().is_running() and (data / "log").is_file():
            # It vanished twice in long campaigns, and its log with it.
            (ROOT / "build").mkdir(exist_ok=True)
            shutil.copy(data / "log", ROOT / "build" / "postgresql.log")
        server.cleanup()


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
