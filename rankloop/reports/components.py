"""Pages of HTML that need nothing from anywhere else: the frame, and figures with their legends."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from string import Template

from rankloop.reports.html import Html, element, joined, markup
from rankloop.reports.style import marker, variable

# How matplotlib's dashes look in a legend.
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


def page(title: str, body: Html) -> str:
    """A whole page: the same body gives the same page, byte for byte."""
    files = resources.files(__package__)
    frame = Template(files.joinpath("page.html").read_text(encoding="utf-8"))
    style = files.joinpath("style.css").read_text(encoding="utf-8")
    return frame.substitute(title=markup(title), style=style, body=body)


def figures(several: Iterable[Html]) -> Html:
    """Figures beside each other, as many as the page has room for."""
    return element("div", joined(*several), class_="figures")


def figure(drawn: str, caption: str, words: str) -> Html:
    """A figure.

    Args:
        drawn: what `rankloop.reports.style.svg` gives.
        caption: what stands below it.
        words: what it shows, for those who do not see it.
    """
    named = element("svg", role="img", aria_label=words).removesuffix("></svg>")
    return element("figure", Html(drawn.replace("<svg", named, 1)), element("figcaption", caption))


def legend(entries: Iterable[tuple[str, int | None, str]]) -> Html:
    """A legend: of each entry its name, its look (None for ink) and its dashes as matplotlib has them."""
    return element(
        "ul", *(element("li", swatch(look, dashes), name) for name, look, dashes in entries), class_="legend"
    )


def swatch(look: int | None, dashes: str) -> Html:
    """How a curve looks, in a legend: its dashes, and its marker unless it is drawn in ink."""
    paint = "currentColor" if look is None else variable(look)
    line = f'<path d="M0 7h32" style="stroke-width: 2; stroke-dasharray: {STROKES[dashes]}"/>'
    shape = "" if look is None else SHAPES[marker(look)]
    style = f"fill: {paint}; stroke: {paint}"
    return element("svg", Html(line + shape), viewBox="0 0 32 14", style=style, aria_hidden="true")
