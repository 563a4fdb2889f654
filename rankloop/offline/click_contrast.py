"""What clicks must be for anything to follow from them: some rows are clicked and some are not."""

from __future__ import annotations

import numpy as np
from ibis import _

from rankloop.errors import DataError
from rankloop.logs import LogCounts, LogReader
from rankloop.logs.sanity import ALL_CLICKED, FEW_ROWS, all_at_one_rank, lacks_unclicked
from rankloop.logs.schema import IMPRESSIONS


def require_contrast(counts: LogCounts) -> None:
    """Refuse a log whose clicks tell nothing: no row is clicked, nearly all are, or all at one rank.

    Args:
        counts: the counts of the log.
    """
    rows, clicks = int(counts.cells.displays.sum()), int(counts.cells.clicks.sum())
    if rows < FEW_ROWS:
        return
    where = f" at its first {counts.ranks} ranks" if counts.left_out else ""
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
    ranks = np.unique(cells.rank[cells.clicks > 0])
    there = int(cells.displays[cells.rank == ranks[0]].sum())
    if len(ranks) == 1 and all_at_one_rank(clicks, rows, there):
        raise DataError(
            f"all {clicks:,} clicks of the log are at rank {ranks[0] + 1}{where}: nothing can be learned "
            f"about other ranks. Are documents in the order in which they were shown, not sorted by clicks?"
        )


def only_clicked_impressions(log: LogReader, counts: LogCounts) -> bool:
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
    shown, clicked = (
        np.bincount(counts.cells.rank, weights=some, minlength=counts.ranks)
        for some in (counts.cells.displays, counts.cells.clicks)
    )
    return lacks_unclicked(found, clicked / np.maximum(shown, 1.0)) is not None
