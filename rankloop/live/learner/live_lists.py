"""What the pages of a part say about two policies that are live, by the probabilities of their lists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rankloop.live.learner.metric import CLICKS, MetricName
from rankloop.live.learner.pages import PageView, PartViews
from rankloop.live.ranking.live_policy import LivePolicy
from rankloop.policies import log_probability
from rankloop.ragged import offsets_of
from rankloop.types import Float64, Int64
from rankloop.value.lists import list_differences, list_ranges, log_ratio_range

Policies = Callable[[str], LivePolicy]


class PageScale(NamedTuple):
    """What was known about a metric before the pages of a part.

    Attributes:
        metric: ``clicks`` or ``amount``.
        usual: its mean per page, which lowers the variance.
        highest: what a page counts at most; None for the number of its documents.
        unit: what bets are counted in: 1 for clicks, the mean order for amounts.
    """

    metric: MetricName
    usual: float
    highest: float | None = None
    unit: float = 1.0


class Observations(NamedTuple):
    """What pages say about a difference.

    Attributes:
        values: one number per page; their mean is the difference.
        losses: the largest loss that each could have said, known before it.
        gains: the largest gain.
        unit: what bets on them are counted in.
    """

    values: Float64
    losses: Float64
    gains: Float64
    unit: float = 1.0


NOTHING = Observations(np.zeros(0), np.zeros(0), np.zeros(0))


class ListPages:
    """The pages of a part, with the probabilities of their lists under every policy that was live.

    Args:
        part: the pages.
        policies: finds a policy by its name.
    """

    def __init__(self, part: PartViews, policies: Policies) -> None:
        self.part, self._policies = part, policies
        # A policy that lacks features fails on these requests whatever happens, and says nothing about them.
        self._failing = {view.failed for view in part.views if view.failed and self._able(view, view.failed)}
        self._logs: dict[str, Float64] = {}

    def differences(
        self, policy: str, against: str, scale: PageScale, *, tolerated: float = 0.0
    ) -> Observations:
        """What each page says about a pair.

        Where a policy failed now and then, the chance of a list is not known: pages then count by the policy
        that was chosen for them.

        Args:
            policy: the policy that is judged.
            against: the policy that it is compared with.
            scale: the metric, and what was known about it.
            tolerated: the share of the other policy's value that may be lost.
        """
        pages = [self._shares(view, policy, against) for view in self.part.views]
        rows = np.flatnonzero([each is not None for each in pages])
        by_label = bool(self._failing & {policy, against})
        if not by_label:
            rows = rows[[not self.part.views[row].failed for row in rows]]
        if not len(rows):
            return NOTHING
        own, other = np.array([pages[row] for row in rows], np.float64).T
        amounts, highest = self._amounts(rows, scale)
        ratios: tuple[Float64, Float64] | None = None
        if by_label:
            logs = self._labels(rows, policy, against, own, other)
        else:
            logs = self._log(policy)[rows], self._log(against)[rows], self._live_log(rows)
            ratios = self._ratios(rows, policy, against)
        values = list_differences(amounts, *logs, guessed=scale.usual, tolerated=tolerated)
        losses, gains = list_ranges(
            own,
            other,
            highest,
            guessed=scale.usual,
            tolerated=tolerated,
            log_ratios=ratios or (-np.inf, np.inf),
        )
        return Observations(values, losses, gains, scale.unit)

    def _ratios(self, rows: Int64, policy: str, against: str) -> tuple[Float64, Float64]:
        """The bounds of the ratio of both policies over all lists that each page could have shown."""
        known: dict[tuple[bytes, int], tuple[float, float]] = {}
        ends = []
        for view in (self.part.views[row] for row in rows):
            key = view.problem, len(view.drawn)
            if key not in known:
                own, other = self._scores_of(policy, view.problem), self._scores_of(against, view.problem)
                assert own is not None
                assert other is not None
                known[key] = log_ratio_range(own, other, len(view.drawn))
            ends.append(known[key])
        low, high = np.array(ends).T
        return low, high

    def _shares(self, view: PageView, policy: str, against: str) -> tuple[float, float] | None:
        """The shares of both policies when a page was drawn; None if it says nothing about them."""
        live = {share.policy: share.share for share in self.part.shares[view.deployment]}
        if policy in live and against in live and self._able(view, policy) and self._able(view, against):
            return live[policy], live[against]
        return None

    def _amounts(self, rows: Int64, scale: PageScale) -> tuple[Float64, Float64]:
        """What users did on each page, and the most that it can count."""
        views = [self.part.views[row] for row in rows]
        if scale.metric == CLICKS:
            clicks = [sum(each.clicked for each in view.reactions) for view in views]
            most = [max(len(view.drawn), 1) for view in views]
            return np.array(clicks, np.float64), np.array(most, np.float64)
        assert scale.highest is not None, "amounts have no bound of their own"
        worth = np.array([sum(each.amount for each in view.reactions) for view in views])
        return np.minimum(worth, scale.highest), np.full(len(views), scale.highest)

    def _labels(
        self, rows: Int64, policy: str, against: str, own: Float64, other: Float64
    ) -> tuple[Float64, Float64, Float64]:
        """What takes the place of chances of lists if all that is known is which policy was chosen."""
        chosen = np.array([self.part.views[row].failed or self.part.views[row].policy for row in rows])
        by_own, by_other = chosen == policy, chosen == against
        with np.errstate(divide="ignore"):
            logs = np.log(by_own.astype(float)), np.log(by_other.astype(float))
        return *logs, np.log(np.where(by_own, own, np.where(by_other, other, 1.0)))

    def _able(self, view: PageView, policy: str) -> bool:
        """Whether a policy can rank what this page ranked; if not, the page says nothing about it."""
        return self._scores_of(policy, view.problem) is not None

    def _scores_of(self, policy: str, problem: bytes) -> Float64 | None:
        return self.part.scores(self._policies(policy), problem)

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
