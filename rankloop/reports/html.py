"""Documents as self-contained pages of HTML: no scripts, and nothing loaded from anywhere else."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable
from html import escape
from importlib import resources
from pathlib import Path
from string import Template

from rankloop.extras import MissingExtraError
from rankloop.reports.document import (
    Block,
    Button,
    Cell,
    Column,
    Document,
    Examples,
    Facts,
    Figure,
    Figures,
    InputField,
    LegendEntry,
    Listing,
    Section,
    Table,
    Text,
)
from rankloop.reports.drawing import marker, variable
from rankloop.storage.files import write_whole

# The first heading of a page is <h1>; sections are one level below.
SECTION_LEVEL = 2
# The dashes of matplotlib, as SVG writes them in a legend.
STROKES = {"-": "none", ":": "2 3", "--": "6 3"}
# In a box of 32 × 14, around its centre.
SHAPES = {
    "o": '<circle cx="16" cy="7" r="4"/>',
    "s": '<rect x="12.5" y="3.5" width="7" height="7"/>',
    "^": '<path d="M16 2.5 20 11 12 11z"/>',
    "D": '<path d="M16 2 21 7 16 12 11 7z"/>',
    "v": '<path d="M16 11.5 20 3 12 3z"/>',
    "P": '<path d="M14.5 3h3v2.5H20v3h-2.5V11h-3V8.5H12v-3h2.5z"/>',
}


def html_page(document: Document) -> str:
    """The page of a document: the same document gives the same page, byte for byte."""
    files = resources.files(__package__)
    frame = Template(files.joinpath("page.html").read_text(encoding="utf-8"))
    style = files.joinpath("style.css").read_text(encoding="utf-8")
    body = joined(element("h1", document.heading), _blocks(document.blocks, SECTION_LEVEL))
    return frame.substitute(title=markup(f"rankloop: {document.title}"), style=style, body=body)


def write_page(document: Document, path: str | os.PathLike[str]) -> Path:
    """Write the page of a document and return its path."""
    return write_whole(path, html_page(document).encode())


def _blocks(blocks: Iterable[Block], level: int) -> Html:
    return joined(*(_block(block, level) for block in blocks))


def _block(block: Block, level: int) -> Html:
    match block:
        case Section():
            return joined(element(f"h{level}", block.heading), _blocks(block.blocks, level + 1))
        case Text():
            return _text(block)
        case Facts():
            return _facts(block)
        case Examples():
            return _examples(block)
        case Listing():
            return element("pre", element("code", block.text))
        case Table():
            return _table(block)
        case Figures():
            return _figures(block)
        case Button():
            return _button(block)


def _text(text: Text) -> Html:
    words = _words(text.text)
    if text.kind == "strong":
        return element("p", element("strong", words))
    return element("p", words) if text.kind == "plain" else element("p", words, class_=text.kind)


def _words(text: str) -> Html:
    """The text, with words in backticks as code.

    >>> _words("a < b: `rankloop fit`")
    'a &lt; b: <code>rankloop fit</code>'
    """
    return Html(re.sub("`([^`]+)`", r"<code>\1</code>", markup(text)))


def _facts(block: Facts) -> Html:
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in block.facts]
    return element("dl", joined(*pairs))


def _examples(block: Examples) -> Html:
    listed = element("ul", *(element("li", element("code", example)) for example in block.examples))
    return joined(element("p", f"Examples of {block.name}:", class_="quiet"), listed)


def _table(table: Table) -> Html:
    """A table whose first column names its rows; it scrolls by itself on a narrow page."""
    columns = table.all_columns
    head = element("tr", *(_cell("th", element("span", each.name), each, scope="col") for each in columns))
    body = joined(
        *(
            element(
                "tr",
                _cell("th", _content(row[0]), columns[0], scope="row"),
                *(
                    _cell("td", _content(cell), column)
                    for cell, column in zip(row[1:], columns[1:], strict=True)
                ),
            )
            for row in table.rows
        )
    )
    content = joined(element("caption", table.caption), element("thead", head), element("tbody", body))
    drawn = element("div", element("table", content), class_="scroll", tabindex="0", role="group")
    return element("details", element("summary", table.caption), drawn) if table.folded else drawn


def _cell(tag: str, content: Html, column: Column, **attributes: str) -> Html:
    return element(tag, content, **attributes, **({"class_": "words"} if column.words else {}))


def _content(cell: str | Cell) -> Html:
    if isinstance(cell, Cell):
        return Html(element("span", cell.text) + element("span", cell.label, class_="label"))
    return markup(cell)


def _figures(block: Figures) -> Html:
    drawn = [_figure(figure) for figure in block.figures]
    below = drawn[0] if len(drawn) == 1 else element("div", joined(*drawn), class_="figures")
    return joined(_legend(block.legend), below) if block.legend else below


def _figure(figure: Figure) -> Html:
    try:
        return element("figure", _drawing(figure), element("figcaption", figure.caption))
    except MissingExtraError as error:
        # The numbers are in the tables: a page without its figures is worth having.
        left_out = element("p", f"This figure is left out: {error}", class_="quiet")
        return element("figure", left_out, element("figcaption", figure.caption))


def _drawing(figure: Figure) -> Html:
    if figure.standalone:
        data = base64.b64encode(figure.draw().encode()).decode()
        image = element("img", src=f"data:image/svg+xml;base64,{data}", alt=figure.alt)
        return Html(image.removesuffix("</img>"))
    named = element("svg", role="img", aria_label=figure.alt).removesuffix("></svg>")
    return Html(figure.draw().replace("<svg", named, 1))


def _button(action: Button) -> Html:
    fields = [_input(type="hidden", name=name, value=value) for name, value in action.values]
    fields += [_field(field) for field in action.fields]
    if action.key:
        attributes = {"placeholder": "admin key", "aria_label": "admin key", "autocomplete": "off"}
        fields.append(_input(type="password", name="key", **attributes))
    button = element("button", action.label, type="submit")
    return element("form", *fields, button, method=action.method, action=action.path)


def _field(field: InputField) -> Html:
    if not field.options:
        return _input(type="text", name=field.name, placeholder=field.label, aria_label=field.label)
    options = [element("option", text, value=value) for value, text in field.options]
    return element("select", *options, name=field.name, aria_label=field.label)


def _input(**attributes: str) -> Html:
    return Html(element("input", **attributes).removesuffix("</input>"))


def _legend(entries: Iterable[LegendEntry]) -> Html:
    return element("ul", *(element("li", _swatch(entry), entry.name) for entry in entries), class_="legend")


def _swatch(entry: LegendEntry) -> Html:
    """A curve as a legend shows it: its dashes, and its marker unless it is drawn in ink."""
    paint = "currentColor" if entry.look is None else variable(entry.look)
    line = f'<path d="M0 7h32" style="stroke-width: 2; stroke-dasharray: {STROKES[entry.dashes]}"/>'
    shape = "" if entry.look is None else SHAPES[marker(entry.look)]
    style = f"fill: {paint}; stroke: {paint}"
    return element("svg", Html(line + shape), viewBox="0 0 32 14", style=style, aria_hidden="true")


class Html(str):
    """Markup, as opposed to text that somebody wrote."""

    __slots__ = ()


def markup(value: object) -> Html:
    """Markup as it is; anything else escaped.

    >>> markup("a < b"), markup(Html("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    return value if isinstance(value, Html) else Html(escape(str(value)))


def joined(*parts: object) -> Html:
    """Join parts, each on its own line."""
    return Html("\n".join(markup(part) for part in parts))


def element(tag: str, *children: object, **attributes: str) -> Html:
    """Make an element; ``_`` means ``-`` in attribute names, and is appended to Python keywords.

    >>> element("p", "1 < 2, ", element("b", "so"), class_="note")
    '<p class="note">1 &lt; 2, <b>so</b></p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items()
    )
    return Html(f"<{tag}{written}>{''.join(markup(child) for child in children)}</{tag}>")
