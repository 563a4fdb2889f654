"""Drawing: figures in one style as SVG, and the axes and curves that several figures have.

matplotlib is loaded when the first figure is drawn, not before: most commands draw none.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rankloop import extras
from rankloop.types import Float64

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

# The limits of an axis of shares: they leave room for the markers at 0 and at 1.
SHARE_LIMITS = (-0.03, 1.03)
# Room beyond the first and the last rank.
RANK_ROOM = 0.5
# How far a logarithmic axis extends beyond the first and the last point, as a factor.
LOG_ROOM = 1.4
# A shorter logarithmic axis may have no power of ten to label.
DECADE = 10.0
# The width of lines for levels and limits.
THIN = 1.1


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


def draw_svg(
    name: str,
    draw: Callable[[Axes], None],
    *,
    inches: tuple[float, float] = INCHES,
    bottom: float = PLACE["bottom"],
) -> str:
    """A figure with one pair of axes, as an ``<svg>`` element of a page.

    Args:
        name: different for each figure of a page; the ids in the SVG are derived from it.
        draw: draws onto the axes.
        inches: width and height.
        bottom: where the axes begin, as a share of the height.
    """
    with extras.load("matplotlib").rc_context(settings(name)):
        # A separate figure, not one of pyplot's, so that the caller's windows and backend do not change.
        figure = extras.load("matplotlib.figure").Figure(figsize=inches)
        draw(figure.subplots(gridspec_kw={**PLACE, "bottom": bottom}))
        return svg(figure)


def settings(name: str) -> Any:
    """Settings of matplotlib for a figure: the same name gives the same ids."""
    return {**STYLE, "svg.hashsalt": name, "timezone": "UTC"}


def draw_level(axes: Axes, value: float, dashes: str, look: int | None = None) -> None:
    """Draw a horizontal line."""
    axes.axhline(value, color=colour(look), linestyle=dashes, linewidth=THIN)


def draw_curve(axes: Axes, look: int, x: Sequence[float], y: Sequence[float]) -> None:
    """Draw a line with the colour and the marker of a look."""
    size = MARKER_SIZES[look % len(MARKER_SIZES)]
    axes.plot(x, y, marker=marker(look), markersize=size, color=colour(look))


def draw_band(axes: Axes, look: int | None, x: Any, low: Float64, high: Float64) -> None:
    """Shade what lies between two curves."""
    axes.fill_between(x, low, high, color=colour(look), alpha=BAND_OPACITY, linewidth=0)


def set_integer_axis(axes: Axes, label: str) -> None:
    """Make the horizontal axis one of whole numbers."""
    axes.xaxis.set_major_locator(_ticker().MaxNLocator(integer=True))
    axes.set_xlabel(label)


def set_rank_axis(axes: Axes, ranks: int, label: str = "rank") -> None:
    """Make the horizontal axis one of ranks or positions, from 1."""
    set_integer_axis(axes, label)
    axes.set_xlim(1 - RANK_ROOM, ranks + RANK_ROOM)


def set_log_axis(axes: Axes, span: tuple[float, float], label: str | None = None) -> None:
    """Make the horizontal axis a logarithmic one of counts, from the least to the greatest."""
    axes.set_xscale("log")
    axes.set_xlim(span[0] / LOG_ROOM, span[1] * LOG_ROOM)
    if axes.get_xlim()[1] < DECADE * axes.get_xlim()[0]:
        axes.xaxis.set_major_locator(_ticker().LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(count_formatter())
    axes.xaxis.set_minor_formatter(_ticker().NullFormatter())
    if label is not None:
        axes.set_xlabel(label)


def count_formatter() -> FuncFormatter:
    """Labels of an axis of counts."""
    formatter: FuncFormatter = _ticker().FuncFormatter(lambda value, _: short_count(value))
    return formatter


def short_count(value: float) -> str:
    """A count as an axis shows it.

    >>> [short_count(value) for value in (100, 1_000, 20_000, 1e6, 1e8)]
    ['100', '1k', '20k', '1M', '100M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _ticker() -> Any:
    return extras.load("matplotlib.ticker")


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
