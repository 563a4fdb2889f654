"""Tests that take many minutes, and run only when they are asked for; what they counted goes to a file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

campaign = pytest.mark.skipif(
    not os.environ.get("RANKLOOP_CAMPAIGNS"), reason="takes many minutes: make campaigns runs it"
)
RESULTS = Path(__file__).parents[2] / "build" / "campaigns.jsonl"


def report(name: str, **numbers: object) -> None:
    """Append what a campaign counted to its file, for `docs/results/live.md`."""
    if os.environ.get("RANKLOOP_CAMPAIGNS"):
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps({"campaign": name, **numbers}) + "\n")
