"""The report on a log: its policies over time, clicks by rank, support, and problems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rankloop import extras
from rankloop.logs.facts import PolicyFacts
from rankloop.logs.periods import DAY, HOUR, MINUTE
from rankloop.logs.problems import Problem
from rankloop.logs.support import EXPOSURES
from rankloop.offline.log_check import COMMANDS, LogCheck
from rankloop.reports.document import (
    NONE,
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Figures,
    LegendEntry,
    Listing,
    Section,
    Table,
    Text,
    next_step,
    warnings,
)
from rankloop.reports.drawing import (
    BAND_OPACITY,
    SHARE_LIMITS,
    colour,
    count_formatter,
    draw_band,
    draw_curve,
    draw_svg,
    set_rank_axis,
)
from rankloop.reports.import_report import problem_blocks
from rankloop.reports.self_test import self_test_section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# As many as there are colours; the table has all.
MOST_DRAWN = 6
# Policies whose click rates a terminal has room for; the page and the JSON have all.
POLICIES_IN_TERMINAL = 3
DATES_ON_AN_AXIS = 7
# With more, matplotlib's intervals do not suffice for some lengths, such as four days, and it warns.
LEAST_DATES_ON_AN_AXIS = 3
# Room for the names at both ends of an axis of names, which are 1 apart.
ROOM = 0.4
UNITS = ((7 * DAY, "week"), (DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1, "second"))


def check_document(found: LogCheck) -> Document:
    """The report on a log."""
    drawn = sorted(found.policies, key=lambda policy: -policy.impressions)[:MOST_DRAWN]
    drawn = [policy for policy in found.policies if policy in drawn]
    return Document(
        f"the log {found.log.name}",
        f"The log ‘{found.log.name}’",
        (
            Text(found.summary, "strong", brief=True),
            _answers(found),
            Text(_in_short(found), brief=True),
            *warnings(found.warnings),
            Section("Policies", tuple(_policies(found, drawn))),
            Section("Contents", (_contents(found),)),
            *(() if found.self_test is None else (self_test_section(found.self_test),)),
            Section("Problems of the log as it is", problem_blocks("Problems of the log", found.problems)),
            *_imported(found),
            next_step(*_next_step(found)),
        ),
    )


def _answers(found: LogCheck) -> Table:
    first: dict[str, str] = {}
    for one in found.answers:
        first.setdefault(one.text, one.command)
    rows = [
        [
            one.command,
            COMMANDS[one.command],
            one.answer,
            one.text if first[one.text] == one.command else f"As {first[one.text]}.",
        ]
        for one in found.answers
    ]
    columns: list[str | Column] = ["command", Column("gives", words=True, brief=False)]
    columns += [Column("answer", words=True), Column("why", words=True)]
    return Table.build("What each command will say to this log", columns, rows, brief=True)


def _next_step(found: LogCheck) -> Iterator[Block]:
    yield Text(found.next_step, brief=True)
    if found.command is not None:
        yield Listing(found.command, brief=True)


def length_of(seconds: int) -> str:
    """A length of time in words.

    >>> length_of(86_400), length_of(600)
    ('day', '10 minutes')
    """
    size, name = next((size, name) for size, name in UNITS if seconds % size == 0)
    return name if seconds == size else f"{seconds // size} {name}s"


def _in_short(found: LogCheck) -> str:
    policies = "one policy" if len(found.policies) == 1 else f"{len(found.policies):,} policies"
    queries = "one query" if found.queries == 1 else f"{found.queries:,} queries"
    return (
        f"{found.impressions:,} impressions of {queries} by {policies}; "
        f"{found.clicks:,} clicks on {found.rows:,} rows."
    )


def _policies(found: LogCheck, drawn: Sequence[PolicyFacts]) -> Iterator[Block]:
    yield _policy_table(found)
    yield Text(
        "Explores: of the queries that came more than once, the share whose ranking ever changed. Never "
        "shown: the share of candidates that were never shown. Misfit: how far displays are from what the "
        "scores predict, in units of what chance alone would cause; 1 if rankings are drawn from the scores.",
        "quiet",
    )
    yield _click_rate_table(found)
    if len(drawn) < len(found.policies):
        yield Text(f"The figures show the {len(drawn)} policies with the most impressions.", "quiet")
    legend = tuple(LegendEntry(policy.policy_id, look) for look, policy in enumerate(drawn))
    yield Figures((*_over_time(found, drawn), _click_rates(drawn), *_support(drawn)), legend)


def _policy_table(found: LogCheck) -> Table:
    columns: list[str | Column] = ["policy", "impressions", "from", "to", Column("queries", brief=False)]
    columns += [Column("clicks per impression", brief=False), "explores", Column("candidates", brief=False)]
    columns += ["never shown", Column("misfit", brief=False)]
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
    return Table.build("Policies in the order of their first impressions", columns, rows, brief=True)


def _clicks(policy: PolicyFacts) -> float:
    rates = zip(policy.displays_by_position, policy.click_rate_by_position, strict=True)
    return sum(shown * (rate or 0.0) for shown, rate in rates)


def _click_rate_table(found: LogCheck) -> Table:
    largest = sorted(found.policies, key=lambda policy: -policy.impressions)[:POLICIES_IN_TERMINAL]
    columns = [Column(policy.policy_id, brief=policy in largest) for policy in found.policies]
    ranks = max(len(policy.displays_by_position) for policy in found.policies)
    rows = [[f"{k + 1}", *(_rate(policy, k) for policy in found.policies)] for k in range(ranks)]
    caption = "Share clicked, by position, with 90 % intervals"
    if ranks < found.positions:
        caption += f"; the first {ranks} of {found.positions:,} positions"
    if len(largest) < len(found.policies):
        caption += f" (a terminal shows the {len(largest)} policies with the most impressions, a page all)"
    return Table.build(caption, ["position", *columns], rows, brief=True, folded=True)


def _rate(policy: PolicyFacts, rank: int) -> str:
    rate, ends = policy.click_rate_by_position[rank], policy.click_interval_by_position[rank]
    return NONE if rate is None or ends is None else f"{rate:.3f} ({ends[0]:.3f}–{ends[1]:.3f})"


def _rates(policy: PolicyFacts) -> list[str]:
    return [NONE if rate is None else f"{rate:.3f}" for rate in policy.click_rate_by_position]


def _over_time(found: LogCheck, drawn: Sequence[PolicyFacts]) -> Iterator[Figure]:
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
        dates = extras.load("matplotlib.dates")
        locator = dates.AutoDateLocator(minticks=LEAST_DATES_ON_AN_AXIS, maxticks=DATES_ON_AN_AXIS)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
        axes.yaxis.set_major_formatter(count_formatter())
        axes.set_ylim(bottom=0)
        axes.set_ylabel(f"impressions per {unit}")

    words = "; ".join(
        f"{policy.policy_id} from {_when(policy.first, found)} to {_when(policy.last, found)}, "
        f"{policy.impressions:,} in all"
        for policy in drawn
    )
    yield Figure(
        partial(draw_svg, "over-time", draw),
        f"Impressions per {unit}, by policy.",
        f"Impressions over time: {words}.",
    )


def _click_rates(drawn: Sequence[PolicyFacts]) -> Figure:
    def draw(axes: Axes) -> None:
        for look, policy in enumerate(drawn):
            known = [(k, rate) for k, rate in enumerate(policy.click_rate_by_position, 1) if rate is not None]
            ends = [interval for interval in policy.click_interval_by_position if interval is not None]
            low, high = np.array(ends).reshape(-1, 2).T
            draw_band(axes, look, [k for k, _ in known], low, high)
            draw_curve(axes, look, [k for k, _ in known], [rate for _, rate in known])
        set_rank_axis(axes, max(len(policy.click_rate_by_position) for policy in drawn), "position")
        axes.set_ylabel("share clicked")
        axes.set_ylim(bottom=0)

    words = "; ".join(f"{policy.policy_id}: {', '.join(_rates(policy))}" for policy in drawn)
    return Figure(
        partial(draw_svg, "click-rates", draw),
        "Clicks per display, by position, with 90 % intervals (Wilson). Lower positions are examined less, "
        "and show less relevant documents.",
        f"Share clicked by position, from the first: {words}.",
    )


def _support(drawn: Sequence[PolicyFacts]) -> Iterator[Figure]:
    known = [
        (look, policy.policy_id, policy.support)
        for look, policy in enumerate(drawn)
        if policy.support is not None
    ]
    if not known:
        return
    names = [*(f"below {bound:g}" for bound in EXPOSURES), "never shown"]

    def draw(axes: Axes) -> None:
        for look, _, support in known:
            draw_curve(axes, look, list(range(len(names))), [*support.below, support.never_shown])
        axes.set_xticks(range(len(names)), names)
        axes.set_xlim(-ROOM, len(names) - 1 + ROOM)
        axes.set_ylim(*SHARE_LIMITS)
        axes.set_ylabel("share of candidates")

    words = "; ".join(
        f"{name}: {', '.join(f'{share:.1%}' for share in support.below)}, never shown "
        f"{support.never_shown:.1%}"
        for _, name, support in known
    )
    yield Figure(
        partial(draw_svg, "support", draw),
        "Support: the share of candidates whose probability of being shown at all is below each bound, and "
        "of those that were never shown. Almost nothing can be learned about documents that are hardly ever "
        "shown.",
        f"Shares of candidates with a probability of being shown {', '.join(names[:-1])}: {words}.",
    )


def _contents(found: LogCheck) -> Facts:
    without = NONE if found.without_features is None else f"{found.without_features:,}"
    return Facts(
        (
            ("folder", str(found.log)),
            ("tables", ", ".join(found.tables)),
            ("rows of impressions", f"{found.rows:,}"),
            ("documents of queries", f"{found.documents:,}, shown or candidates"),
            ("documents without features", without),
            ("deepest position", f"{found.positions:,}"),
            ("impressions that begin below position 1", f"{found.sanity.gaps.leading:,}"),
            ("impressions that skip a position", f"{found.sanity.gaps.inner:,}"),
            ("impressions that end above the usual last position", f"{found.sanity.gaps.short:,}"),
        ),
        brief=True,
    )


def _imported(found: LogCheck) -> Iterator[Section]:
    if found.imported:
        problems = [Problem(**problem) for problem in found.imported]
        counted = ", ".join(f"{problem.count:,} {problem.name}" for problem in problems)
        table, *examples = problem_blocks("Problems of the source", problems)
        yield Section(
            "What was wrong with its source",
            (
                Text(f"Found when the log was imported: {counted}.", brief=True),
                *(_quietly(block) for block in (table, *examples)),
            ),
        )


def _quietly(block: Block) -> Block:
    """The block for the page alone: a terminal has shown it when the log was imported."""
    return block if isinstance(block, Section | Figures) else replace(block, brief=False)


def _when(time: datetime | None, found: LogCheck) -> str:
    if time is None or found.period_seconds is None:
        return NONE
    return f"{time:%Y-%m-%d %H:%M}" if found.period_seconds <= HOUR else f"{time:%Y-%m-%d}"
