"""Compiled kernels are those of the source that is there now."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

from rankloop.kernels import expected_ranks, machine_code
from rankloop.kernels.machine_code import FOLDER, dependencies, source_hash

CALLED = "from rankloop.kernels.jit import kernel\n\n@kernel\ndef step(x):\n    return x + {}\n"
CALLING = (
    "from rankloop.kernels.called import step\nfrom rankloop.kernels.jit import kernel\n\n"
    "@kernel\ndef twice(x):\n    return step(step(x))\n"
)
PROGRAM = """
from rankloop.kernels.calling import twice
value = twice(0)
print(value, sum(twice.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with two kernels, one of which calls the other."""
    kernels = tmp_path / "rankloop" / "kernels"
    kernels.mkdir(parents=True)
    (tmp_path / "rankloop" / "__init__.py").touch()
    for name in ("__init__.py", "jit.py", "machine_code.py"):
        shutil.copyfile(FOLDER / name, kernels / name)
    (kernels / "called.py").write_text(CALLED.format(1))
    (kernels / "calling.py").write_text(CALLING)
    return kernels


def run(package: Path, **environment: str) -> tuple[int, int]:
    """The result of the calling kernel in a new process, and how often its code was found in the cache."""
    # Python's own cache would not notice a change that keeps the size and the time of a file.
    fixed = {"PYTHONPATH": str(package.parent.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    settings = {**os.environ, **fixed, **environment}
    settings = {name: value for name, value in settings.items() if value}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=settings, cwd=package, capture_output=True, text=True, check=True
    )
    value, found = map(int, done.stdout.split())
    return value, found


def test_a_change_in_a_called_kernel_of_another_file_is_seen(package: Path) -> None:
    """Before: the code of the old kernel went on running, also after an update of the package."""
    own = {"NUMBA_CACHE_DIR": ""}
    assert run(package, **own) == (2, 0)
    assert run(package, **own) == (2, 1)
    changed = package / "called.py"
    before = changed.stat()
    changed.write_text(CALLED.format(5))
    os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(package, **own) == (10, 0)
    changed.write_text(CALLED.format(1))
    assert run(package, **own) == (2, 1)


@pytest.mark.long
def test_code_that_checks_bounds_is_kept_apart(package: Path) -> None:
    """Before: a run with bounds checking was served code without it, and the other way round."""
    own = {"NUMBA_CACHE_DIR": ""}
    assert run(package, **own) == (2, 0)
    assert run(package, NUMBA_BOUNDSCHECK="1", **own) == (2, 0)
    assert run(package, **own) == (2, 1)


def test_hashes_follow_imports(package: Path) -> None:
    calling, jit = package / "calling.py", package / "jit.py"
    names = {path.stem for path in dependencies(calling, package)}
    assert names == {"calling", "called", "jit", "machine_code"}
    before = source_hash(calling, package), source_hash(jit, package)
    (package / "called.py").write_text(CALLED.format(7))
    source_hash.cache_clear()
    assert source_hash(calling, package) != before[0]
    assert source_hash(jit, package) == before[1]


def test_all_kernels_are_cached_by_source() -> None:
    """numba's own names of these classes may change: then nothing would be cached, without an error."""
    stamp = source_hash(FOLDER / "expected_ranks.py")
    compiled: Any = expected_ranks.add_documents_ahead
    assert compiled._cache._cache_file._source_stamp.startswith(stamp)
    assert stamp in compiled._cache._cache_file._index_name


def test_without_a_place_for_code_kernels_are_compiled_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: in a container without a home folder, a read-only install could not even be imported."""
    monkeypatch.setattr(machine_code._KernelCacheImpl, "_locator_classes", [])
    compiled = machine_code.cache_machine_code(numba.njit(lambda x: x + 1))
    assert compiled(1) == 2
