"""Links of the README lead to files of the repository, and to addresses in the package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hatch_build import RELATIVE, absolute_links

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_relative_link_leads_to_a_file() -> None:
    paths = [link["path"].partition("#")[0] for link in RELATIVE.finditer(TEXT)]
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_a_package_has_no_relative_links() -> None:
    links = list(RELATIVE.finditer(TEXT))
    plain = absolute_links(TEXT, "", "main")
    assert not RELATIVE.search(plain)
    assert all(link["text"] in plain for link in links if not link["image"])
    absolute = absolute_links(TEXT, "https://example.org/rankloop", "main")
    assert not RELATIVE.search(absolute)
    assert absolute.count("https://example.org/rankloop/") == len(links)


@pytest.mark.long
def test_the_first_lines_of_code_print_what_they_say() -> None:
    code = TEXT.partition("```python\n")[2].partition("```")[0]
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == code.rpartition("# ")[2].strip()


def test_captions_say_how_many_collections_the_figure_shows() -> None:
    drawn = (ROOT / "docs" / "figures" / "data-efficiency.svg").read_text(encoding="utf-8")
    (number,) = re.findall(r"\((\d+) collections, simulated users\)", drawn)
    for page in (TEXT, (ROOT / "docs" / "index.md").read_text(encoding="utf-8")):
        caption = re.sub(r"\s+", " ", page)
        assert f"imulated users, means over {number} collections" in caption
