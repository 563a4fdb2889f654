"""Users of simulated logs: what they click of the lists that they are shown, in sound and in broken ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankloop.types import Float64

if TYPE_CHECKING:
    from experiments.simulator import Traffic

Flags = NDArray[np.bool_]

DAY = 86_400.0
# The beginning of logs, in seconds since 1970: a Monday.
BEGINNING = 18_519 * DAY
# The users of the paper, at six tenths of their rate of clicks: demand can then rise by 30 %.
ALPHA = 0.6 * np.array([0.35, 0.53, 0.55, 0.54, 0.52, 0.46, 0.42, 0.38, 0.34, 0.3])
BETA = 0.6 * np.array([0.65, 0.26, 0.15, 0.11, 0.08, 0.06, 0.05, 0.04, 0.04, 0.03])
# Users whose tastes differ are of so many kinds.
KINDS = 128


def affine_chance(traffic: Traffic) -> Float64:
    """The click probabilities of affine users."""
    return ALPHA[: traffic.ranks] * traffic.shown + BETA[: traffic.ranks]


def examination(traffic: Traffic) -> Float64:
    """The share of users who look at each rank."""
    return 1.0 / np.arange(1.0, traffic.ranks + 1.0)


def affine(traffic: Traffic) -> Flags:
    """Affine users."""
    return traffic.drawn(affine_chance(traffic))


def position(traffic: Traffic) -> Flags:
    """Users who examine by position and click what is relevant."""
    return traffic.drawn(examination(traffic) * (0.1 + 0.8 * traffic.shown))


@dataclass(frozen=True)
class Demand:
    """Demand changes in the middle, when the policy does.

    Attributes:
        factor: clicks of the second half, as a multiple.
    """

    factor: float

    def __call__(self, traffic: Traffic) -> Flags:
        """The clicks."""
        return traffic.drawn(affine_chance(traffic) * np.where(traffic.late, self.factor, 1.0)[:, None])


def trend(traffic: Traffic) -> Flags:
    """Demand rises all the time, to 1.6 times what it was."""
    return traffic.drawn(affine_chance(traffic) * np.linspace(1.0, 1.6, len(traffic.query))[:, None])


def demand_and_lengths(traffic: Traffic) -> Flags:
    """Demand +30 % from the middle on, and each document is clicked less in a longer list."""
    length = (traffic.lists >= 0).sum(axis=1, keepdims=True)
    factor = np.where(traffic.late, 1.3, 1.0)[:, None]
    return traffic.drawn(affine_chance(traffic) * factor * (3.0 / (length + 1.0)) ** 0.6)


def users_change(traffic: Traffic) -> Flags:
    """From the middle on, users trust positions less and examine fewer of them."""
    ranks = traffic.ranks
    later = ALPHA[:ranks] * np.linspace(1.3, 0.6, ranks) * traffic.shown + 0.8 * BETA[:ranks]
    return traffic.drawn(np.where(traffic.late[:, None], later, affine_chance(traffic)))


def lost_clicks(traffic: Traffic) -> Flags:
    """From the middle on, 30 % of the clicks at the third rank are lost."""
    lossy = traffic.late[:, None] & (np.arange(traffic.ranks) == 2)
    return traffic.drawn(affine_chance(traffic) * np.where(lossy, 0.7, 1.0))


def weekends(traffic: Traffic) -> Flags:
    """Users click 25 % more at weekends."""
    weekend = ((traffic.time - BEGINNING) // DAY) % 7 >= 5
    return traffic.drawn(affine_chance(traffic) * np.where(weekend, 1.25, 1.0)[:, None])


def robots(traffic: Traffic, *, from_middle: bool = False) -> Flags:
    """One user in twenty is a robot, which clicks nearly everything."""
    share = np.random.default_rng(5).random(int(traffic.user.max()) + 1) < 0.05
    robot = share[traffic.user] & (traffic.late | (not from_middle))
    return traffic.drawn(np.where(robot[:, None], 0.9, affine_chance(traffic)))


def late_robots(traffic: Traffic) -> Flags:
    """Robots come in the second half."""
    return robots(traffic, from_middle=True)


def users_differ(traffic: Traffic) -> Flags:
    """Some users click much more than others."""
    return traffic.drawn(affine_chance(traffic) * traffic.level[:, None])


def tastes_differ(traffic: Traffic) -> Flags:
    """Users return, click more or less than others, and each has tastes of their own."""
    count = traffic.queries.relevance.size
    tastes = np.random.default_rng(7).normal(0.0, 0.25, (KINDS, count))
    place = traffic.query[:, None] * traffic.queries.relevance.shape[1] + traffic.lists
    relevance = np.clip(traffic.shown + tastes[(traffic.user % KINDS)[:, None], place], 0.0, 1.0)
    ranks = traffic.ranks
    return traffic.drawn((ALPHA[:ranks] * relevance + BETA[:ranks]) * traffic.level[:, None])


def until_stopped(clicked: Flags, stops: Flags) -> Flags:
    """Clicks before and at the first stop."""
    reached: Flags = np.cumsum(np.pad(stops, ((0, 0), (1, 0)))[:, :-1], axis=1) == 0
    return clicked & reached


def cascade(traffic: Traffic) -> Flags:
    """Users go from the top to the bottom, and mostly stop after a click."""
    clicked = traffic.drawn(0.1 + 0.6 * traffic.shown)
    gone = traffic.rng.random((2, *clicked.shape))
    return until_stopped(clicked, (clicked & (gone[0] < 0.7)) | (gone[1] < 0.1))


def dependent_clicks(traffic: Traffic) -> Flags:
    """The dependent click model: after a click, users go on less often the deeper they are."""
    clicked = traffic.drawn(0.05 + 0.6 * traffic.shown)
    onward = np.linspace(0.8, 0.4, traffic.ranks)
    return until_stopped(clicked, clicked & (traffic.rng.random(clicked.shape) > onward))


@dataclass(frozen=True)
class SlightCascade:
    """Affine users, some of whom stop after a click.

    Attributes:
        stops: their share.
    """

    stops: float

    def __call__(self, traffic: Traffic) -> Flags:
        """The clicks."""
        clicked = affine(traffic)
        return until_stopped(clicked, clicked & (traffic.rng.random(clicked.shape) < self.stops))


def substitution(traffic: Traffic) -> Flags:
    """A document is clicked less beside relevant ones."""
    shown = traffic.shown
    others = (shown.sum(axis=1, keepdims=True) - shown) / max(traffic.ranks - 1, 1)
    return traffic.drawn(affine_chance(traffic) * (1.2 - 0.6 * others))


def one_pick(traffic: Traffic) -> Flags:
    """Users pick one document of a list, or none."""
    amount = examination(traffic) ** 0.5 * (0.1 + 2.0 * traffic.shown) * (traffic.lists >= 0)
    chance = np.cumsum(amount / (1.0 + amount.sum(axis=1, keepdims=True)), axis=1)
    pick = (traffic.rng.random((len(chance), 1)) > chance).sum(axis=1)
    clicked: Flags = np.arange(traffic.ranks) == pick[:, None]
    return clicked


def shared_attention(traffic: Traffic) -> Flags:
    """Each document is clicked less in a longer list."""
    length = (traffic.lists >= 0).sum(axis=1, keepdims=True)
    return traffic.drawn(affine_chance(traffic) * (3.0 / (length + 1.0)) ** 0.6)


def flat_attention(traffic: Traffic) -> Flags:
    """The position does not matter, but in longer lists each document is clicked less."""
    length = (traffic.lists >= 0).sum(axis=1, keepdims=True)
    return traffic.drawn((0.1 + 0.8 * traffic.shown) * (2.0 / (length + 1.0)))


def device_levels(traffic: Traffic) -> Flags:
    """One device clicks more than the other, at all positions alike."""
    return traffic.drawn(affine_chance(traffic) * np.where(traffic.device, 1.3, 0.8)[:, None])


def curves(traffic: Traffic, power: Float64) -> Flags:
    """Users who examine fewer positions the larger the power is."""
    return traffic.drawn(examination(traffic) ** power[:, None] * (0.1 + 0.8 * traffic.shown))


def device_curves(traffic: Traffic) -> Flags:
    """Users of one device examine fewer positions; the device is in the log."""
    return curves(traffic, np.where(traffic.device, 1.2, 0.4))


def hidden_curves(traffic: Traffic) -> Flags:
    """Users examine few positions of one half of the queries and many of the other; the log does not say."""
    return curves(traffic, np.where(traffic.queries.trait[traffic.query] < 0.5, 0.3, 1.3))


def fatigue(traffic: Traffic) -> Flags:
    """Users click less the more lists they have seen, until they come back fresh."""
    order = np.lexsort((traffic.time, traffic.user))
    first = np.append(True, np.diff(traffic.user[order]) != 0)
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    seen = np.empty(len(order), np.int64)
    seen[order] = np.arange(len(order)) - start
    return traffic.drawn(affine_chance(traffic) * (0.8 ** (seen % 6))[:, None])


def seasons(traffic: Traffic) -> Flags:
    """Half of the documents become more relevant all the time, the others less."""
    trend_of = np.random.default_rng(7).choice([-0.5, 0.5], traffic.queries.relevance.shape)
    moment = np.linspace(-0.5, 0.5, len(traffic.query))[:, None]
    change = trend_of[traffic.query[:, None], traffic.lists] * moment
    relevance = np.clip(traffic.shown + change, 0.0, 1.0)
    return traffic.drawn(ALPHA[: traffic.ranks] * relevance + BETA[: traffic.ranks])


def curves_by_query(traffic: Traffic) -> Flags:
    """A third of the queries, which users know well, are examined at the top only."""
    return curves(traffic, np.where(traffic.queries.trait[traffic.query] < 0.33, 1.4, 0.7))


def delayed(traffic: Traffic) -> Flags:
    """Of the clicks of the last twentieth of the time, six tenths come after the log was cut."""
    late = np.arange(len(traffic.query)) > 0.95 * len(traffic.query)
    return traffic.drawn(affine_chance(traffic) * np.where(late, 0.4, 1.0)[:, None])


def two_defects(traffic: Traffic) -> Flags:
    """In the second half clicks at rank 3 are lost, and one in ten impressions has those of another list."""
    clicked = lost_clicks(traffic)
    mixed = traffic.late & (traffic.rng.random(len(clicked)) < 0.1)
    clicked[mixed] = traffic.rng.permutation(clicked[mixed])
    return clicked & (traffic.lists >= 0)


def reloads(traffic: Traffic) -> Flags:
    """Three in ten impressions are copies of the one before them, clicks included."""
    copies = np.flatnonzero(traffic.rng.random(len(traffic.query)) < 0.3)
    copies = copies[copies > 0]
    for values in (traffic.lists, traffic.query, traffic.policy):
        values[copies] = values[copies - 1]
    clicked = affine(traffic)
    clicked[copies] = clicked[copies - 1]
    return clicked


def personal(traffic: Traffic) -> Flags:
    """Both policies put what a user likes first in half of the lists; the log does not know their taste."""
    tastes = np.random.default_rng(7).normal(0.0, 0.25, (KINDS, traffic.queries.relevance.size))

    def liked() -> Float64:
        place = traffic.query[:, None] * traffic.queries.relevance.shape[1] + traffic.lists
        return tastes[(traffic.user % KINDS)[:, None], place]

    order = np.argsort(-liked(), axis=1)
    chosen = traffic.rng.random(len(order)) < 0.5
    traffic.lists[chosen] = np.take_along_axis(traffic.lists, order, axis=1)[chosen]
    relevance = np.clip(traffic.shown + liked(), 0.0, 1.0)
    return traffic.drawn(ALPHA[: traffic.ranks] * relevance + BETA[: traffic.ranks])
