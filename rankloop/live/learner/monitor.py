"""The monitor: every policy that has traffic is judged for as long as it has any, whoever deployed it.

What is live is compared with each holdout, and every other policy, such as a canary, with what is live. The
evidence is that of whole lists (`rankloop.value.lists`): no model of users, and nothing to estimate. Bets on
it (`rankloop.statistics.bets`) decide, and a detector (`rankloop.statistics.bets`) notices harm whenever
it begins: trials come and go above both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

import numpy as np

from rankloop.evidence import Decision, Evidence, decide
from rankloop.live.learner.live_lists import ListPages, Observations, PageScale, Policies
from rankloop.live.learner.metric import CLICKS, Guard, MetricName, metric_of
from rankloop.live.learner.pages import PartViews
from rankloop.live.learner.settings import LearnerSettings
from rankloop.live.ranking.deployment import CANARY, EXPLORE, HOLDOUT, Share
from rankloop.statistics import Bets, Detector
from rankloop.storage.plain import from_plain, plain_fields

# A bet needs a highest amount: a page counts with at most this many times the mean order.
LARGEST_ORDER = 10.0
# As many orders tell what a mean order is.
FEW_ORDERS = 20
# Points of the picture of the evidence over time; when there are more, every second one is forgotten.
POINTS = 120
LOG_TEN = math.log(10.0)

Point = TypeVar("Point")


@dataclass(frozen=True)
class EvidencePoint:
    """The evidence at one time.

    Attributes:
        time: in seconds since 1970.
        pages: how many were counted.
        harm: log₁₀ of E that the policy is worse.
        gain: log₁₀ of E that it is better.
        mean: the difference per page, over all of them.
    """

    time: float
    pages: int
    harm: float
    gain: float
    mean: float


@dataclass(frozen=True)
class GuardBets:
    """The evidence about a guard of a pair.

    Attributes:
        guard: what may not be lost, as people write it.
        held: bets that less is lost.
        broken: bets that more is lost.
    """

    guard: str
    held: Bets = field(default_factory=Bets)
    broken: Bets = field(default_factory=Bets)

    def add(self, pages: Observations) -> Self:
        """The evidence after more pages."""
        return replace(
            self,
            held=self.held.add(pages.values, pages.losses, unit=pages.unit),
            broken=self.broken.add(-pages.values, pages.gains, unit=pages.unit),
        )


@dataclass(frozen=True)
class Watch:
    """The evidence about one policy against another.

    Attributes:
        policy: the policy that is judged.
        against: the policy that it is compared with.
        harm: notices whenever it becomes worse.
        better: bets that it is better.
        worse: bets that it is worse.
        guards: the same for what it may not lose.
        trail: the evidence over time.
        alarms: how often it seemed to be worse.
        said: whether people know that it is better.
    """

    policy: str
    against: str
    harm: Detector
    better: Bets = field(default_factory=Bets)
    worse: Bets = field(default_factory=Bets)
    guards: tuple[GuardBets, ...] = ()
    trail: tuple[EvidencePoint, ...] = ()
    alarms: int = 0
    said: bool = False

    @classmethod
    def begin(cls, policy: str, against: str, settings: LearnerSettings) -> Self:
        """A watch without any evidence."""
        guards = tuple(GuardBets(str(each)) for each in settings.guards)
        return cls(policy, against, Detector(settings.pages_per_alarm), guards=guards)

    def add(self, pages: Observations, guarded: Sequence[Observations | None], time: float) -> Self:
        """The watch after more pages.

        Args:
            pages: what each page says about the difference.
            guarded: the same for each guard; None if nothing is known about its metric yet.
            time: now, in seconds since 1970.
        """
        guards = tuple(
            each if own is None else each.add(own) for each, own in zip(self.guards, guarded, strict=True)
        )
        if not len(pages.values):
            return replace(self, guards=guards)
        better = self.better.add(pages.values, pages.losses, unit=pages.unit)
        worse = self.worse.add(-pages.values, pages.gains, unit=pages.unit)
        harm = self.harm.add(-pages.values, pages.gains, unit=pages.unit)
        harmful, gainful = worse.log_evidence / LOG_TEN, better.log_evidence / LOG_TEN
        point = EvidencePoint(time, worse.count, harmful, gainful, better.mean)
        trail = thinned((*self.trail, point))
        return replace(self, harm=harm, better=better, worse=worse, guards=guards, trail=trail)

    def decision(self, level: float) -> Decision:
        """Whether the policy is better or worse, by all pages since this watch began."""
        return decide(Evidence.of_bets(self.better, self.worse), level=level)

    def guarded(self, level: float) -> bool:
        """Whether every guard is known to hold. All have to, so none needs a stricter level."""
        return all(each.held.decides(level) for each in self.guards)

    def broken(self, level: float) -> list[str]:
        """The guards that are known not to hold."""
        return [each.guard for each in self.guards if each.broken.decides(level)]

    def numbers(self, metric: str) -> dict[str, Any]:
        """The evidence for people and for the history."""
        count = self.worse.count
        known = count > 1
        return {
            "policy": self.policy,
            "against": self.against,
            "metric": metric,
            "pages": count,
            "mean": self.better.mean if known else None,
            "standard_error": self.better.standard_error if known else None,
            "harm": self.worse.log_evidence / LOG_TEN,
            "gain": self.better.log_evidence / LOG_TEN,
            "guards": {each.guard: each.held.log_evidence / LOG_TEN for each in self.guards},
            "alarm": self.harm.log_evidence / LOG_TEN if count else None,
            "pages_per_alarm": self.harm.pages_per_alarm,
            "alarms": self.alarms,
            "since": self.harm.onset[0],
        }

    def again(self) -> Self:
        """The watch after an alarm: evidence is gathered from here on."""
        return replace(
            self,
            harm=Detector(self.harm.pages_per_alarm),
            better=Bets(),
            worse=Bets(),
            guards=tuple(GuardBets(each.guard) for each in self.guards),
            trail=(),
            alarms=self.alarms + 1,
        )


@dataclass(frozen=True)
class EqualShares:
    """Two policies that got equal shares, because one of them may do harm.

    Attributes:
        deployment: the number of the deployment.
        policy: the policy that may do harm.
        against: the policy that it is compared with.
        before: the shares that are restored if it does not.
        restores: the number of the deployment that had them.
    """

    deployment: int
    policy: str
    against: str
    before: tuple[Share, ...]
    restores: int


@dataclass(frozen=True)
class Monitor:
    """The state of the monitor: a value, stored as JSON.

    Attributes:
        part: the last part of the log that was counted; a part is counted once.
        watches: one per pair of policies.
        metric: ``clicks``, or ``amount`` since the first action that carried one.
        pages: how many were seen so far.
        clicks: the clicks on them.
        orders: those with an amount.
        amount: what they were worth, each at most ten times as much as orders before it.
        first: what the first orders were worth, until there are enough to tell a mean.
        equal: two policies that have equal shares until lists decide between them.
    """

    part: int = 0
    watches: tuple[Watch, ...] = ()
    metric: MetricName = CLICKS
    pages: int = 0
    clicks: int = 0
    orders: int = 0
    amount: float = 0.0
    first: tuple[float, ...] = ()
    equal: EqualShares | None = None

    def follow(self, shares: Sequence[Share], settings: LearnerSettings) -> Self:
        """The monitor of what is live now: what is known about pairs that are still live is kept."""
        known = {(each.policy, each.against): each for each in self.watches}
        begun = [Watch.begin(*pair, settings) for pair in judged_pairs(shares)]
        watches = []
        for new in begun:
            watch = known.get((new.policy, new.against), new)
            guards = {each.guard: each for each in watch.guards}
            kept = tuple(guards.get(each.guard, each) for each in new.guards)
            harm = replace(watch.harm, pages_per_alarm=settings.pages_per_alarm)
            watches.append(replace(watch, guards=kept, harm=harm))
        return replace(self, watches=tuple(watches))

    def after(self, part: PartViews, policies: Policies, time: float, settings: LearnerSettings) -> Self:
        """The monitor after one more part; a part that was counted before changes nothing."""
        if part.number <= self.part:
            return self
        watches, metric = self.watches, self.metric
        wanted = metric_of(settings.metric, metric, part.metric)
        if wanted != metric:
            # Clicks and amounts are not the same thing: nothing of one kind of evidence speaks for the other.
            metric = wanted
            watches = tuple(Watch.begin(each.policy, each.against, settings) for each in watches)
        scale = self._scale(metric)
        if watches and scale is not None:
            lists = ListPages(part, policies)
            watches = tuple(
                each.add(
                    lists.differences(each.policy, each.against, scale), self._guarded(each, lists), time
                )
                for each in watches
            )
        sums = [sum(each.amount for each in view.reactions) for view in part.views]
        return replace(
            self,
            part=part.number,
            watches=watches,
            metric=metric,
            pages=self.pages + len(part.views),
            clicks=self.clicks + sum(each.clicked for view in part.views for each in view.reactions),
        )._with_orders([each for each in sums if each > 0.0])

    def _with_orders(self, worth: Sequence[float]) -> Self:
        """The monitor after more orders, of which no absurd one tells what is usual."""
        known = (*self.first, *worth)
        if not self.orders and len(known) < FEW_ORDERS:
            return replace(self, first=known)
        usual = self.amount / self.orders if self.orders else float(np.median(known))
        amount = float(np.minimum(known, LARGEST_ORDER * usual).sum())
        return replace(self, first=(), orders=self.orders + len(known), amount=self.amount + amount)

    def _scale(self, metric: MetricName) -> PageScale | None:
        """What is known about a metric by now; None if that is not enough to bound it."""
        pages = max(self.pages, 1)
        if metric == CLICKS:
            return PageScale(metric, self.clicks / pages)
        if not self.orders:
            return None
        order = self.amount / self.orders
        return PageScale(metric, self.amount / pages, LARGEST_ORDER * order, order)

    def _guarded(self, watch: Watch, lists: ListPages) -> list[Observations | None]:
        """What the pages say about each guard of a pair."""
        observed: list[Observations | None] = []
        for each in watch.guards:
            guard = Guard.parse(each.guard)
            scale = self._scale(guard.metric)
            observed.append(
                None
                if scale is None
                else lists.differences(watch.policy, watch.against, scale, tolerated=guard.tolerated)
            )
        return observed

    def watch_of(self, policy: str, against: str) -> Watch | None:
        """The evidence about a pair; None if it is not judged."""
        known = {(each.policy, each.against): each for each in self.watches}
        return known.get((policy, against))

    def replaced(self, watch: Watch) -> Self:
        """The monitor with another state of the watch of the same pair."""
        return replace(
            self,
            watches=tuple(
                watch if (each.policy, each.against) == (watch.policy, watch.against) else each
                for each in self.watches
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The state for JSON."""
        return plain_fields(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """The state that `to_dict` stored.

        Raises:
            DataError: it has other fields than those of today.
        """
        return from_plain(cls, state, "not the state of a monitor of this version")


def judged_pairs(shares: Sequence[Share]) -> tuple[tuple[str, str], ...]:
    """Which policies of a deployment are judged, and against which.

    What is live against each holdout, and every other policy against what is live. The explorer is not
    judged: what it costs is the price of learning.

    >>> judged_pairs([Share("new", 0.8), Share("new-explore", 0.1, "explore"), Share("old", 0.1, "holdout")])
    (('new', 'old'),)
    >>> judged_pairs([Share("start", 0.8), Share("planted", 0.2)])
    (('planted', 'start'),)
    """
    policies = [share for share in shares if share.role != EXPLORE]
    if len(policies) < 2:
        return ()
    main = main_share(policies)
    holdouts = [share for share in policies if share.role == HOLDOUT and share is not main]
    pairs = [(main.policy, share.policy) for share in holdouts]
    others = [share for share in policies if share is not main and share.role != HOLDOUT]
    return (*pairs, *((share.policy, main.policy) for share in others))


def main_share(shares: Sequence[Share]) -> Share:
    """The share of what is live: the largest one that is no canary, explorer or holdout."""
    live = [share for share in shares if share.role not in (CANARY, EXPLORE, HOLDOUT)]
    return max(live or shares, key=lambda share: share.share)


def thinned(trail: tuple[Point, ...]) -> tuple[Point, ...]:
    """The points of a picture; if there are too many, every second one, and always the last.

    >>> len(thinned(tuple(range(POINTS)))), thinned(tuple(range(POINTS + 1)))[-2:]
    (120, (118, 120))
    """
    return trail if len(trail) <= POINTS else trail[(len(trail) + 1) % 2 :: 2]
