"""Links of the README lead to files of the repository, and to addresses in the package."""

from __future__ import annotations

from pathlib import Path

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
