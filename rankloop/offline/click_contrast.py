"""The clicks that fit, evaluation and relevance start from: some rows are clicked and some are not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from ibis import _

from rankloop.errors import DataError
from rankloop.logs import LogReader
from rankloop.logs.grading import Grading
from rankloop.logs.sanity import ALL_CLICKED, FEW_ROWS, all_at_one_position, lacks_unclicked
from rankloop.logs.schema import IMPRESSIONS
from rankloop.statistics import Counts
from rankloop.types import Bias


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
