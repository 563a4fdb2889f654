"""The public surface: every name can be imported and says what it is, and no class name means two things."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import rankloop

ROOT = Path(rankloop.__file__).parent
CODE = re.compile(r"`([\w.]+)`")
PACKAGES = sorted(
    ".".join(["rankloop", *path.parent.relative_to(ROOT).parts]) for path in ROOT.rglob("__init__.py")
)


def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_can_be_imported_and_has_a_docstring(package: str) -> None:
    module = importlib.import_module(package)
    assert module.__doc__
    for name in getattr(module, "__all__", []):
        if name == "__version__":
            continue
        if name == "TorchModel" and importlib.util.find_spec("torch") is None:
            continue
        value = getattr(module, name)
        if inspect.ismodule(value) or inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, f"{package}.{name}"


@pytest.mark.parametrize("stub", sorted(ROOT.rglob("__init__.pyi")), ids=lambda stub: stub.parent.name)
def test_no_public_name_is_that_of_the_module_that_has_it(stub: Path) -> None:
    """With an older lazy-loader, `rankloop.sensitivity` was the module and could not be called."""
    module = importlib.import_module(".".join(stub.parent.relative_to(ROOT.parent).parts))
    taken = {path.stem for path in stub.parent.glob("*.py")}
    values = {name: getattr(module, name) for name in taken.intersection(getattr(module, "__all__", []))}
    assert {name for name, value in values.items() if not inspect.ismodule(value)} == set()


def test_the_names_of_the_design_are_public() -> None:
    for name in ("bias", "open_log", "fit", "evaluate", "estimate_bias", "rank", "load_fit", "Loop", "Log"):
        assert name in rankloop.__all__


def test_the_documentation_lists_the_names_that_are_public() -> None:
    page = (ROOT.parent / "docs" / "api.md").read_text(encoding="utf-8")
    table = page.partition("## What is public")[2]
    listed = {name for row in table.splitlines() if row.startswith("| `") for name in CODE.findall(row)}
    names = {name for name in listed if not name.startswith("rankloop")}
    packages = {name.removeprefix("rankloop.") for name in listed if name.startswith("rankloop.")}
    assert names | packages == set(rankloop.__all__) - {"__version__"}


def test_no_public_class_name_exists_twice() -> None:
    places = defaultdict(list)
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def imported(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """The dotted path of every name that a module imports from this project, and of its module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((*str(node.module).split("."), alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


@pytest.mark.parametrize("folder", ["rankloop", "examples", "experiments", "benchmarks"])
def test_what_is_private_is_imported_only_by_its_own_package(folder: str) -> None:
    found = []
    for path in sorted((ROOT.parent / folder).rglob("*.py")):
        importer = path.relative_to(ROOT.parent).with_suffix("").parts
        for name in imported(ast.parse(path.read_text(encoding="utf-8"))):
            if name[0] not in ("rankloop", "examples", "experiments", "benchmarks"):
                continue
            for place, part in enumerate(name):
                # A private module or name may be used below the package that holds it, and nowhere else.
                if is_private(part) and importer[:place] != name[:place]:
                    found.append(f"{'/'.join(importer)}: {'.'.join(name)}")
    assert found == []


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_reaches_into_another(path: Path) -> None:
    """A module that is imported as a whole is used by its public names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    found = [
        f"line {node.lineno}: {node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id in modules and is_private(node.attr)
    ]
    assert found == []
