"""What every engineer would notice in a log: rows that are missing, robots, sessions, holes, clock gaps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from ibis import _

from rankloop.errors import DataError
from rankloop.logs.check_warnings import CheckWarning
from rankloop.logs.counter import LogCounter
from rankloop.logs.display_order import IN_ORDER, share_in_order_of_ids
from rankloop.logs.grading import Grading
from rankloop.logs.impression_shapes import ClockGap, ImpressionShapes
from rankloop.logs.schema import IMPRESSIONS
from rankloop.logs.slots import Gaps
from rankloop.statistics.counts import Counts
from rankloop.types import Bias, Float64, Int64

if TYPE_CHECKING:
    from rankloop.logs.reader import LogReader


# A larger share of clicked rows means that rows without a click were not logged.
ALL_CLICKED = 0.95
# Fewer rows than this do not tell a click rate.
FEW_ROWS = 20
# A rank lost clicks if its click rate is below this share of those beside it, by so many standard errors; and
# clicks are joined one row off if rank 1 has less than the second share of the clicks per row of rank 2.
DIP, OFF_BY_ONE, DIP_ERRORS = 0.85, 0.1, 4.0
# So many clicks, or rows at other ranks, are not by accident all at one rank, or never clicked.
MANY_CLICKS = 200
# Robots: a query or a client that was shown this many rows, and clicked nearly all of them …
ROBOT_ROWS, ROBOT_RATE = 60, 0.9
# … or that is active in this many hours of one day, or so often in one hour: a search every five seconds.
ROBOT_HOURS, ROBOT_PER_HOUR = 22, 720
# Clients with so many rows have a click rate. If more of them click the first share of their rows than click
# between the second share and the first, by so many standard errors, they are a group: people thin out.
CLIENT_ROWS, EAGER, HUMAN, GROUP_ERRORS = 10, 0.7, 0.5, 3.0
# Where clients are not known: a query that comes so often in one hour, and this many times as often as usual.
ROBOT_BURST = 50.0
# A larger share of impressions that are really several means that the impression id is that of a session.
SESSIONS, SESSION_ROWS = 0.01, 200
# Impressions without a click are missing if there are fewer than this share of those that rates predict, …
MISSING_UNCLICKED = 0.1
# … and if the prediction is a share that matters: it does not where people click several documents.
UNCLICKED = 0.05
# A rank is a hole if it is shown less than this share of the times that its neighbours are.
HOLE = 0.5
# A larger share of impressions that look like another one is not by chance.
COPIES = 0.01
# Fewer impressions have no usual time between them; and a gap is this many times the usual time.
FEW_IMPRESSIONS, GAP = 100, 50.0
# Examples and gaps that a sentence lists.
LISTED = 3


@dataclass(frozen=True)
class Sanity:
    """What impressions look like, and what is suspicious about it.

    Attributes:
        gaps: impressions with positions that have no row.
        clock_gaps: times without impressions, the longest first.
        warnings: what is suspicious.
    """

    gaps: Gaps
    clock_gaps: tuple[ClockGap, ...]
    warnings: tuple[CheckWarning, ...]


def check_sanity(counter: LogCounter, counts: Counts, gaps: Gaps) -> Sanity:
    """Look for what every engineer would notice.

    Args:
        counter: counts the log.
        counts: its counts.
        gaps: its impressions with positions that have no row.
    """
    shapes = ImpressionShapes(counter)
    clock = shapes.clock_gaps(least=FEW_IMPRESSIONS, times_usual=GAP)
    warnings = (
        *_clicks(counter, shapes),
        *_ids(counts),
        *_sessions(shapes),
        *_positions(counter, shapes, gaps),
        *_robots(counter, shapes),
        *_copies(shapes),
        *_clock(clock),
    )
    return Sanity(gaps, clock, tuple(CheckWarning.of(code, text) for code, text in warnings))


Found = Iterator[tuple[str, str]]


def _clicks(counter: LogCounter, shapes: ImpressionShapes) -> Found:
    rows, clicks = counter.totals["rows"], counter.totals["clicks"]
    if not clicks:
        yield (
            "no_clicks",
            "The log has no clicks at all: nothing can be learned from it. Was `clicked` imported?",
        )
        return
    if rows >= FEW_ROWS and clicks >= ALL_CLICKED * rows:
        yield (
            "only_clicked_rows",
            f"{clicks / rows:.1%} of all rows are clicked: it seems that only clicked rows were logged. Log "
            f"everything that was shown; without rows that were not clicked, clicks say nothing.",
        )
        return
    depth = np.argsort(counter.by_rank["rank"])
    ranks = counter.by_rank["rank"][depth] + 1
    shown, clicked = (counter.by_rank[name][depth].astype(np.float64) for name in ("displays", "clicks"))
    best = int(np.argmax(clicked))
    if clicked[best] == clicks and all_at_one_position(clicks, rows, int(shown[best])):
        yield (
            "one_clicked_rank",
            f"All {clicks:,} clicks are at position {ranks[best]}: nothing can be learned about other "
            f"positions. Are documents in the order in which they were shown, and not sorted by clicks?",
        )
    first = _all_clicked_below(shown, clicked)
    if first is not None:
        yield (
            "only_clicked_rows_below",
            f"From position {ranks[first]} on, {clicked[first:].sum() / shown[first:].sum():.1%} of the "
            f"{shown[first:].sum():,.0f} rows are clicked: it seems that only clicked rows were logged "
            f"there. Use the positions above it: `--ranks {ranks[first] - 1}`.",
        )
    if shapes.totals["several"] >= FEW_ROWS and shapes.totals["full"] > shapes.totals["several"] / 2:
        yield (
            "everything_clicked",
            f"In {shapes.totals['full']:,} of {shapes.totals['several']:,} impressions with several rows, "
            f"every row is clicked: either only clicked rows were logged, or `clicked` means something else.",
        )
    yield from _clicked_impressions(shapes, clicked / np.maximum(shown, 1.0))
    yield from _lost_clicks(ranks, shown, clicked)


def _lost_clicks(ranks: Int64, shown: Float64, clicked: Float64) -> Found:
    """Ranks with fewer clicks per row than those beside them: users look from the top down."""
    rates = clicked / np.maximum(shown, 1.0)
    # Half a click: a rank without any has a logarithm, too.
    log_rate = np.log((clicked + 0.5) / np.maximum(shown, 1.0))
    error = 1.0 / np.sqrt(clicked + 0.5)
    for place in range(len(ranks) - 1):
        beside = [other for other in (place - 1, place + 1) if other >= 0]
        if any(
            abs(ranks[other] - ranks[place]) != 1
            or log_rate[other] + np.log(DIP) < log_rate[place]
            or log_rate[other] - log_rate[place] < DIP_ERRORS * np.hypot(error[other], error[place])
            for other in beside
        ):
            continue
        if place == 0 and rates[0] < OFF_BY_ONE * rates[1]:
            yield (
                "clicks_one_row_off",
                f"Position {ranks[0]} has {clicked[0]:,.0f} clicks in {shown[0]:,.0f} rows, but at position "
                f"{ranks[1]} {rates[1]:.1%} of the rows are clicked: it seems that clicks were joined one "
                f"row off, such as positions from 0 with positions from 1. Join clicks by document, or "
                f"correct the positions, and import the log again.",
            )
            continue
        others = " and ".join(f"{rates[other]:.1%} at position {ranks[other]}" for other in beside)
        yield (
            "lost_clicks",
            f"Fewer clicks at position {ranks[place]} than beside it: {rates[place]:.1%} of its rows are "
            f"clicked, {others}. Either clicks there were lost, or what stands there is of another kind: "
            f"compare a day of clicks with their source, or leave out what is not ranked.",
        )


def all_at_one_position(clicks: int, rows: int, rows_there: int) -> bool:
    """Whether all clicks at one rank are no accident: there are many, and other ranks have rows."""
    return clicks >= MANY_CLICKS and rows - rows_there >= MANY_CLICKS


def _clicked_impressions(shapes: ImpressionShapes, rates: Float64) -> Found:
    """Impressions without a click are missing: far fewer than there would be if clicks were independent."""
    totals = {**shapes.totals, "rows": shapes.counter.totals["rows"]}
    expected = lacks_unclicked(totals, rates)
    if expected is not None:
        yield (
            "only_clicked_impressions",
            f"{totals['unclicked']:,} of {totals['impressions']:,} impressions have no click, but click "
            f"rates predict about {expected:.0%}: it seems that impressions without a click were not logged. "
            f"Click rates are then too high, and differences between ranks and policies may be wrong. Log "
            f"every impression if you can; otherwise let an A/B test settle the decision.",
        )


def lacks_unclicked(totals: Mapping[str, int], rates: Float64) -> float | None:
    """The share of impressions without a click that click rates predict, if most of them are missing.

    Args:
        totals: the number of ``impressions``, of their ``rows``, of impressions with a ``single`` row, and of
            ``unclicked`` impressions.
        rates: click rates by rank.
    """
    impressions = totals["impressions"]
    if impressions < FEW_IMPRESSIONS or totals["single"] == impressions:
        return None
    rows = round(totals["rows"] / impressions)
    expected = float(np.prod(1.0 - rates[: max(rows, 1)]))
    missing = expected >= UNCLICKED and totals["unclicked"] / impressions < MISSING_UNCLICKED * expected
    return expected if missing else None


def _all_clicked_below(shown: Float64, clicked: Float64) -> int | None:
    """The first rank, by its place, from which on nearly all rows are clicked, though not above it."""
    below = np.cumsum(clicked[::-1])[::-1] / np.cumsum(shown[::-1])[::-1]
    rows = np.cumsum(shown[::-1])[::-1]
    for place in range(1, len(shown)):
        above = clicked[:place].sum() / shown[:place].sum()
        if rows[place] >= FEW_ROWS and below[place] >= ALL_CLICKED and above < ALL_CLICKED:
            return place
    return None


def _ids(counts: Counts) -> Found:
    """Documents in the order of their ids: rows were sorted, and are not in the order of display."""
    share = share_in_order_of_ids(counts)
    if share is not None and share >= IN_ORDER:
        yield (
            "ordered_by_id",
            f"{share:.1%} of the documents are in the order of their ids. If rows or lists were sorted, they "
            f"do not tell where documents were shown: bias, fit and decision are then wrong.",
        )


def _sessions(shapes: ImpressionShapes) -> Found:
    totals = shapes.totals
    odd = max(totals["mixed"], totals["overfull"])
    # A long list in which every row has a position of its own is a long list.
    if odd > SESSIONS * totals["impressions"] or (odd and totals["longest"] >= SESSION_ROWS):
        yield (
            "sessions_as_impressions",
            f"The impression id looks like that of a session: {totals['mixed']:,} of "
            f"{totals['impressions']:,} impressions have several queries, {totals['overfull']:,} have more "
            f"rows than positions, and the longest has {totals['longest']:,} rows. Import the log again with "
            f"an id per search, such as session, query and time together.",
        )


def _positions(counter: LogCounter, shapes: ImpressionShapes, gaps: Gaps) -> Found:
    totals = shapes.totals
    if len(counter.by_rank) == 1 and totals["impressions"] >= FEW_ROWS:
        where = int(counter.by_rank["rank"][0]) + 1
        yield (
            "one_position",
            f"Every row is at position {where}: there is no bias of positions to estimate, and no ranking to "
            f"evaluate. Was the position imported?",
        )
    elif totals["single"] == totals["impressions"] >= FEW_ROWS:
        yield (
            "single_rows",
            "Every impression has a single row: either one document is shown at a time, or the impression id "
            "is that of a row, or only clicked rows were logged. Rankings cannot be compared.",
        )
        return
    odd = gaps.leading + gaps.inner
    if odd:
        listed = "; ".join(f"{text} ({times:,} times)" for text, times in gaps.patterns)
        yield (
            "gaps",
            f"Positions without a row: {gaps.leading:,} of {gaps.impressions:,} impressions begin below "
            f"position 1, and {gaps.inner:,} skip a position (most often {listed}). Such positions count as "
            f"slots of others, such as advertisements: every policy fills the same slots.",
        )
    holes = _holes(counter)
    if holes:
        yield (
            "holes",
            f"Far fewer rows than at the ranks beside it at {', '.join(f'rank {rank}' for rank in holes)}: "
            f"rows there belong to something else, or were not logged.",
        )


def _holes(counter: LogCounter) -> list[int]:
    deepest = int(counter.by_rank["rank"].max()) + 1
    shown = np.zeros(min(deepest, 1_000))
    within = counter.by_rank["rank"] < len(shown)
    shown[counter.by_rank["rank"][within]] = counter.by_rank["displays"][within]
    beside = [
        min(shown[place - 1] if place else shown[1], shown[place + 1]) for place in range(len(shown) - 1)
    ]
    return [
        place + 1 for place, least in enumerate(beside) if least >= FEW_ROWS and shown[place] < HOLE * least
    ]


def _robots(counter: LogCounter, shapes: ImpressionShapes) -> Found:
    rows, clicks = counter.totals["rows"], counter.totals["clicks"]
    by, noun = ("query_id", "queries") if shapes.client is None else ("client", "clients")
    if clicks < ROBOT_RATE / 2 * rows:
        eager = shapes.eager(by, rows=ROBOT_ROWS, rate=ROBOT_RATE)
        if eager:
            yield (
                "robots_click_everything",
                f"{len(eager):,} {noun} look like robots: {_listed(eager)} clicked at least "
                f"{ROBOT_RATE:.0%} of what was shown, over at least {ROBOT_ROWS} rows, where "
                f"{clicks / rows:.1%} is usual. Leave them out before you import the log.",
            )
    if shapes.client is None:
        bursts = shapes.bursts(per_hour=ROBOT_PER_HOUR, times_usual=ROBOT_BURST)
        if bursts:
            yield (
                "robots_never_stop",
                f"{len(bursts):,} queries came at least {ROBOT_PER_HOUR} times in one hour, "
                f"{ROBOT_BURST:.0f} times as often as usual: {_listed(bursts)}. It may have been a robot, or "
                f"an event: look at them before you use the log.",
            )
    else:
        eager, between = shapes.eager_clients(rows=CLIENT_ROWS, eager=EAGER, human=HUMAN)
        if (
            clicks < ROBOT_RATE / 2 * rows
            and len(eager) - between > GROUP_ERRORS * (len(eager) + between) ** 0.5
        ):
            yield (
                "robots_click_most",
                f"{len(eager):,} clients clicked at least {EAGER:.0%} of what they were shown (over at least "
                f"{CLIENT_ROWS} rows; {clicks / rows:.1%} is usual), and only {between:,} between "
                f"{HUMAN:.0%} and {EAGER:.0%}: they are a group of their own, such as robots. They saw "
                f"{sum(row['n'] for row in eager):,} impressions: {_listed(eager)}. Leave them out before "
                f"you import the log.",
            )
        tireless = shapes.tireless(by, hours=ROBOT_HOURS, per_hour=ROBOT_PER_HOUR)
        if tireless:
            yield (
                "robots_never_stop",
                f"{len(tireless):,} {noun} look like robots: {_listed(tireless)} searched in at least "
                f"{ROBOT_HOURS} hours of one day, or at least {ROBOT_PER_HOUR} times in one hour. Leave them "
                f"out before you import the log.",
            )


def _copies(shapes: ImpressionShapes) -> Found:
    copies = shapes.copies()
    if copies > COPIES * shapes.totals["impressions"]:
        yield (
            "copied_impressions",
            f"{copies:,} impressions look exactly like another one (query, time, documents, positions and "
            f"clicks) under another id: they were logged twice, and count twice.",
        )


def _clock(gaps: tuple[ClockGap, ...]) -> Found:
    if gaps:
        listed = "; ".join(f"{gap.start:%Y-%m-%d %H:%M} to {gap.end:%Y-%m-%d %H:%M}" for gap in gaps[:LISTED])
        more = f", the longest {LISTED} of them: " if len(gaps) > LISTED else ": "
        yield (
            "clock_gaps",
            f"There are {len(gaps):,} long times without any impression{more}{listed}. Either logging "
            f"stopped, or a clock was wrong: what was deployed before and after may differ.",
        )


def _listed(found: list[dict[str, object]]) -> str:
    shown = ", ".join(f"{row['name']!r} ({row['n']:,} impressions)" for row in found[:LISTED])
    return shown if len(found) <= LISTED else f"{shown} and {len(found) - LISTED:,} others"


def count_clicks(log: LogReader, bias: Bias) -> Counts:
    """The counts of a log at the positions of a bias; fit, evaluation and relevance start from them.

    Raises:
        DataError: nothing follows from its clicks.
    """
    counts = log.count(bias.positions)
    require_contrast(counts)
    return counts


class GradedClicks(NamedTuple):
    """What a fit and an evaluation read of a log.

    Attributes:
        grading: what displays are worth.
        bias: how they gain their worth, given how users click.
        counts: the counts, at the positions of the bias.
    """

    grading: Grading
    bias: Bias
    counts: Counts


def read_graded_clicks(log: LogReader, bias: Bias) -> GradedClicks:
    """Read what a fit and an evaluation start from.

    Raises:
        DataError: nothing follows from the clicks of the log, or the amounts of its displays are invalid.
    """
    grading = log.grading()
    return GradedClicks(grading, grading.bias(bias), count_clicks(log, bias))


def require_contrast(counts: Counts) -> None:
    """Refuse a log whose clicks tell nothing: no row is clicked, nearly all are, or all at one rank.

    Args:
        counts: the counts of the log.
    """
    rows, clicks = int(counts.cells.displays.sum()), int(counts.cells.clicks.sum())
    if rows < FEW_ROWS:
        return
    where = f" at its first {counts.positions} positions" if counts.left_out else ""
    if not clicks:
        raise DataError(
            f"the log has no clicks{where}, so that nothing can be learned from it: was `clicked` imported? "
            f"`rankloop check` says what is in a log"
        )
    if clicks >= ALL_CLICKED * rows:
        raise DataError(
            f"{clicks / rows:.1%} of the rows of the log are clicked{where}: it seems that only clicked rows "
            f"were logged, and nothing can be learned without the others. Import everything that was shown"
        )
    cells = counts.cells
    ranks = np.unique(cells.position[cells.clicks > 0])
    there = int(cells.displays[cells.position == ranks[0]].sum())
    if len(ranks) == 1 and all_at_one_position(clicks, rows, there):
        raise DataError(
            f"all {clicks:,} clicks of the log are at position {ranks[0] + 1}{where}: nothing can be learned "
            f"about other positions. Are documents in the order in which they were shown, not sorted by "
            f"clicks?"
        )


def only_clicked_impressions(log: LogReader, counts: Counts) -> bool:
    """Whether impressions without a click seem to be missing from a log."""
    with log.open_engine() as engine:
        rows = engine.table(log.files(IMPRESSIONS))
        each = rows.group_by("impression_id").agg(rows=_.count(), clicked=_.clicked.any())
        totals = each.agg(
            impressions=_.count(),
            rows=_.rows.sum(),
            single=_.count(where=_.rows == 1),
            unclicked=_.count(where=~_.clicked),
        )
        (found,) = [row for batch in engine.batches(totals) for row in batch.to_pylist()]
    shown, clicked = counts.totals_by_position()
    return lacks_unclicked(found, clicked / np.maximum(shown, 1.0)) is not None
