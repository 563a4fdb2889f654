"""Every tutorial is one page and one program of at most 60 lines, and the program runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONGEST = 60
# What each program prints at the end, the same on every processor.
LAST_LINES = {
    "log_to_decision": "the interval of the difference excludes 0: True",
    "simulated_loop": "better than at the beginning: True",
    "live_service": "live by a person's decision: learned",
    "own_estimator": "intervention-aware",
    "own_torch_model": "the same after storing it: True",
}
EXTRAS = {"own_torch_model"}


def test_every_page_has_a_program_and_every_program_a_page() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "tutorials").glob("*.md")}
    assert pages == set(LAST_LINES)
    for name in pages:
        assert f'--8<-- "examples/{name}.py"' in (ROOT / "docs" / "tutorials" / f"{name}.md").read_text()


@pytest.mark.parametrize("name", LAST_LINES)
def test_a_program_is_short(name: str) -> None:
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) <= LONGEST


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.extras if name in EXTRAS else ()) for name in LAST_LINES]
)
def test_a_program_runs(name: str) -> None:
    command = [sys.executable, "-m", f"examples.{name}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith(LAST_LINES[name])
