"""Text from outside on pages, on terminals and in paths."""

from __future__ import annotations

import io
import random
import shutil
from html.parser import HTMLParser
from pathlib import Path

from rich.console import Console

import rankloop
from rankloop.logs import ImportOptions, import_columns
from rankloop.reports.check import check_document
from rankloop.reports.html import html_page
from rankloop.reports.terminal import print_document
from tests.attack.campaign import Attack, campaign

HOSTILE = (
    "<script>alert(1)</script>", "\"'><img src=x onerror=alert(1)>", "</style><b>", "&lt;", "javascript:x",
    "\u202egnp.exe", "\u2066a\u2069", "\u2028", "é" * 3000, "\x1b[31mred\x1b]0;t\x07", "..", "../../x",
    "/etc/x", "a\rb", "%s{0}$(x)`y`", "\\", "[link](http://x)", "|", "NaN", " ",
)  # fmt: skip


class _Tags(HTMLParser):
    """The tags of a page, and where text or attributes would run as a program."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        bad = [
            name for name, value in attrs if name.startswith("on") or "javascript:" in (value or "").lower()
        ]
        if bad or tag in ("img", "b", "iframe", "object"):
            self.found.append(f"<{tag} {bad}>")
        if tag == "script":
            self.found.append("<script>")


@campaign("pages", inputs=2)
def attack_pages(folder: Path) -> Attack:
    """Hostile ids in a log: its page has no tag of theirs, and the terminal no escape code."""

    def attack(chosen: random.Random) -> str | None:
        def name() -> str:
            return "".join(chosen.sample(HOSTILE, chosen.randrange(1, 3)))

        shutil.rmtree(folder / "log", ignore_errors=True)
        rows = "".join(
            ",".join(
                '"' + value.replace('"', '""') + '"'
                for value in (f"i{n}", str(n), name(), chosen.choice(HOSTILE[:4]), "1", name(), str(n % 2))
            )
            + "\n"
            for n in range(6)
        )
        source = folder / "rows.csv"
        source.write_text(
            "impression_id,timestamp,query_id,policy_id,position,doc_id,clicked\n" + rows,
            newline="",
            encoding="utf-8",
        )
        import_columns(source, folder / "log", options=ImportOptions(max_loss=1.0))
        document = check_document(rankloop.open_log(folder / "log").check())
        tags = _Tags()
        tags.feed(html_page(document))
        if tags.found:
            return f"tags that nobody asked for: {tags.found[:3]}"
        screen = Console(file=io.StringIO(), width=200, force_terminal=False)
        print_document(document, screen)
        written = screen.file.getvalue()  # type: ignore[attr-defined]
        if any(letter in written for letter in "\x1b\x07\r\u202e\u2066"):
            return "an escape code or a change of direction on the terminal"
        outside = [path.name for path in folder.iterdir() if path.name not in ("log", "rows.csv")]
        return f"files outside the log: {outside}" if outside else None

    return attack
