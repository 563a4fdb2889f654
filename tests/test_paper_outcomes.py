"""The table of outcomes in docs/paper says what the pages of claims say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rankloop.experiments.reproduce.about import About
from rankloop.experiments.reproduce.claims import CLAIMS, judge
from rankloop.experiments.reproduce.results import AllRuns, read_table

PAPER = Path(__file__).parents[1] / "docs" / "paper"
COLUMNS = ("medium", "synthetic", "mq2008", "mq2008-authors", "mslr")
CLAIM = re.compile(
    r"^\| ([✓✗?]) (\S+) \| (holds|does not hold|undecided) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE
)
ROW = re.compile(r"^\| \[([a-z0-9-]+)\]\(medium/claims\.md#\1\) \| [^|]+ \| (.+) \|$", re.MULTILINE)
# Decisions of longer runs than those of the column, which the page explains.
FOOTNOTE = re.compile("[¹²³]")


def decisions(folder: str) -> dict[str, str]:
    found = {}
    for mark, name, decision, runs in CLAIM.findall((PAPER / folder / "claims.md").read_text("utf-8")):
        found[name] = f"{mark} {decision}" + ("" if runs == "–" else f" ({runs} runs)")
    return found


def test_the_table_of_outcomes_is_that_of_the_claims() -> None:
    rows = dict(ROW.findall((PAPER / "README.md").read_text("utf-8")))
    pages = [decisions(folder) for folder in COLUMNS]
    assert len(rows) == 23
    for page in pages:
        assert page.keys() == rows.keys()
    for name, cells in rows.items():
        for folder, page, cell in zip(COLUMNS, pages, cells.split(" | "), strict=True):
            assert FOOTNOTE.search(cell) or cell == page[name], f"{name}, {folder}"


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in PAPER.glob("*/claims.json")))
def test_stored_results_are_judged_as_their_pages_say(folder: str) -> None:
    stored = json.loads((PAPER / folder / "claims.json").read_text("utf-8"))
    evidence = AllRuns.of(read_table(PAPER / folder))
    judged = {claim.name: judge(claim, evidence) for claim in CLAIMS}
    assert {one["name"]: one["outcome"] for one in stored} == {
        name: one.outcome for name, one in judged.items()
    }
    about = About.read(PAPER / folder)
    known = set(about.preset.seeds)
    assert set(evidence.seeds) <= known
