"""Formulas are where the architecture page says: each at one place, and none in the outer layers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rankloop

ROOT = Path(rankloop.__file__).parent
DOCS = ROOT.parent / "docs"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")

# Folders that count, read, run and show, and ask other packages for whatever is computed.
WITHOUT_FORMULAS = ("logs", "offline", "live", "cli", "reports", "experiments")
# Lines of the bias, and what is derived from them or from guesses of relevance.
QUANTITIES = {
    *("alpha", "alphas", "beta", "betas", "examination", "examined", "exposure", "exposures"),
    *("guess", "guesses", "lambdas", "propensity", "propensities", "relevance", "relevances"),
}
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow)
PRODUCTS = {
    *("add", "subtract", "multiply", "divide", "power"),
    *("dot", "vdot", "inner", "outer", "matmul", "tensordot", "einsum"),
}
# File: why it may compute with them.
EXCEPTIONS = {
    "live/drive.py": "its simulated shoppers know what is relevant; nothing is estimated",
    "experiments/reproduce/claims/exact.py": "how far expected weights are from the true relevance",
}

PAGES_WITH_FORMULAS = sorted(
    path.relative_to(DOCS).as_posix()
    for pattern in ("evidence.md", "offline.md", "bias.md", "training.md", "estimators/*.md")
    for path in DOCS.glob(pattern)
)


def python_files(*folders: str) -> list[Path]:
    """The modules of these folders, and modules that are named themselves."""
    files = [ROOT / name for name in folders if name.endswith(".py")]
    return sorted(files + [path for name in folders for path in (ROOT / name).rglob("*.py")])


def formulas(code: str) -> list[str]:
    """Arithmetic on lines of a bias, exposures, guesses or propensities."""
    tree = ast.parse(code)
    found: list[str] = []
    for scope in ast.walk(tree):
        if isinstance(scope, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef):
            aliases = set(_aliases(scope))
            found += [
                f"line {node.lineno}: {ast.unparse(node)}"
                for node in _of_scope(scope)
                if isinstance(node, ast.expr | ast.stmt)
                if any(_is_quantity(operand, aliases) for operand in _operands(node))
            ]
    return found


def _of_scope(scope: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(scope):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from _of_scope(node)


def _aliases(scope: ast.AST) -> Iterator[str]:
    """Names that are given to such a quantity, as in ``a = bias.alpha``."""
    for node in _of_scope(scope):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=False))
                for name, value in pairs:
                    if isinstance(name, ast.Name) and _is_quantity(value, set()):
                        yield name.id


def _operands(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
        return [node.left, node.right]
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ARITHMETIC):
        return [node.target, node.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PRODUCTS:
        return [*node.args]
    return []


def _is_quantity(node: ast.expr, aliases: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in aliases or not QUANTITIES.isdisjoint(node.id.split("_"))
    if isinstance(node, ast.Attribute):
        return not QUANTITIES.isdisjoint(node.attr.split("_"))
    if isinstance(node, ast.Subscript | ast.Starred):
        return _is_quantity(node.value, aliases)
    if isinstance(node, ast.UnaryOp):
        return _is_quantity(node.operand, aliases)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        # A method of the quantity, or a function of NumPy of it.
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "np":
            return any(_is_quantity(argument, aliases) for argument in node.args)
        return _is_quantity(node.func.value, aliases)
    return False


@pytest.mark.parametrize(
    "code",
    [
        "x = clicks - bias.beta[k]",
        "x = (clicks - n * b.alpha) / a",
        "x += share * policy.exposure.alpha",
        "def f(bias):\n    a, b = bias.alpha, bias.beta\n    return displays @ a",
        "x = np.dot(displays, bias.alpha)",
        "x = -np.abs(bias.alpha) * 2",
        "x = mean_guess / total",
        "x /= bias.examination.sum()",
        "x = lambda bias: 1 - bias.beta",
    ],
)
def test_a_formula_is_recognised(code: str) -> None:
    assert len(formulas(code)) >= 1


@pytest.mark.parametrize(
    "code",
    [
        "x = value.metric.gain(placed, bias)",
        "x = bias.alpha[k] > 0",
        "x = bias.alpha[k + 1]",
        "x = f'{bias.alpha[0]:.2f}'",
        "x = a * b",
    ],
)
def test_what_is_no_formula_is_not(code: str) -> None:
    assert formulas(code) == []


@pytest.mark.parametrize("folder", WITHOUT_FORMULAS)
def test_no_formulas_in_the_outer_layers(folder: str) -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in python_files(folder)
        if (lines := formulas(path.read_text(encoding="utf-8")))
    }
    assert {path: lines for path, lines in found.items() if path not in EXCEPTIONS} == {}
    assert {path for path in EXCEPTIONS if path.startswith(f"{folder}/")} <= found.keys()


def displayed(text: str) -> list[str]:
    """Lines of the formulas that a page displays: indented, and not of a block of code."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return [_plain(line) for line in prose.splitlines() if re.match(r" {4}\S", line)]


def _plain(text: str) -> str:
    return " ".join(text.split())


def formula_rows() -> list[tuple[str, str, str, str]]:
    """Page, formula, file and function of each row of the table."""
    table = PAGE.partition("## Each formula, and where it is")[2].partition("\n## ")[0]
    cell = r"^\| `(.+?)` \| \[[^\]]+\]\(([\w/]+\.md)\) \| `([\w/]+\.py)`, `([\w.]+)` \|$"
    rows = [
        (m[2], _plain(m[1].replace("\\|", "|")), m[3], m[4]) for m in re.finditer(cell, table, re.MULTILINE)
    ]
    assert len(rows) == table.count("\n| `")
    return rows


@pytest.mark.parametrize("page", PAGES_WITH_FORMULAS)
def test_every_displayed_formula_is_in_the_table(page: str) -> None:
    lines = displayed((DOCS / page).read_text(encoding="utf-8"))
    named = [formula for where, formula, _, _ in formula_rows() if where == page]
    assert [line for line in lines if not any(formula in line for formula in named)] == []
    assert [formula for formula in named if not any(formula in line for line in lines)] == []


def test_every_function_of_the_table_exists() -> None:
    rows = formula_rows()
    assert {page for page, _, _, _ in rows} <= set(PAGES_WITH_FORMULAS)
    assert [f"{file}: {name}" for _, _, file, name in rows if not _has(ROOT / file, name)] == []


def _has(path: Path, name: str) -> bool:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split("."):
        match = [n for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == part]
        if not match:
            return False
        body = match[0].body
    return True


PURE = ("types.py", "ragged.py", "estimators", "objectives", "evaluation")
WITHOUT_FILES = (*PURE, "policies", "clicks", "online", "models", "training", "loop", "value", "relevance")
FILE_MODULES = {"os", "pathlib", "shutil", "tempfile", "io", "sqlite3"}
# The number of threads and what to do after a fork are asked of the operating system; no files are.
MAY_IMPORT = {"ragged.py": {"os"}}


def imported(tree: ast.Module) -> set[str]:
    """The top-level packages that a module imports."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).partition(".")[0])
    return names


def called(tree: ast.Module) -> set[str]:
    """The spelling of everything that a module calls."""
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("path", python_files(*WITHOUT_FILES), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_computes_touches_no_files(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert (imported(tree) & FILE_MODULES) - MAY_IMPORT.get(path.relative_to(ROOT).as_posix(), set()) == set()
    assert called(tree) & {"open", "print", "input"} == set()


@pytest.mark.parametrize("path", python_files(*PURE), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_pure_has_no_clock_and_no_random_numbers(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert imported(tree) & {"time", "datetime", "random", "secrets"} == set()
    assert {name for name in called(tree) if "random" in name.split(".")} == set()


def test_random_numbers_have_no_global_state() -> None:
    local = {"default_rng", "Generator", "SeedSequence", "PCG64", "PCG64DXSM", "BitGenerator"}
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files("")
        for name in called(ast.parse(path.read_text(encoding="utf-8")))
        if (match := re.match(r"(?:np|numpy)\.random\.(\w+)", name)) and match[1] not in local
    ]
    assert found == []
