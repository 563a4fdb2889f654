"""The monitor: every policy that has traffic is judged for as long as it has any, whoever deployed it.

What is live is compared with the holdout, and every other policy, such as a canary, with what is live. The
evidence is that of whole lists (`rankloop.value.lists`): no model of users, and nothing to estimate. It goes
to a detector per side (`rankloop.statistics.detector`), which notices harm whenever it begins and needs no
end: trials come and go above it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from rankloop.live.learner.pages import AMOUNT, CLICKS, MetricName, PageView, PartViews
from rankloop.live.ranking.deployment import CANARY, EXPLORE, HOLDOUT, Share
from rankloop.live.ranking.live_policy import LivePolicy
from rankloop.live.ranking.rules import RequestError
from rankloop.policies import log_probability
from rankloop.ragged import offsets_of
from rankloop.statistics import Detector
from rankloop.storage.plain import from_plain, plain_fields
from rankloop.types import Float64, Int64
from rankloop.value.arms import arm_differences
from rankloop.value.lists import list_differences

# A bet needs a highest amount: a page counts with at most this many times the mean order.
LARGEST_ORDER = 10.0
# As many orders tell what a mean order is.
FEW_ORDERS = 20
# Points of the picture of the evidence over time; when there are more, every second one is forgotten.
POINTS = 120

Policies = Callable[[str], LivePolicy]
Point = TypeVar("Point")


@dataclass(frozen=True)
class EvidencePoint:
    """The evidence at one time.

    Attributes:
        time: in seconds since 1970.
        pages: how many were counted.
        harm: log₁₀ of the evidence that the policy is worse.
        gain: log₁₀ of the evidence that it is better.
        mean: the difference per page, over all of them.
    """

    time: float
    pages: int
    harm: float
    gain: float
    mean: float


@dataclass(frozen=True)
class Watch:
    """The evidence about one policy against another.

    Attributes:
        policy: the policy that is judged.
        against: the policy that it is compared with.
        harm: the evidence that it is worse.
        gain: the evidence that it is better.
        trail: the evidence over time.
        alarms: how often it was found to be worse.
    """

    policy: str
    against: str
    harm: Detector
    gain: Detector
    trail: tuple[EvidencePoint, ...] = ()
    alarms: int = 0

    @classmethod
    def begin(cls, policy: str, against: str, pages_per_alarm: float) -> Self:
        """A watch without any evidence."""
        return cls(policy, against, Detector(pages_per_alarm), Detector(pages_per_alarm))

    def add(self, values: Float64, losses: Float64, gains: Float64, time: float) -> Self:
        """The watch after more pages.

        Args:
            values: what each page says about the difference.
            losses: the largest loss that it could have said.
            gains: the largest gain.
            time: now, in seconds since 1970.
        """
        if not len(values):
            return self
        harm, gain = self.harm.add(-values, gains), self.gain.add(values, losses)
        ten = np.log(10.0)
        point = EvidencePoint(
            time, harm.count, max(harm.log_evidence / ten, 0.0), max(gain.log_evidence / ten, 0.0), gain.mean
        )
        return replace(self, harm=harm, gain=gain, trail=thinned((*self.trail, point)))

    def again(self) -> Self:
        """The watch after an alarm: evidence is gathered from here on."""
        return replace(self, harm=Detector(self.harm.pages_per_alarm), alarms=self.alarms + 1)


@dataclass(frozen=True)
class Monitor:
    """The state of the monitor: a value, stored as JSON.

    Attributes:
        part: the last part of the log that was counted; a part is counted once.
        watches: one per pair of policies.
        metric: ``clicks``, or ``amount`` since the first action that carried one.
        orders: pages with an amount so far.
        amount: what they were worth.
    """

    part: int = 0
    watches: tuple[Watch, ...] = ()
    metric: MetricName = CLICKS
    orders: int = 0
    amount: float = 0.0

    def follow(self, shares: Sequence[Share], pages_per_alarm: float) -> Self:
        """The monitor of what is live now: what is known about pairs that are still live is kept."""
        known = {(each.policy, each.against): each for each in self.watches}
        pairs = judged_pairs(shares)
        watches = tuple(known.get(pair) or Watch.begin(*pair, pages_per_alarm) for pair in pairs)
        return replace(self, watches=watches)

    def after(self, part: PartViews, policies: Policies, time: float) -> Self:
        """The monitor after one more part; a part that was counted before changes nothing."""
        if part.number <= self.part:
            return self
        watches, metric = self.watches, self.metric
        if metric == CLICKS and part.metric == AMOUNT:
            # Clicks and amounts are not the same thing: nothing of one kind of evidence speaks for the other.
            metric = AMOUNT
            watches = tuple(
                Watch.begin(each.policy, each.against, each.harm.pages_per_alarm) for each in watches
            )
        highest = None
        if metric == AMOUNT:
            highest = LARGEST_ORDER * self.amount / self.orders if self.orders >= FEW_ORDERS else 0.0
        if watches and highest != 0.0:
            pages = _Pages(part, policies, highest)
            watches = tuple(each.add(*pages.differences(each.policy, each.against), time) for each in watches)
        sums = [sum(each.amount for each in view.reactions) for view in part.views]
        return replace(
            self,
            part=part.number,
            watches=watches,
            metric=metric,
            orders=self.orders + sum(each > 0.0 for each in sums),
            amount=self.amount + float(sum(sums)),
        )

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

    What is live against the holdout, and every other policy against what is live. The explorer is not judged:
    what it costs is the price of learning.

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
    pairs = []
    if holdouts:
        pairs.append((main.policy, max(holdouts, key=lambda share: share.share).policy))
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


class _Pages:
    """The pages of a part, with the probabilities of their lists under every policy that was live.

    Args:
        part: the pages.
        policies: finds a policy by its name.
        highest: the amount that a page counts at most; None to count clicks.
    """

    def __init__(self, part: PartViews, policies: Policies, highest: float | None) -> None:
        self.part, self._policies = part, policies
        self._scores: dict[tuple[str, bytes], Float64 | None] = {}
        amounts = [
            sum(each.clicked for each in view.reactions)
            if highest is None
            else min(sum(each.amount for each in view.reactions), highest)
            for view in part.views
        ]
        self._amounts = np.array(amounts, np.float64)
        self._highest = np.array(
            [max(len(view.drawn), 1) if highest is None else highest for view in part.views], np.float64
        )
        # A policy that lacks features fails on these requests whatever happens, and says nothing about them.
        self._failing = {view.failed for view in part.views if view.failed and self._able(view, view.failed)}
        self._logs: dict[str, Float64] = {}

    def differences(self, policy: str, against: str) -> tuple[Float64, Float64, Float64]:
        """What each page says about a pair, and the largest loss and gain that it could have said.

        Where a policy failed now and then, the chance of a list is not known: pages then count by the policy
        that was chosen for them.
        """
        rows, shares = [], []
        for row, view in enumerate(self.part.views):
            live = {share.policy: share.share for share in self.part.shares[view.deployment]}
            if policy in live and against in live and self._able(view, policy) and self._able(view, against):
                rows.append(row)
                shares.append((live[policy], live[against]))
        if not rows:
            return (np.zeros(0),) * 3
        own, other = np.array(shares).T
        amounts, highest = self._amounts[rows], self._highest[rows]
        if self._failing & {policy, against}:
            chosen = [self.part.views[row].failed or self.part.views[row].policy for row in rows]
            by_own, by_other = (
                np.array([each == name for each in chosen], float) for name in (policy, against)
            )
            values = arm_differences(amounts, by_own, by_other, own, other)
            return values, highest / other, highest / own
        drawn = np.array([not self.part.views[row].failed for row in rows])
        picked = np.array(rows)[drawn]
        if not len(picked):
            return (np.zeros(0),) * 3
        log_own, log_other = self._log(policy)[picked], self._log(against)[picked]
        values = list_differences(self._amounts[picked], log_own, log_other, self._live_log(picked))
        return values, self._highest[picked] / other[drawn], self._highest[picked] / own[drawn]

    def _able(self, view: PageView, policy: str) -> bool:
        """Whether a policy can rank what this page ranked; if not, the page says nothing about it."""
        return self._scores_of(policy, view.problem) is not None

    def _scores_of(self, policy: str, problem: bytes) -> Float64 | None:
        key = (policy, problem)
        if key not in self._scores:
            try:
                self._scores[key] = self._policies(policy).scores(self.part.problems[problem])
            except RequestError:
                self._scores[key] = None
        return self._scores[key]

    def _log(self, policy: str) -> Float64:
        """The logarithm of the probability of each list under a policy; −∞ where it cannot rank."""
        if policy not in self._logs:
            logs = np.full(len(self.part.views), -np.inf)
            by_length: dict[int, list[int]] = defaultdict(list)
            for row, view in enumerate(self.part.views):
                if self._scores_of(policy, view.problem) is not None:
                    by_length[len(view.drawn)].append(row)
            for length, rows in by_length.items():
                logs[rows] = self._log_of(policy, np.array(rows)) if length else 0.0
            self._logs[policy] = logs
        return self._logs[policy]

    def _log_of(self, policy: str, rows: Int64) -> Float64:
        views = [self.part.views[row] for row in rows]
        scores = [self._scores_of(policy, view.problem) for view in views]
        known = [each for each in scores if each is not None]
        offsets = offsets_of(np.array([len(each) for each in known]))
        return log_probability(np.concatenate(known), offsets, np.array([view.drawn for view in views]))

    def _live_log(self, rows: Int64) -> Float64:
        total = np.full(len(rows), -np.inf)
        deployments = np.array([self.part.views[row].deployment for row in rows])
        for deployment in np.unique(deployments):
            inside = deployments == deployment
            for share in self.part.shares[int(deployment)]:
                own = np.log(share.share) + self._log(share.policy)[rows[inside]]
                total[inside] = np.logaddexp(total[inside], own)
        return total
