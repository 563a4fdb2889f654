"""Optional packages: which extra of rankloop installs them, and the line that says so when one is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module, util
from types import MappingProxyType
from typing import Any

import lazy_loader

from rankloop.errors import RankloopError

# The packages that are imported, by extra. One extra may install others: those of pyproject.toml do.
EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "logs": ("pyarrow", "duckdb", "ibis"),
        "trees": ("lightgbm",),
        "reports": ("matplotlib",),
        "live": ("msgspec", "prometheus_client", "sqlalchemy", "starlette", "uvicorn"),
        "export": ("onnx", "onnxruntime"),
        "postgres": ("psycopg",),
        "spark": ("pyspark",),
        "ray": ("ray",),
        "torch": ("torch",),
    }
)


# Threads of LightGBM spin while they wait for each other: on a busy machine, trees of small data take ten
# times as long. OpenMP reads this once, when LightGBM is imported; if that was done before, nothing changes.
ENVIRONMENT: Mapping[str, tuple[str, str]] = MappingProxyType({"lightgbm": ("OMP_WAIT_POLICY", "passive")})


class MissingExtraError(ImportError, RankloopError):
    """A package that an extra installs is missing; the message says what to install."""


def require(*extras: str) -> None:
    """Raise unless the packages of all these extras are installed: before long work, all in one message.

    Raises:
        MissingExtraError: some are not.
    """
    missing = {extra: [name for name in EXTRAS[extra] if not _is_installed(name)] for extra in extras}
    if any(missing.values()):
        packages = [name for names in missing.values() for name in names]
        raise MissingExtraError(_message(packages, [extra for extra, names in missing.items() if names]))


def is_installed(extra: str) -> bool:
    """Whether the packages of an extra are there."""
    return all(map(_is_installed, EXTRAS[extra]))


@contextmanager
def explained() -> Iterator[None]:
    """Turn the error of a missing package into one that says which extra to install, if an extra has it.

    >>> with explained():
    ...     raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")
    Traceback (most recent call last):
        ...
    rankloop.extras.MissingExtraError: the package duckdb is not installed: pip install "rankloop[logs]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = next((extra for extra, packages in EXTRAS.items() if package in packages), None)
        if extra is None:
            raise
        raise MissingExtraError(_message([package], [extra]), name=error.name) from error


def load(name: str) -> Any:
    """The module of a package that an extra installs, such as ``lightgbm`` or ``matplotlib.ticker``.

    Raises:
        MissingExtraError: it is not installed.
    """
    if name in ENVIRONMENT:
        os.environ.setdefault(*ENVIRONMENT[name])
    with explained():
        return import_module(name)


def attach_stub(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package with public names in its ``__init__.pyi``.

    Each name is loaded when it is first used; if it needs a package that is missing, the error says which
    extra to install.
    """
    load_name, list_names, names = lazy_loader.attach_stub(package, file)

    def load_explained(name: str) -> Any:
        with explained():
            return load_name(name)

    return load_explained, list_names, names


def _is_installed(package: str) -> bool:
    try:
        return util.find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _message(packages: list[str], extras: list[str]) -> str:
    first, last = ", ".join(packages[:-1]), packages[-1]
    what = f"the packages {first} and {last} are" if first else f"the package {last} is"
    return f'{what} not installed: pip install "rankloop[{",".join(extras)}]"'
