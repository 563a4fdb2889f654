"""The page about the structure of the code names files and layers that exist."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import rankloop

ROOT = Path(rankloop.__file__).parent
PAGE = (ROOT.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
FILES = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")}
TESTS = {path.relative_to(ROOT.parent).as_posix() for path in (ROOT.parent / "tests").rglob("*.py")}


def test_every_file_on_the_page_exists() -> None:
    # A file may be named without its folder, after another file of that folder.
    known = {part for path in FILES for part in (path, path.rpartition("/")[2])}
    known |= {path.partition("reproduce/")[2] for path in FILES}
    named = set(re.findall(r"`([\w/]+\.py)`", PAGE)) - TESTS
    assert len(named) > 50
    assert named - known == set()


def test_every_folder_and_module_at_the_top_is_on_the_page() -> None:
    table = PAGE.partition("## The tree")[2].partition("## ")[0]
    top = {path.partition("/")[0] + "/" if "/" in path else path for path in FILES}
    assert {name for name in top - {"__init__.py", "_version.py"} if f"`{name}`" not in table} == set()


def test_the_layers_are_those_of_the_linter() -> None:
    settings = tomllib.loads((ROOT.parent / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    table = PAGE.partition("## Layers")[2].partition("## ")[0]
    rows = re.findall(r"^\| ([\w ·]+) \|$", table, re.MULTILINE)
    assert [row.replace(" · ", " | ") for row in rows] == [x for x in contract["layers"] if x != "_version"]


CONSTANT = re.compile(r"^\| `(\w+)` \| `([\w, ]+)` \| `([^`]+)` \|", re.MULTILINE)


def constants(folder: Path) -> set[tuple[str, str]]:
    """The constants of a package, as they are written."""
    return {
        (ast.unparse(node.targets[0]).strip("()"), ast.unparse(node.value).strip("()"))
        for path in folder.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign)
    }


def test_the_index_of_tuned_constants_is_what_the_code_has() -> None:
    rows = CONSTANT.findall((ROOT.parent / "docs" / "design" / "constants.md").read_text(encoding="utf-8"))
    assert len(rows) > 20
    wrong = [row for row in rows if row[1:] not in constants(ROOT / row[0])]
    assert wrong == [], "docs/design/constants.md says something else than the code"
