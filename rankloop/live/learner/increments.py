"""How much each impression says for a new policy and against the old one.

In shadow, before anybody saw the new policy, by the clicks that the old ones got:

    x_t = Σ_d m (λ_new(d) − λ_old(d)) + Σ_{d shown at k} (λ_new(d) − λ_old(d)) / ᾱ_d · (c − α_k m − β_k)

λ_π(d) = E_π[α_rank(d)] is what d contributes to the clicks of a page under π; ᾱ_d is the same under the
mixture that was live, which is known before the impression. The mean of x_t is the difference of the
expected clicks per impression, whatever m is. In a canary, without assumptions about users, by the clicks of
both arms:

    x_t = clicks · (1[new] / share_new − 1[old] / share_old)

Whether clicks agree with a policy, that is, whether what it shows more is more relevant, takes the place of
the gain in the first formula by a contrast that sums to 0 in every query:

    λ(d) (λ(d) − λ̄),    λ̄ = Σ_d λ(d)² / Σ_d λ(d)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from rankloop.evidence.calibrated_gain import centred
from rankloop.live.learner.pages import PageView, PartViews
from rankloop.live.ranking.live_policy import LivePolicy
from rankloop.policies import expected_rank_weights
from rankloop.types import Bias, Float64, Int64

# How much more a policy may show a document than the mixture that was live; what is beyond does not count,
# so that a gain is never overestimated by much.
LARGEST_RATIO = 100.0

Policies = Callable[[str], LivePolicy]
# The expected weights of the documents of several problems, under a policy.
Expect = Callable[[LivePolicy], Float64]


def shadow_increments(
    part: PartViews, new: LivePolicy, old: LivePolicy, *, bias: Bias, mean: float, policies: Policies
) -> Float64:
    """The increments x_t of the gain in clicks per impression: float64, impressions.

    Args:
        part: what was shown and clicked.
        new: the policy that was learned.
        old: the policy that is compared with.
        bias: how users click.
        mean: m, a guess of the mean relevance that was made before these clicks.
        policies: finds a policy by its name.
    """

    def contrast(expect: Expect, _offsets: Int64) -> Float64:
        return expect(new) - expect(old)

    return _increments(part, contrast, bias, mean, policies)


def agreement_increments(
    part: PartViews, policy: LivePolicy, *, bias: Bias, mean: float, policies: Policies
) -> Float64:
    """The increments x_t that are above 0 on average if what a policy shows more is more relevant: float64.

    Args:
        part: what was shown and clicked.
        policy: the policy that clicks may agree with.
        bias: how users click.
        mean: m, a guess of the mean relevance that was made before these clicks.
        policies: finds a policy by its name.
    """

    def contrast(expect: Expect, offsets: Int64) -> Float64:
        given = np.maximum(expect(policy), 0.0)
        return given * centred(given, given, offsets)

    return _increments(part, contrast, bias, mean, policies)


def _increments(
    part: PartViews, contrast: Callable[[Expect, Int64], Float64], bias: Bias, mean: float, policies: Policies
) -> Float64:
    result = np.zeros(len(part.views))
    by_page: dict[tuple[tuple[int, ...], int], list[int]] = defaultdict(list)
    for number, view in enumerate(part.views):
        # A fallback page was not drawn: nothing is known about what else could have been shown.
        if policies(view.policy).draws:
            by_page[view.slots, view.deployment].append(number)
    for (slots, deployment), numbers in by_page.items():
        weights = np.array([bias.alpha[slot] if slot < bias.ranks else 0.0 for slot in slots])
        keys = list(dict.fromkeys(part.views[number].problem for number in numbers))
        expect = partial(_expected, part, keys, weights)
        offsets = _offsets(part, keys)
        gain = contrast(expect, offsets)
        exposure = sum(
            (share.share * expect(policies(share.policy)) for share in part.shares[deployment]),
            start=np.zeros(len(gain)),
        )
        place = {key: number for number, key in enumerate(keys)}
        for number in numbers:
            view = part.views[number]
            first, last = offsets[place[view.problem]], offsets[place[view.problem] + 1]
            result[number] = _increment(view, gain[first:last], exposure[first:last], bias, mean)
    return result


def _increment(view: PageView, gain: Float64, exposure: Float64, bias: Bias, mean: float) -> float:
    total = mean * float(gain.sum())
    for slot, document, clicked in zip(view.slots, view.drawn, view.clicked, strict=False):
        if slot < bias.ranks and exposure[document] > 0.0:
            ratio = min(gain[document] / exposure[document], LARGEST_RATIO)
            total += ratio * (clicked - bias.alpha[slot] * mean - bias.beta[slot])
    return total


def _expected(part: PartViews, keys: list[bytes], weights: Float64, policy: LivePolicy) -> Float64:
    scores = np.concatenate([policy.scores(part.problems[key]) for key in keys])
    return expected_rank_weights(scores, _offsets(part, keys), weights)


def _offsets(part: PartViews, keys: list[bytes]) -> Int64:
    return np.cumsum([0, *(len(part.problems[key].documents) for key in keys)])


def arm_increments(part: PartViews, new: str, old: str) -> Float64:
    """The increments x_t of the difference in clicks between two arms, while both are live: float64.

    Impressions of deployments that do not have both policies are left out.
    """
    found = []
    for view in part.views:
        shares: Mapping[str, float] = {share.policy: share.share for share in part.shares[view.deployment]}
        if new in shares and old in shares:
            sign = (view.policy == new) / shares[new] - (view.policy == old) / shares[old]
            found.append(view.clicks * sign)
    return np.array(found)
