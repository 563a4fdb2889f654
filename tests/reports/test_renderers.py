"""A document as HTML, in the terminal and as Markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankloop.reports.document import (
    Cell,
    Column,
    Document,
    Examples,
    Facts,
    Figure,
    Figures,
    LegendEntry,
    Listing,
    Section,
    Table,
    Text,
)
from rankloop.reports.html import html_page, write_page
from rankloop.reports.markdown import markdown_page
from rankloop.reports.terminal import printable
from tests.reports.shown import shown

EVIL = "<script>alert('&')</script>"


def document(text: str = "some text", *, brief: bool = True) -> Document:
    """A document with every kind of block."""
    table = Table.build(
        f"caption {text}",
        [f"name {text}", "number", Column("words", words=True), Column("hidden", brief=False)],
        [[Cell(text, f"label {text}"), "1", f"cell {text}", "secret"]],
        brief=brief,
        folded=True,
    )
    figure = Figure(lambda: "<svg><path/></svg>", f"below {text}", f"alt {text}")
    return Document(
        text,
        f"heading {text}",
        (
            Text(f"plain {text}", brief=brief),
            Text(f"must know {text}", "warning"),
            Facts((("fact", f"value {text}"),), brief=brief),
            Section(
                f"section {text}",
                (
                    Examples("kind", (f"first {text}", f"second {text}"), brief=brief),
                    Listing(f"run {text}", brief=brief),
                    Section(f"below {text}", (table,)),
                    Figures((figure,), (LegendEntry(f"curve {text}", 0), LegendEntry("level", None, ":"))),
                ),
            ),
        ),
    )


def test_a_page_has_everything_and_escapes_it() -> None:
    page = html_page(document(EVIL))
    assert "<script" not in page
    escaped = "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;"
    for part in (
        f"<title>rankloop: {escaped}</title>",
        f"<h1>heading {escaped}</h1>",
        f"<h2>section {escaped}</h2>",
        f"<h3>below {escaped}</h3>",
        f'<p class="warning">must know {escaped}</p>',
        f"<dt>fact</dt><dd>value {escaped}</dd>",
        f"<li><code>second {escaped}</code></li>",
        f"<pre><code>run {escaped}</code></pre>",
        f"<summary>caption {escaped}</summary>",
        f'<span>{escaped}</span><span class="label">label {escaped}</span>',
        f'<td class="words">cell {escaped}</td><td>secret</td>',
        f'<svg role="img" aria-label="alt {escaped}"><path/></svg><figcaption>below {escaped}</figcaption>',
        f"</svg>curve {escaped}</li>",
    ):
        assert part in page


def test_a_page_forbids_scripts_and_remote_content() -> None:
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in html_page(document())


def test_backticks_are_code_and_still_escaped() -> None:
    page = html_page(Document("", "", (Text("type `rankloop <x>` now"),)))
    assert "<p>type <code>rankloop &lt;x&gt;</code> now</p>" in page


def test_a_standalone_figure_is_an_image() -> None:
    page = html_page(Document("", "", (Figures((Figure(lambda: "<svg/>", "c", '"alt"', standalone=True),)),)))
    assert '<img src="data:image/svg+xml;base64,PHN2Zy8+" alt="&quot;alt&quot;">' in page


def test_a_page_is_written_as_it_is(tmp_path: Path) -> None:
    path = write_page(document(), tmp_path / "new" / "page.html")
    assert path.read_text(encoding="utf-8") == html_page(document()) == html_page(document())


def test_a_terminal_shows_what_is_brief() -> None:
    lines = shown(document())
    assert lines.splitlines()[:3] == [
        "plain some text",
        "note: must know some text",
        "fact  value some text",
    ]
    assert "kind: for example first some text\nrun some text\ncaption some text\n" in lines
    assert "│ some text: label some text │      1 │ cell some text │" in lines
    for hidden in ("second", "secret", "hidden", "section", "alt", "curve"):
        assert hidden not in lines
    assert shown(document(brief=False)) == "note: must know some text\n"


def test_figures_are_not_drawn_for_a_terminal() -> None:
    def refuse() -> str:
        raise AssertionError

    figures = Figures((Figure(refuse, "", ""),))
    assert shown(Document("", "", (figures, Text("text", brief=True)))) == "text\n"


@pytest.mark.parametrize("evil", ["\x1b[31m", "\x9b31m", "\r", "\a", "\u202e", "\u2028", "\ud800"])
def test_data_cannot_steer_the_terminal(evil: str) -> None:
    assert evil not in shown(document(f"x{evil}y"))
    assert printable(f"é x{evil}y") == f"é x{evil.encode('unicode_escape').decode()}y"


def test_brackets_are_not_markup() -> None:
    assert "plain [red]x[/red]" in shown(document("[red]x[/red]"))


def test_lines_are_not_wrapped() -> None:
    long = "word " * 50
    assert f"plain {long}\n" in shown(document(long), width=60)


def test_markdown_has_everything_in_words() -> None:
    page = markdown_page(document("a | b"))
    for part in (
        "# heading a | b\n\nplain a | b\n\n> must know a | b\n\n- fact: value a | b\n\n## section a | b\n\n",
        "Examples of kind:\n\n- `first a | b`\n- `second a | b`\n\n```\nrun a | b\n```\n\n### below a | b\n",
        "| name a \\| b | number | words | hidden |\n| --- | ---: | --- | ---: |\n",
        "| a \\| b: label a \\| b | 1 | cell a \\| b | secret |\n",
        "below a | b alt a | b",
    ):
        assert part in page
