"""Which ranks a log can compare: those between which items moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankloop.bias.rank_counts import RankCounts
from rankloop.errors import DataError
from rankloop.kernels.click_likelihood import compare_ranks, compare_with
from rankloop.types import Float64, Int64

# A rank is compared with the others if items that were also shown elsewhere have at least so many clicks
# there, each display counted as far as it compares (and so many displays without a click, where most are
# clicked): the rank's click rate beside the others' is then known to about a seventh.
LEAST_CLICKS = 100.0


@dataclass(frozen=True, eq=False)
class Movement:
    """How items moved between ranks.

    An item that was shown n times at one rank and m times at another compares them as well as
    ``n · m / (n + m)`` displays at each would: its effective displays.

    Attributes:
        displays: float64, ranks.
        clicks: float64, ranks.
        items: int64, ranks × ranks; how many items were shown at both ranks, and at one on the diagonal.
        effective: float64, ranks × ranks; effective displays between two ranks, displays on the diagonal.
        moved: float64, ranks; effective displays between a rank and all others that are connected with
            rank 1.
        connected: bool, ranks; whether enough items moved between this rank and others that are connected,
            so that they can be compared with rank 1.
        ranks: how many ranks, from the first, are connected: those that get numbers.
    """

    displays: Float64
    clicks: Float64
    items: Int64
    effective: Float64
    moved: Float64
    connected: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @property
    def ranks(self) -> int:
        """How many ranks, from the first, are connected: those that get numbers."""
        return int(np.argmin(np.append(self.connected, False)))

    @property
    def rates(self) -> Float64:
        """Clicks a display, by rank."""
        return self.clicks / np.maximum(self.displays, 1.0)

    @property
    def refused(self) -> str | None:
        """What to say of ranks that get no number; None if all do."""
        if self.ranks == len(self.connected):
            return None
        weak = np.flatnonzero(~self.connected) + 1
        said = f"too little movement at {_spelt(weak)}: {self._least_moved(weak)}"
        lost = np.flatnonzero(self.connected[self.ranks :]) + self.ranks + 1
        if len(lost):
            said += f"; no number either below, at {_spelt(lost)}"
        return said

    def _least_moved(self, weak: Int64) -> str:
        # Counted as `connected` counts them.
        known = _certain(self.moved, self.rates)[weak - 1]
        return (
            f"documents that were also shown at other ranks have about {known.max():.0f} clicks there that "
            f"compare the ranks, and {LEAST_CLICKS:.0f} are needed"
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "displays": self.displays.astype(int).tolist(),
            "clicks": self.clicks.astype(int).tolist(),
            "moved": self.moved.round(2).tolist(),
            "connected": self.connected.tolist(),
            "items": self.items.tolist(),
            "effective": self.effective.round(2).tolist(),
        }


def movement(shown: RankCounts) -> Movement:
    """How items moved between the ranks of what was shown.

    Ranks are joined to rank 1 one after the other, the best connected first.

    Raises:
        DataError: nothing moved between rank 1 and any other rank, so that nothing can be estimated.
    """
    ranks = shown.ranks
    items, effective, clicked = np.zeros((3, ranks, ranks))
    compare_ranks(
        shown.starts,
        shown.rank,
        shown.displays,
        shown.clicks,
        np.ones(shown.n_items),
        items,
        effective,
        clicked,
    )
    displays, clicks = np.diag(effective).copy(), np.diag(clicked).copy()
    rates = clicks / np.maximum(displays, 1.0)
    connected = np.arange(ranks) == 0
    while True:
        moved = np.zeros(ranks)
        compare_with(shown.starts, shown.rank, shown.displays, connected, moved)
        known = np.where(connected, 0.0, _certain(moved, rates))
        if known.max() < LEAST_CLICKS:
            break
        connected[np.argmax(known)] = True
    result = Movement(displays, clicks, items.astype(np.int64), effective, moved, connected)
    if result.ranks < 2:
        raise DataError(_hopeless(result))
    return result


def _certain(moved: Float64, rates: Float64) -> Float64:
    """Expected clicks among effective displays, or displays without a click if these are fewer."""
    return moved * np.minimum(rates, 1.0 - rates)


def _hopeless(found: Movement) -> str:
    if not found.clicks.any():
        return "nothing was clicked in this log: there is nothing to estimate a bias from"
    ranks = len(found.displays)
    if ranks < 2:
        return "the log has one rank: a bias compares ranks, and needs at least two (count more of them)"
    if not np.triu(found.items, 1).any():
        return (
            "every document was always shown at the same rank of its query, so that ranks cannot be told "
            "from documents: gather a log in which documents move, by drawing rankings (Plackett–Luce), "
            "swapping neighbours now and then, or with several policies"
        )
    best = _certain(found.moved, found.rates)[1:].max()
    return (
        f"too little movement between rank 1 and the others: documents that were shown at both have about "
        f"{best:.0f} clicks that compare them, and {LEAST_CLICKS:.0f} are needed: gather more, or let "
        f"documents move more (draw rankings, swap neighbours, deploy several policies)"
    )


def _spelt(ranks: Int64) -> str:
    """Ranks as words: ``rank 3``, ``ranks 7 to 10``, ``ranks 3, 5 and 6``.

    >>> _spelt(np.array([7, 8, 9, 10])), _spelt(np.array([3])), _spelt(np.array([3, 5, 6]))
    ('ranks 7 to 10', 'rank 3', 'ranks 3, 5 and 6')
    """
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
