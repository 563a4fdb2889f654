"""Write requirements-lock.txt: every package of the development environment, with the hashes of its files.

The versions are those of constraints.txt; the hashes are those of the files that pip chooses on this system
and for this version of Python.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOCK = Path("requirements-lock.txt")
WANTED = ("--editable", ".[export,live,logs,reports,trees]", "--group", "dev")


def main() -> None:
    """Ask pip what it would install, and write it down."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
    command += ["--disable-pip-version-check", "--constraint", "constraints.txt", "--report", "-", *WANTED]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    entries = {}
    for document in json.loads(done.stdout)["install"]:
        if document["download_info"].get("dir_info"):
            continue  # rankloop itself
        about, hashes = document["metadata"], document["download_info"]["archive_info"]["hashes"]
        entries[about["name"].lower()] = (
            f"{about['name']}=={about['version']} --hash=sha256:{hashes['sha256']}"
        )
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    head = f"# Python {python}, {sys.platform}; written by `make lock`, installed by `make setup-locked`.\n"
    LOCK.write_text(head + "".join(entries[name] + "\n" for name in sorted(entries)))
    print(f"{LOCK}: {len(entries)} packages")


if __name__ == "__main__":
    main()
