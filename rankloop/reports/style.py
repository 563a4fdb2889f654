"""One style for all figures: readable in grey, by colour-blind readers, on light and on dark paper.

In a page, colours are variables of its style sheet with a default for light paper, so that the page decides
on them. Legends belong to the page too: their text wraps and grows as the reader needs it.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can distinguish; ink is for axes and reference lines.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
MARKERS = ("o", "s", "^", "D", "v", "P")
# In points. They shrink, so that the markers of a curve can still be seen below those of the next.
MARKER_SIZES = (6.0, 4.5, 3.0)
# A black that nothing else is drawn in, because it is searched for in the SVG.
INK = "#010203"
# Small, because a phone shows it at about this size.
INCHES = (5.0, 3.1)
STYLE: Any = {
    "figure.figsize": INCHES,
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.15,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.4,
    # Text stays text, which can be searched and read aloud.
    "svg.fonttype": "none",
}
# The position of the axes, as shares of the figure: the same in all figures, so that they line up.
PLACE = {"left": 0.15, "right": 0.985, "bottom": 0.155, "top": 0.975}
BAND_OPACITY = 0.18


def colour(look: int | None) -> str:
    """The colour of a look; ink if there is none."""
    return INK if look is None else COLOURS[look % len(COLOURS)]


def variable(look: int) -> str:
    """The colour of a look as the style sheet of a page names it.

    >>> variable(0)
    'var(--series-0, #0072b2)'
    """
    return f"var(--series-{look % len(COLOURS)}, {colour(look)})"


def marker(look: int) -> str:
    """The marker of a look: when the colours are used up, they repeat with other markers."""
    return MARKERS[(look + look // len(COLOURS)) % len(MARKERS)]


def svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element of a page: the page styles it, and it loads nothing."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].strip()
    for unwanted in (
        r"<metadata>.*?</metadata>\s*",
        r"<defs>\s*<style.*?</style>\s*</defs>\s*",
        r'\s+xmlns(:\w+)?="[^"]*"',
        r" font-family: [^;]*;",
        r' transform="rotate\(-0 [^"]*"',
        # Invisible paths, and ids that nothing refers to: "axes_1" would be in every figure of the page.
        r'<path d="[^"]*" style="fill: none"/>\s*',
        r' id="[A-Za-z0-9.]+_\d+"',
    ):
        text = re.sub(unwanted, "", text, flags=re.DOTALL)
    text = text.replace("xlink:href", "href").replace(INK, "currentColor")
    for look, paint in enumerate(COLOURS):
        text = text.replace(paint, variable(look))
    return text
