"""What is in a log, as a page: its policies over time, what was clicked where, support, and problems."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import matplotlib
import matplotlib.dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rankloop.logs.checks import LogCheck, PolicyCheck
from rankloop.logs.periods import DAY, HOUR, MINUTE
from rankloop.logs.problems import Problem
from rankloop.logs.support import EXPOSURES
from rankloop.reports.components import figure, figures, legend, page
from rankloop.reports.html import Html, element, joined, listing, table
from rankloop.reports.import_report import problem_parts
from rankloop.reports.style import BAND_OPACITY, MARKER_SIZES, PLACE, STYLE, colour, marker, short_count, svg

NONE = "–"
# As many as there are colours; the table has all.
MOST_DRAWN = 6
DATES_ON_AN_AXIS = 7
# matplotlib does not say what its dates take.
dates: Any = matplotlib.dates
# Room for the markers at 0 and at 1.
SHARE_LIMITS = (-0.03, 1.03)
# Room for the names at both ends of an axis of names, which are 1 apart.
ROOM = 0.4
UNITS = ((7 * DAY, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1, "second"))


def check_page(found: LogCheck) -> str:
    """The page: the same log gives the same page, byte for byte."""
    drawn = sorted(found.policies, key=lambda policy: -policy.impressions)[:MOST_DRAWN]
    drawn = [policy for policy in found.policies if policy in drawn]
    body = joined(
        element("h1", f"The log {found.log.name}"),
        element("p", _in_short(found)),
        *(element("p", warning, class_="warning") for warning in found.warnings),
        element("h2", "Policies"),
        _policies(found),
        legend((policy.policy_id, look, "-") for look, policy in enumerate(drawn)),
        _more(found, drawn),
        figures([*_over_time(found, drawn), _click_rates(drawn), *_support(drawn)]),
        _contents(found),
        element("h2", "Problems of the log as it is"),
        *problem_parts(found.problems),
        *_imported(found),
    )
    return page(f"rankloop: the log {found.log.name}", body)


def length_of(seconds: int) -> str:
    """A length of time as people say it.

    >>> length_of(86_400), length_of(600)
    ('day', '10 minutes')
    """
    size, name = next((size, name) for size, name in UNITS if seconds % size == 0)
    return name if seconds == size else f"{seconds // size} {name}s"


def _in_short(found: LogCheck) -> str:
    return (
        f"{found.impressions:,} impressions of {found.queries:,} queries; {len(found.policies):,} policies; "
        f"{found.clicks:,} clicks on {found.rows:,} rows."
    )


def _policies(found: LogCheck) -> Html:
    head = ["policy", "impressions", "from", "to", "queries", "clicks an impression", "explores"]
    head += ["candidates", "never shown", "misfit"]
    rows = [
        [
            policy.policy_id,
            f"{policy.impressions:,}",
            _when(policy.first, found),
            _when(policy.last, found),
            f"{policy.queries:,}",
            f"{_clicks(policy) / policy.impressions:.2f}",
            NONE if policy.explores is None else f"{policy.explores:.0%}",
            NONE if policy.support is None else f"{policy.support.candidates:,}",
            NONE if policy.support is None else f"{policy.support.never_shown:.1%}",
            NONE if policy.misfit is None else f"{policy.misfit.value:.2f} (≤ {policy.misfit.bound:.2f})",
        ]
        for policy in found.policies
    ]
    return joined(
        table("Policies in the order of their first impressions", head, rows),
        element(
            "p",
            "Explores: the share of queries that came again whose ranking ever changed. Never shown: the "
            "share of candidates that were not shown once. Misfit: how far displays are from what the scores "
            "predict, in units of chance; 1 if rankings are drawn from the scores.",
            class_="quiet",
        ),
    )


def _clicks(policy: PolicyCheck) -> float:
    rates = zip(policy.displays_by_rank, policy.click_rate_by_rank, strict=True)
    return sum(shown * (rate or 0.0) for shown, rate in rates)


def _more(found: LogCheck, drawn: Sequence[PolicyCheck]) -> Html:
    if len(drawn) == len(found.policies):
        return Html()
    return element("p", f"Drawn are the {len(drawn)} policies with most impressions.", class_="quiet")


def _over_time(found: LogCheck, drawn: Sequence[PolicyCheck]) -> Iterator[Html]:
    if found.period_seconds is None:
        return
    unit = length_of(found.period_seconds)

    def draw(axes: Axes) -> None:
        for look, policy in enumerate(drawn):
            times: Any = found.periods
            axes.fill_between(
                times, policy.impressions_by_period, step="mid", color=colour(look), alpha=BAND_OPACITY
            )
            axes.plot(times, policy.impressions_by_period, drawstyle="steps-mid", color=colour(look))
        locator = dates.AutoDateLocator(maxticks=DATES_ON_AN_AXIS)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))
        axes.set_ylim(bottom=0)
        axes.set_ylabel(f"impressions a {unit}")

    words = "; ".join(
        f"{policy.policy_id} from {_when(policy.first, found)} to {_when(policy.last, found)}, "
        f"{policy.impressions:,} in all"
        for policy in drawn
    )
    yield figure(
        _svg("over-time", draw), f"Impressions a {unit}, by policy.", f"Impressions over time: {words}."
    )


def _click_rates(drawn: Sequence[PolicyCheck]) -> Html:
    def draw(axes: Axes) -> None:
        for look, policy in enumerate(drawn):
            known = [(k, rate) for k, rate in enumerate(policy.click_rate_by_rank, 1) if rate is not None]
            _curve(axes, look, [k for k, _ in known], [rate for _, rate in known])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("rank")
        axes.set_ylabel("share clicked")
        axes.set_ylim(bottom=0)

    words = "; ".join(
        f"{policy.policy_id}: "
        + ", ".join(NONE if rate is None else f"{rate:.3f}" for rate in policy.click_rate_by_rank)
        for policy in drawn
    )
    caption = "Clicks a display, by rank. Position and relevance both make it fall."
    return figure(_svg("click-rates", draw), caption, f"Share clicked by rank, from the first: {words}.")


def _support(drawn: Sequence[PolicyCheck]) -> Iterator[Html]:
    known = [(look, policy) for look, policy in enumerate(drawn) if policy.support is not None]
    if not known:
        return
    names = [*(f"below {bound:g}" for bound in EXPOSURES), "never shown"]

    def draw(axes: Axes) -> None:
        for look, policy in known:
            assert policy.support is not None
            _curve(axes, look, list(range(len(names))), [*policy.support.below, policy.support.never_shown])
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-ROOM, len(names) - 1 + ROOM)
        axes.set_ylim(*SHARE_LIMITS)
        axes.set_ylabel("share of candidates")

    words = "; ".join(
        f"{policy.policy_id}: {', '.join(f'{share:.1%}' for share in policy.support.below)}, never shown "
        f"{policy.support.never_shown:.1%}"
        for _, policy in known
        if policy.support is not None
    )
    yield figure(
        _svg("support", draw),
        "LogSupport: candidates whose chance to be shown at all is below so much, and that were never shown. "
        "Of what is hardly ever shown, next to nothing is learned.",
        f"Shares of candidates with a chance to be shown {', '.join(names[:-1])}: {words}.",
    )


def _contents(found: LogCheck) -> Html:
    without = NONE if found.without_features is None else f"{found.without_features:,}"
    return joined(
        element("h2", "What is in it"),
        listing(
            [
                ("folder", found.log),
                ("tables", ", ".join(found.tables)),
                ("rows of impressions", f"{found.rows:,}"),
                ("documents of queries", f"{found.documents:,}, shown or candidates"),
                ("of these without features", without),
                ("deepest position", f"{found.ranks:,}"),
            ]
        ),
    )


def _imported(found: LogCheck) -> Iterator[Html]:
    if not found.imported:
        return
    yield element("h2", "What was wrong with its source")
    yield element("p", "As the import reported it, and what it did about it.")
    yield from problem_parts(Problem(**problem) for problem in found.imported)


def _svg(name: str, draw: Callable[[Axes], None]) -> str:
    # A figure of its own, not one of pyplot's: the caller's windows and backend are left alone.
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": name, "timezone": "UTC"}):
        drawn = Figure()
        draw(drawn.subplots(gridspec_kw=PLACE))
        return svg(drawn)


def _curve(axes: Axes, look: int, x: Sequence[float], y: Sequence[float]) -> None:
    size = MARKER_SIZES[look % len(MARKER_SIZES)]
    axes.plot(x, y, marker=marker(look), markersize=size, color=colour(look))


def _when(time: datetime | None, found: LogCheck) -> str:
    if time is None or found.period_seconds is None:
        return NONE
    return f"{time:%Y-%m-%d %H:%M}" if found.period_seconds <= HOUR else f"{time:%Y-%m-%d}"
