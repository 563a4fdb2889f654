"""The public surface: every name can be imported and says what it is, and no class name means two things."""

from __future__ import annotations

import ast
import importlib.util
import inspect
from collections import defaultdict
from pathlib import Path

import pytest

import rankloop

ROOT = Path(rankloop.__file__).parent
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


def test_the_names_of_the_design_are_public() -> None:
    for name in ("bias", "open_log", "fit", "evaluate", "estimate_bias", "rank", "load_fit", "Loop", "Log"):
        assert name in rankloop.__all__


def test_no_public_class_name_exists_twice() -> None:
    places = defaultdict(list)
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


def test_no_package_imports_the_private_module_of_another() -> None:
    found = []
    for path, tree in trees().items():
        package = ["rankloop", *path.parent.relative_to(ROOT).parts]
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("rankloop."):
                continue
            parts = str(node.module).split(".")
            private = [place for place, part in enumerate(parts) if part.startswith("_")]
            # The version is one fact about the whole project.
            if private and parts[-1] != "_version" and parts[: private[0]] != package:
                found.append(f"{path.relative_to(ROOT)}: {node.module}")
    assert found == []
