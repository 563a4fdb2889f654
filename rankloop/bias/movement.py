"""Which ranks a log can compare: the ranks between which documents moved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankloop.errors import DataError
from rankloop.kernels.click_likelihood import compare_positions, compare_with
from rankloop.statistics.tables import CellTable
from rankloop.types import Float64, Int64

# A rank is connected if documents that were also shown at other ranks have at least this many clicks at it,
# counted in effective displays. Where most displays are clicked, displays without a click count instead. The
# ratio of the rank's click rate to that of the others then has a standard error of about one seventh.
MIN_CLICKS = 100.0


@dataclass(frozen=True, eq=False)
class Movement:
    """How documents moved between ranks.

    A document that was shown n times at one rank and m times at another has ``n · m / (n + m)`` effective
    displays between them: it compares the two ranks as well as that many displays at each of them.

    Attributes:
        displays: float64, ranks; displays per rank.
        clicks: float64, ranks; clicks per rank.
        documents: int64, ranks × ranks; number of documents that were shown at both ranks. The diagonal
            counts the documents shown at that rank.
        effective: float64, ranks × ranks; effective displays between two ranks. The diagonal has the
            displays.
        moved: float64, ranks; effective displays between a rank and all other ranks that are connected with
            rank 1.
        connected: bool, ranks; whether enough documents moved between this rank and other connected ranks to
            compare it with rank 1.
        ranks: number of leading ranks that are connected. Only these get an estimate.
    """

    displays: Float64
    clicks: Float64
    documents: Int64
    effective: Float64
    moved: Float64
    connected: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @property
    def positions(self) -> int:
        """Number of leading ranks that are connected; only these get an estimate."""
        return int(np.argmin(np.append(self.connected, False)))

    @property
    def rates(self) -> Float64:
        """Clicks per display, per rank."""
        return self.clicks / np.maximum(self.displays, 1.0)

    @property
    def effective_clicks(self) -> Float64:
        """Per rank, how well it can be compared with the ranks that are connected, in clicks."""
        return _effective_clicks(self.moved, self.rates)

    @property
    def missing_positions(self) -> str | None:
        """Explains why some ranks get no estimate; None if all ranks get one."""
        if self.positions == len(self.connected):
            return None
        weak = np.flatnonzero(~self.connected) + 1
        # Counted as for `connected`.
        clicks = self.effective_clicks[weak - 1].max()
        text = (
            f"too little movement at {_format_ranks(weak)}: documents that were also shown at other ranks "
            f"have about {clicks:.0f} effective clicks there, and {MIN_CLICKS:.0f} are needed"
        )
        below = np.flatnonzero(self.connected[self.positions :]) + self.positions + 1
        if len(below):
            text += f"; this also leaves out {_format_ranks(below)}"
        return text


def measure_movement(shown: CellTable) -> Movement:
    """Measure how documents moved between ranks.

    Raises:
        DataError: no documents, or too few, moved between rank 1 and the other ranks to estimate a bias.
    """
    result = count_movement(shown)
    if result.positions < 2:
        raise DataError(_explain_failure(result))
    return result


def count_movement(shown: CellTable) -> Movement:
    """Count how documents moved between ranks, whether or not it is enough to estimate a bias.

    Ranks are connected to rank 1 one by one, in the order of how well they can be compared.
    """
    ranks = shown.positions
    documents, effective, clicked = np.zeros((3, ranks, ranks))
    compare_positions(
        shown.starts,
        shown.position,
        shown.displays,
        shown.clicks,
        np.ones(shown.n_documents),
        documents,
        effective,
        clicked,
    )
    displays, clicks = np.diag(effective).copy(), np.diag(clicked).copy()
    rates = clicks / np.maximum(displays, 1.0)
    connected = np.arange(ranks) == 0
    while True:
        moved = np.zeros(ranks)
        compare_with(shown.starts, shown.position, shown.displays, connected, moved)
        effective_clicks = np.where(connected, 0.0, _effective_clicks(moved, rates))
        if effective_clicks.max() < MIN_CLICKS:
            break
        connected[np.argmax(effective_clicks)] = True
    return Movement(displays, clicks, documents.astype(np.int64), effective, moved, connected)


def _effective_clicks(moved: Float64, rates: Float64) -> Float64:
    """Expected clicks among effective displays, or displays without a click if these are fewer."""
    return moved * np.minimum(rates, 1.0 - rates)


def _explain_failure(found: Movement) -> str:
    if not found.clicks.any():
        return "the log has no clicks, so a bias cannot be estimated from it"
    ranks = len(found.displays)
    if ranks < 2:
        return "the log has one rank, and a bias needs at least two: count more ranks"
    if not np.triu(found.documents, 1).any():
        return (
            "every document was always shown at the same rank of its query, so the effect of the rank cannot "
            "be separated from that of the document: collect a log in which documents move, by sampling "
            "rankings (Plackett–Luce), randomly swapping neighbours, or deploying several policies"
        )
    best = found.effective_clicks[1:].max()
    return (
        f"too little movement between rank 1 and the others: documents that were shown at both have about "
        f"{best:.0f} effective clicks, and {MIN_CLICKS:.0f} are needed: collect more data, or move documents "
        f"more (sample rankings, swap neighbours, deploy several policies)"
    )


def _format_ranks(ranks: Int64) -> str:
    """Format ranks as text: ``rank 3``, ``ranks 7 to 10``, ``ranks 3, 5 and 6``.

    >>> _format_ranks(np.array([7, 8, 9, 10])), _format_ranks(np.array([3, 5, 6]))
    ('ranks 7 to 10', 'ranks 3, 5 and 6')
    >>> _format_ranks(np.array([3]))
    'rank 3'
    """
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
