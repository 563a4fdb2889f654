"""Run the tests with another Python, or with the lowest versions of dependencies that pyproject.toml allows.

    python .ci/versions.py pinned --python 3.13
    python .ci/versions.py lowest --python 3.11 [ARGUMENTS OF PYTEST]

Environments, kernels and the list of the lowest versions go to build/versions. uv, which it installs there,
finds or downloads the interpreter.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BUILD = Path("build/versions")
EXTRAS = ("export", "live", "logs", "reports", "trees")
CONSTRAINTS = Path("constraints.txt")
TESTS = ("-m", "not extras and not long", "--numprocesses", "1", "-p", "no:cacheprovider")
# An old release of one package may call what a new release of another one deprecates.
OLD = (
    "-W", "default::DeprecationWarning", "-W", "default::PendingDeprecationWarning",
    # The page shows help texts in the layout of the pinned typer.
    "--deselect", "tests/cli/test_reference.py::test_the_page_is_up_to_date",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Make the environment and run the tests in it; return the exit code of pytest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", choices=("pinned", "lowest"))
    parser.add_argument("--python", default=f"{sys.version_info.major}.{sys.version_info.minor}")
    options, of_pytest = parser.parse_known_args(arguments)
    name = f"{options.versions}-{Path(options.python).name}"
    uv, environment = install_uv(), BUILD / name
    python = environment / "bin" / "python"
    run(uv, "venv", "--quiet", "--clear", "--python", options.python, environment)
    needed = lowest(uv, python) if options.versions == "lowest" else ("--constraint", CONSTRAINTS)
    wanted = ("--editable", f".[{','.join(EXTRAS)}]", "--group", "test")
    run(uv, "pip", "install", "--quiet", "--python", python, *needed, *wanted)
    run(uv, "pip", "list", "--python", python)
    warnings = OLD if options.versions == "lowest" else ()
    kernels = {"NUMBA_CACHE_DIR": str((BUILD / f"kernels-{name}").absolute())}
    command = [python, "-m", "pytest", *TESTS, *warnings, *of_pytest]
    return subprocess.run(command, check=False, env={**os.environ, **kernels}).returncode


def install_uv() -> Path:
    """Install uv, which resolves to the lowest versions, into an environment of its own."""
    folder = BUILD / "uv"
    if not (folder / "bin" / "uv").exists():
        venv.create(folder, clear=True, with_pip=True)
        run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "uv")
    return folder / "bin" / "uv"


def lowest(uv: Path, python: Path) -> list[Path | str]:
    """What rankloop names, at its lowest version; what only the tests need, at its pinned version.

    Dependencies of dependencies are the newest that fit, as they are when a user installs rankloop into an
    old environment.
    """
    low, pins = BUILD / "lowest.txt", BUILD / "pins.txt"
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    resolve = ("pip", "compile", "--resolution", "lowest-direct", "--quiet", "--no-annotate", "--no-header")
    run(uv, *resolve, "--python", python, "pyproject.toml", *extras, "--output-file", low)
    resolved = {package(line) for line in low.read_text().splitlines()}
    kept = [line for line in CONSTRAINTS.read_text().splitlines() if package(line) not in resolved]
    pins.write_text("\n".join(kept) + "\n")
    return ["--requirement", low, "--constraint", pins]


def package(line: str) -> str:
    """The package of a line of requirements."""
    return canonicalize_name(Requirement(line).name)


def run(*command: Path | str) -> None:
    """Run a command that must succeed."""
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
