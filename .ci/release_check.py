"""Check what would be released: a reproducible wheel that works; known licences and vulnerabilities."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.licenses import canonicalize_license_expression
from packaging.metadata import Metadata
from packaging.requirements import Requirement

from hatch_build import RELATIVE
from rankloop.extras import EXTRAS

BUILD = Path("build/release")
LOCK = Path("requirements-lock.txt")
NOT_INSTALLED = "not installed"
# Those of pyproject.toml, which is not in the wheel.
OPTION_FLAGS = "NORMALIZE_WHITESPACE ELLIPSIS"
# A fixed time, so that two builds have the same bytes.
ENVIRONMENT = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
# What a package under the Apache licence may depend on.
ACCEPTED = (
    "apache", "bsd", "mit", "isc", "psf", "python software foundation", "zlib", "mpl", "mozilla", "hpnd",
    "unlicense", "0bsd", "cc0",
    "lgpl",  # psycopg: an optional package that users install themselves and that is not changed
)  # fmt: skip
# A demonstration that takes seconds: the real one differs in its size only.
DEMO = ("demo", "synthetic(queries=100,features=10)", "--horizon", "2000", "--interventions", "2")


def main() -> int:
    """Run all checks; return the number of those that failed."""
    wheel = build("one")
    failures = [
        *check_wheel(wheel, build("two")),
        *check_licences(),
        *check_dependencies(),
        *check_vulnerabilities(),
    ]
    if not failures:
        failures = [*check_installed(wheel)]
    for failure in failures:
        print(f"FAILED: {failure}")
    return len(failures)


def build(name: str) -> Path:
    """Build the wheel into a folder of its own."""
    folder = BUILD / name
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
    return max(folder.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def check_wheel(one: Path, two: Path) -> list[str]:
    """Two builds have the same bytes; metadata are valid; every module is there, and nothing else."""
    failures = []
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (one, two)]
    print(f"{one.name}: sha256 {digests[0]}")
    if digests[0] != digests[1]:
        failures.append("two builds of the wheel differ")
    with zipfile.ZipFile(one) as wheel:
        names = set(wheel.namelist())
        (about,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        found = Metadata.from_email(wheel.read(about), validate=True)
        if not any("licenses/" in name for name in names):
            failures.append("the wheel has no licence")
    if found.description is None or RELATIVE.search(found.description):
        failures.append("the README in the wheel is missing or has relative links, which indexes break")
    needed = len(found.requires_dist or [])
    print(f"metadata: {found.name} {found.version}, {found.license_expression}, {needed} requirements")
    tracked = subprocess.run(["git", "ls-files", "rankloop"], check=True, stdout=subprocess.PIPE, text=True)
    wanted = set(tracked.stdout.splitlines())
    inside = {name for name in names if ".dist-info/" not in name}
    if wanted - inside:
        failures.append(f"not in the wheel: {sorted(wanted - inside)[:5]}")
    if inside - wanted:
        failures.append(f"in the wheel, but not in the repository: {sorted(inside - wanted)[:5]}")
    return failures


def licence_of(package: metadata.Distribution) -> str:
    """The licence that a package states: an expression, a classifier, or a line of text."""
    about = package.metadata
    if expression := about.get("License-Expression"):
        return str(canonicalize_license_expression(expression))
    classified = [
        line.split("::")[-1].strip()
        for line in about.get_all("Classifier") or []
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    text = (about.get("License") or "").strip().splitlines()
    return ", ".join(classified) or (text[0] if text else "unknown")


def check_licences() -> list[str]:
    """Print the licences of everything that a user of rankloop installs."""
    seen: dict[str, str] = {}
    open_ones = ["rankloop"]
    while open_ones:
        package = metadata.distribution(open_ones.pop())
        for line in package.requires or []:
            needed = Requirement(line)
            name = needed.name.lower().replace("_", "-")
            # All extras of rankloop, and none of its dependencies.
            extras = EXTRAS if package.name == "rankloop" else ("",)
            wanted = needed.marker is None or any(needed.marker.evaluate({"extra": one}) for one in extras)
            if name in seen or not wanted:
                continue
            try:
                seen[name] = licence_of(metadata.distribution(needed.name))
                open_ones.append(needed.name)
            except metadata.PackageNotFoundError:
                seen[name] = NOT_INSTALLED
    for name in sorted(seen):
        print(f"licence of {name}: {seen[name][:60]}")
    known = (*ACCEPTED, NOT_INSTALLED)
    unknown = [n for n, text in seen.items() if not any(word in text.lower() for word in known)]
    return [f"the licence of {name} must be looked at: {seen[name]!r}" for name in sorted(unknown)]


def check_installed(wheel: Path) -> Iterator[str]:
    """The wheel works in an empty environment: alone, and with its extras; its README renders."""
    folder = BUILD / "environment"
    venv.create(folder, clear=True, with_pip=True)
    python, program = ((folder / "bin" / name).absolute() for name in ("python", "rankloop"))
    constraints, wheel = Path("constraints.txt").absolute(), wheel.absolute()
    install = [python, "-m", "pip", "install", "--quiet", "--constraint", constraints]
    extras = ",".join(extra for extra in EXTRAS if extra not in ("ray", "spark", "torch"))
    doctests = ["--doctest-modules", "--pyargs", "rankloop", "-o", f"doctest_optionflags={OPTION_FLAGS}"]
    steps: dict[str, list[Path | str]] = {
        "install the wheel": [*install, wheel],
        "help": [program, "--help"],
        "demo without extras": [program, *DEMO, "--out", "bare"],
        "install the extras": [*install, f"{wheel}[{extras}]", "pytest", "twine"],
        "demo": [program, *DEMO, "--out", "whole"],
        "doctests": [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *doctests],
        "README": [python, "-m", "twine", "check", "--strict", wheel],
    }
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for name, command in steps.items():
        begun = time.monotonic()
        # Elsewhere and without PYTHONPATH, so that the wheel is imported and not the checkout.
        done = subprocess.run(command, cwd=folder, env=outside, check=False, capture_output=True, text=True)
        print(f"{name}: {'ok' if done.returncode == 0 else 'failed'}, {time.monotonic() - begun:.0f} s")
        if done.returncode:
            yield f"{name}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
            return


def check_vulnerabilities() -> list[str]:
    """Look up known vulnerabilities of the locked packages, if their database can be reached."""
    folder = BUILD / "audit"
    venv.create(folder, clear=True, with_pip=True)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "pip-audit"]
    audit = [folder / "bin" / "pip-audit", "--disable-pip", "--require-hashes", "--format", "json"]
    for command in (install, [*audit, "--requirement", LOCK]):
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode and not done.stdout.startswith("{"):
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"NOT CHECKED: known vulnerabilities, because pip-audit cannot be run here ({reason})")
            print(f"Run `pip-audit --disable-pip --require-hashes -r {LOCK}` where its database is reached.")
            return []
    found = vulnerabilities(done.stdout)
    print(f"known vulnerabilities in {LOCK}: {len(found)}")
    return found


def vulnerabilities(report: str) -> list[str]:
    """The vulnerable packages in a report of pip-audit."""
    return [
        f"{package['name']} {package['version']} has the known vulnerability {one['id']}; "
        f"fixed in {', '.join(one['fix_versions']) or 'no version'}"
        for package in json.loads(report)["dependencies"]
        for one in package.get("vulns", [])
    ]


def check_dependencies() -> list[str]:
    """What is installed fits together."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "check"], check=False, stdout=subprocess.PIPE, text=True
    )
    return [] if done.returncode == 0 else done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
