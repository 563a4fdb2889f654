"""What pages showed and what users did there, and what that says about a policy that nobody saw yet.

By what users did on the pages of the policies that are live: the
contribution of an impression (`rankloop.value.contribution`) with the difference of both policies as λ, and
with the mixture that was live as ᾱ, which is known before the impression. Whether users agree with a policy
is asked in the same way, with a contrast in place of the difference (`agreement_contrast`). What pages say
about two policies that are live, without assumptions about users, is in `rankloop.live.learner.live_lists`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import Connection, select

from rankloop.evidence.trust_region import agreement_contrast
from rankloop.live.learner.metric import AMOUNT, CLICKS, MetricName
from rankloop.live.ranking.deployment import Share
from rankloop.live.ranking.live_policy import LivePolicy
from rankloop.live.ranking.problem import RankingProblem
from rankloop.live.ranking.user_cap import UNCOUNTED
from rankloop.live.store.events import Reaction, read_reactions
from rankloop.live.store.impressions import read_drawn, read_pins
from rankloop.live.store.tables import deployments, impressions, policies, problems
from rankloop.policies import expected_rank_weights
from rankloop.ragged import offsets_of
from rankloop.statistics.counts import ImpressionRows
from rankloop.storage.plain import from_plain
from rankloop.types import Bias, Float64, Int64
from rankloop.value import Contribution

# How much more a policy may show a document than the mixture that was live; what is beyond does not count,
# so that a gain is never overestimated by much.
LARGEST_RATIO = 100.0

# The expected weights of the documents of several problems, under a policy.
Expect = Callable[[LivePolicy], Float64]


@dataclass(frozen=True, eq=False)
class PageView:
    """One impression.

    Attributes:
        problem: the key of what was ranked, in `PartViews.problems`.
        policy: the name of the policy that ranked.
        deployment: the number of the deployment, in `PartViews.shares`.
        slots: positions that the policy filled, from 0, as far as the page goes.
        drawn: numbers of the documents in these positions.
        reactions: for each of them, whether it was clicked, and what the best action was worth.
        clicks: all clicks on the page, pinned documents included.
        amount: what all actions on the page were worth, likewise.
        failed: the policy that was chosen and failed, if this is a page of the fallback.
    """

    problem: bytes
    policy: str
    deployment: int
    slots: tuple[int, ...]
    drawn: tuple[int, ...]
    reactions: tuple[Reaction, ...]
    clicks: int
    amount: float
    failed: str = ""


@dataclass(frozen=True, eq=False)
class PartViews:
    """All impressions of a part.

    Attributes:
        views: the impressions in their order.
        problems: what was ranked, by key.
        shares: the shares of each deployment, by its number.
        number: the number of the part.
        scored: what policies gave to the candidates so far, by policy and problem.
    """

    views: tuple[PageView, ...]
    problems: dict[bytes, RankingProblem]
    shares: dict[int, tuple[Share, ...]]
    number: int = 0
    scored: dict[tuple[str, bytes], Float64 | None] = field(default_factory=dict)

    def scores(self, policy: LivePolicy, problem: bytes) -> Float64 | None:
        """The scores of a policy; None if it cannot rank these candidates, and they say nothing about it."""
        key = policy.name, problem
        if key not in self.scored:
            self.scored[key] = policy.scores_if_able(self.problems[problem])
        return self.scored[key]

    @property
    def metric(self) -> MetricName:
        """``amount`` if any action on a ranked document was not worth just a click, else ``clicks``."""
        known = (each for view in self.views for each in view.reactions)
        return AMOUNT if any(each.amount != each.clicked for each in known) else CLICKS


@dataclass(frozen=True, eq=False)
class PageEvidence:
    """How pages are turned into evidence; the same for all parts of a trial.

    Attributes:
        bias: how displays gain the metric: α and β of clicks, β times what a click is worth in units.
        mean: m, a guess of the mean relevance that was made before these pages.
        policies: finds a policy by its name.
        metric: ``clicks`` or ``amount``.
        unit: what relevance 1 is worth: 1 for clicks.
    """

    bias: Bias
    mean: float
    policies: Callable[[str], LivePolicy]
    metric: MetricName = CLICKS
    unit: float = 1.0

    def gains(self, part: PartViews, new: LivePolicy, old: LivePolicy) -> Float64:
        """What each impression says about the gain of a learned policy per impression: float64."""

        def contrast(expect: Expect, _offsets: Int64) -> Float64:
            return expect(new) - expect(old)

        return self._increments(part, contrast, (new, old))

    def agreement(self, part: PartViews, policy: LivePolicy) -> Float64:
        """Numbers that are above 0 on average if what a policy shows more is worth more: float64."""

        def contrast(expect: Expect, offsets: Int64) -> Float64:
            given = np.maximum(expect(policy), 0.0)
            return agreement_contrast(given, given, offsets)

        return self._increments(part, contrast, (policy,))

    def _increments(
        self, part: PartViews, contrast: Callable[[Expect, Int64], Float64], judged: Sequence[LivePolicy]
    ) -> Float64:
        result = np.zeros(len(part.views))
        by_page: dict[tuple[tuple[int, ...], int], list[int]] = defaultdict(list)
        for number, view in enumerate(part.views):
            live = [self.policies(share.policy) for share in part.shares[view.deployment]]
            # A fallback page was not drawn: nothing is known about what else could have been shown.
            if self.policies(view.policy).draws and all(
                part.scores(policy, view.problem) is not None for policy in (*judged, *live)
            ):
                by_page[view.slots, view.deployment].append(number)
        for (slots, deployment), numbers in by_page.items():
            alpha = self.bias.alpha
            weights = np.array([alpha[slot] if slot < self.bias.positions else 0.0 for slot in slots])
            keys = list(dict.fromkeys(part.views[number].problem for number in numbers))
            expect = partial(_expected, part, keys, weights)
            offsets = _offsets(part, keys)
            gain = contrast(expect, offsets)
            exposure = sum(
                (share.share * expect(self.policies(share.policy)) for share in part.shares[deployment]),
                start=np.zeros(len(gain)),
            )
            rows = self._rows([part.views[number] for number in numbers], keys, offsets)
            contribution = Contribution(
                offsets,
                np.bincount(rows.query, minlength=len(keys)),
                alpha=exposure,
                guess=np.full(len(gain), self.mean),
                unexplained=np.zeros(len(gain)),
                support=0.0,
                largest_ratio=LARGEST_RATIO,
            )
            result[numbers] = contribution.by_impression(gain[:, None], rows, self.bias)[0][:, 0]
        return result * self.unit

    def _rows(self, views: Sequence[PageView], keys: Sequence[bytes], offsets: Int64) -> ImpressionRows:
        """What pages showed in the positions that policies filled, and the shares of a unit gained there."""
        place = {key: number for number, key in enumerate(keys)}
        query = np.array([place[view.problem] for view in views])
        sizes = np.array([min(len(view.slots), len(view.drawn)) for view in views])
        cells = [
            (slot, document, reaction.amount if self.metric == AMOUNT else reaction.clicked)
            for view in views
            for slot, document, reaction in zip(view.slots, view.drawn, view.reactions, strict=False)
        ]
        slot, document, gained = np.array(cells, dtype=np.float64).reshape(-1, 3).T
        return ImpressionRows(
            offsets_of(sizes),
            query,
            np.repeat(offsets[query], sizes) + document.astype(np.int64),
            slot.astype(np.int64),
            gained / self.unit,
        )


def _expected(part: PartViews, keys: list[bytes], weights: Float64, policy: LivePolicy) -> Float64:
    scores = [scores for key in keys if (scores := part.scores(policy, key)) is not None]
    return expected_rank_weights(np.concatenate(scores), _offsets(part, keys), weights)


def _offsets(part: PartViews, keys: list[bytes]) -> Int64:
    return np.cumsum([0, *(len(part.problems[key].documents) for key in keys)])


def read_part(connection: Connection, part: int) -> PartViews:
    """Read the impressions of a sealed part from the store."""
    rows = connection.execute(
        select(
            impressions.c.number,
            impressions.c.problem,
            impressions.c.deployment,
            impressions.c.drawn,
            impressions.c.rules,
            policies.c.name,
        )
        .join(policies, policies.c.number == impressions.c.policy)
        .where(impressions.c.part == part)
        .order_by(impressions.c.number)
    ).all()
    known = {
        row["id"]: RankingProblem.from_row(row)
        for row in connection.execute(
            select(problems).where(
                problems.c.id.in_(select(impressions.c.problem).where(impressions.c.part == part))
            )
        ).mappings()
    }
    reactions: dict[int, dict[str, Reaction]] = defaultdict(dict)
    for (impression, document), reaction in read_reactions(connection, part).items():
        reactions[impression][document] = reaction
    numbers = {row.deployment for row in rows}
    shares = {
        row.number: from_plain(tuple[Share, ...], json.loads(row.shares))
        for row in connection.execute(select(deployments).where(deployments.c.number.in_(numbers)))
    }
    views = tuple(
        _view(row, rules, known[row.problem].documents, reactions.get(row.number, {}))
        for row in rows
        if UNCOUNTED not in (rules := msgspec.json.decode(row.rules))
    )
    return PartViews(views, known, shares, part)


def _view(
    row: Any, rules: Mapping[str, Any], documents: Sequence[str], reactions: Mapping[str, Reaction]
) -> PageView:
    pins = read_pins(rules)
    drawn = tuple(read_drawn(row.drawn).tolist())
    slots = tuple(place - 1 for place in range(1, rules["top"] + 1) if place not in pins)
    return PageView(
        row.problem,
        row.name,
        row.deployment,
        slots,
        drawn,
        tuple([reactions.get(documents[number], Reaction()) for number in drawn]),
        sum(each.clicked for each in reactions.values()),
        sum(each.amount for each in reactions.values()),
        rules.get("failed", [""])[0],
    )
