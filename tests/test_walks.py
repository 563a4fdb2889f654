"""How many files a reader of a command visits: those in which a function runs, as a profiler sees it.

The bounds are those of docs/architecture.md: what was reached, so that walks do not become longer unnoticed.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import rankloop
from rankloop.clicks import gather_log, users
from rankloop.logs import write_simulated
from rankloop.logs.importers.mapped import import_files
from rankloop.offline import Log, open_log
from tests.logs.importers.searches import ONLY_ROWS, flat, table

ROOT = Path(__file__).parents[1]
PACKAGE = f"{ROOT}/rankloop/"
# Code of functions has local variables of its own, that of modules and classes does not.
OPTIMISED = 0x1
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def files_of(call: Callable[[], Any]) -> tuple[Any, set[str]]:
    """The result of a call, and the files of the package in which a function ran."""
    files: set[str] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_flags & OPTIMISED and code.co_filename.startswith(PACKAGE):
            files.add(code.co_filename.removeprefix(PACKAGE))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        return call(), files
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng, split = np.random.default_rng(0), rankloop.synthetic(queries=100, features=4).train
    traffic = []
    for policy in ("first", "second"):
        scores = rng.normal(size=split.n_documents)
        shown = gather_log(scores, split.offsets, split.labels / 4, users("paper@3"), 2_000, rng)
        traffic.append(rankloop.logs.PolicyTraffic(policy, scores, shown))
    return write_simulated(tmp_path_factory.mktemp("walks") / "log", split, traffic)


def bound(command: str) -> int:
    found = re.search(rf"^\| `{re.escape(command)}` \| (\d+) \|", PAGE, re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_an_import_is_no_longer_than_the_page_says(tmp_path: Path) -> None:
    """A clean table: first looked at, then as the mapping in its log says."""
    path = table(tmp_path / "t.csv", list(ONLY_ROWS), flat())
    _, looked = files_of(lambda: import_files(path, tmp_path / "log"))
    mapping = tmp_path / "log" / "mapping.toml"
    _, mapped = files_of(lambda: import_files(path, tmp_path / "again", mapping=mapping))
    assert len(looked) <= bound("import_files")
    assert len(mapped) <= bound("import_files(mapping=…)")


def test_walks_are_no_longer_than_the_page_says(folder: Path) -> None:
    def opened() -> Log:
        return open_log(folder)

    found = {"bias": files_of(lambda: opened().estimate_bias())}
    found["check"] = files_of(lambda: opened().check())
    found["fit"] = files_of(lambda: opened().fit("lightgbm(rounds=5)"))
    fit, _ = found["fit"]
    found["evaluate"] = files_of(lambda: opened().evaluate(fit, against=fit.comparison.against.name))
    assert {name: len(files) for name, (_, files) in found.items() if len(files) > bound(name)} == {}
    assert all(len(files) > 10 for _, files in found.values())
