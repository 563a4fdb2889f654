"""The uncertainty of an estimated bias: how estimates change when the bias and the clicks are resampled.

The estimate of a query is a function of sums that do not depend on the bias, so that it can be computed for
the α and β of every resample:

    S_q(α, β) = N_q Σ_d λ_d m_d + Σ_d λ_d (C_d − Σ_k n_dk (α_k m_d + β_k)) / ᾱ_d,    ᾱ_d = Σ_k α_k p_dk

p_dk is the probability that d is at rank k in an impression of its query. m_d is the guess of its relevance,
or the mean relevance with these α and β if there is no guess for single documents. A bias that was estimated
from the same log is resampled together with the clicks: the same queries are drawn for both. Any other bias
varies independently of the clicks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankloop.bias import BiasEstimate
from rankloop.bias.anchor import Lines
from rankloop.bias.bootstrap import draw_queries
from rankloop.offline.control_variate import ControlVariate
from rankloop.offline.policy_rankings import PolicyRanking
from rankloop.ragged import segment_index, segment_sum
from rankloop.types import Bias, BiasEvidence, Float64, Int64

# A resampled ᾱ is at least this share of the estimated one: a division by nearly 0 says nothing.
LEAST_SHARE = 0.1
# Both policies, and their difference.
CONTRASTS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])


class BiasSpread(NamedTuple):
    """What the uncertainty of a bias does to the two values and to their difference.

    Attributes:
        stretch: float64, 3; the factor by which intervals from resampled queries become wider.
        deviation: float64, 3; the standard deviation of the estimates over the resamples of the bias alone.
    """

    stretch: Float64
    deviation: Float64


@dataclass(frozen=True, eq=False)
class BiasResamples:
    """The resamples of an estimated bias.

    Attributes:
        lines: α and β, resamples × ranks each.
        seed: the seed of `rankloop.bias.bootstrap.draw_queries`; None if other things were resampled.
        log: the fingerprint of the log that the bias was estimated from; None if it is not known.
    """

    lines: Lines
    seed: int | None = None
    log: str | None = None

    @classmethod
    def of_estimate(cls, estimate: BiasEstimate) -> Self | None:
        """The resamples of an estimate, if it has any."""
        if estimate.resampled is None:
            return None
        return cls(estimate.resampled, estimate.resample_seed, estimate.log)

    @classmethod
    def of_details(cls, details: Mapping[str, Any] | None) -> Self | None:
        """The resamples in the details of a stored bias, if it has any."""
        if not details or not details.get("resampled"):
            return None
        lines = Lines(*(np.array(details["resampled"][name], np.float64) for name in ("alpha", "beta")))
        return cls(lines, details.get("resample_seed"), details.get("log"))

    @classmethod
    def of_evidence(cls, evidence: BiasEvidence | None) -> Self | None:
        """The resamples that a bias carries, if it has any; which queries were drawn is not known."""
        if evidence is None or evidence.resamples is None:
            return None
        return cls(Lines(evidence.resamples[:, 0], evidence.resamples[:, 1]))

    def of_worth(self, per_click: float) -> Self:
        """The same, if what clicks by β are worth is this share of a unit."""
        return replace(self, lines=Lines(self.lines.alpha, self.lines.beta * per_click))

    def draws(self, shown: NDArray[np.bool_], log: str) -> NDArray[np.float64] | None:
        """How often each query was drawn in each resample, resamples × queries shown.

        None if the bias is not from this log, or if it is not known which queries were drawn.

        Args:
            shown: queries; whether the query has a document at one of the ranks of the bias.
            log: the fingerprint of the log of the evaluation.
        """
        if self.seed is None or self.log != log:
            return None
        rng = np.random.default_rng(self.seed)
        return np.stack([draw_queries(int(shown.sum()), rng) for _ in self.lines.alpha])


@dataclass(frozen=True, eq=False)
class QueryValues:
    """The values of two policies on each query, as functions of the bias.

    Attributes:
        rank_shares: float64, items × ranks; p, how often the item is at each rank per impression.
        displays: int64, items × ranks.
        clicks: items.
        times: int64, queries; the number of impressions, 0 for queries that are not used.
        rankings: the two policies.
        variate: the estimate with the bias as it was estimated.
    """

    rank_shares: Float64
    displays: Int64
    clicks: Int64 | Float64
    times: Int64
    rankings: tuple[PolicyRanking, PolicyRanking]
    variate: ControlVariate

    def spread(self, bias: Bias, resamples: BiasResamples, log: str) -> BiasSpread:
        """What the resamples of the bias do to the estimates.

        Args:
            bias: the bias as it was estimated.
            resamples: its resamples.
            log: the fingerprint of this log.
        """
        offsets, used = self.variate.offsets, self.times > 0
        items = np.repeat(used, np.diff(offsets)) & (self.displays.any(axis=1) | self._lambdas().any(axis=1))
        part = _Part(self, items, used)
        shown = segment_sum(self.displays.sum(axis=1), offsets) > 0
        draws = resamples.draws(shown, log)
        as_estimated = part.by_query(Lines(bias.alpha, bias.beta), self.variate.guess)
        joint, fixed, alone = [], [], []
        everything = np.ones(int(used.sum()))
        for number, lines in enumerate(zip(*resamples.lines, strict=True)):
            weights = everything
            if draws is not None:
                weights = np.zeros(len(used))
                weights[shown] = draws[number]
                weights = weights[used]
                if not weights.any():
                    continue
            alpha_beta = Lines(*lines)
            varied = part.by_query(alpha_beta, part.guess(alpha_beta, weights))
            joint.append(part.mean(varied, weights))
            fixed.append(part.mean(as_estimated, weights))
            alone.append(part.mean(varied, everything))
        deviation = _deviation(alone)
        if draws is None:
            rng = np.random.default_rng(0)
            count = int(used.sum())
            fixed = [part.mean(as_estimated, draw_queries(count, rng)) for _ in resamples.lines.alpha]
            usual = _deviation(fixed)
            total = np.hypot(usual, deviation)
        else:
            usual, total = _deviation(fixed), _deviation(joint)
        stretch = np.divide(total, usual, out=np.ones(3), where=usual > 0.0)
        return BiasSpread(stretch, deviation)

    def _lambdas(self) -> Float64:
        return np.stack([policy.weights for policy in self.rankings], axis=1)


class _Part:
    """The items and queries that count."""

    def __init__(self, values: QueryValues, items: NDArray[np.bool_], used: NDArray[np.bool_]) -> None:
        variate, rankings = values.variate, values.rankings
        self.shares, self.displays = values.rank_shares[items], values.displays[items].astype(np.float64)
        self.clicks = values.clicks[items].astype(np.float64)
        number = np.cumsum(used) - 1
        self.query = number[segment_index(variate.offsets)[items]]
        self.times = values.times[used].astype(np.float64)
        self.alpha, self.supported = variate.alpha[items], variate.supported[items]
        self.lambdas = values._lambdas()[items]
        self.guessed = None if variate.item_guesses is None else variate.relevance[items]
        always = np.stack([policy.always for policy in rankings], axis=1)[used]
        elsewhere = np.stack([policy.elsewhere for policy in rankings], axis=1)[used]
        self.always, self.elsewhere = always, elsewhere
        n_queries = len(self.times)
        self.n_queries = n_queries
        weighted = self.lambdas if self.guessed is None else self.lambdas * self.guessed[:, None]
        self.inside = self._by_query(weighted)
        self.query_displays = self._by_query(self.displays)
        self.query_clicks = self._by_query(self.clicks[:, None])[:, 0]

    def _by_query(self, values: Float64) -> Float64:
        columns = [np.bincount(self.query, column, self.n_queries) for column in values.T]
        return np.stack(columns, axis=1)

    def guess(self, lines: Lines, weights: Float64) -> float:
        """The mean relevance of what was shown."""
        displays = weights @ self.query_displays
        examined = float(displays @ lines.alpha)
        return float(weights @ self.query_clicks - displays @ lines.beta) / examined if examined > 0 else 0.0

    def by_query(self, lines: Lines, guess: float) -> Float64:
        """The sums of the values over the impressions of each query, queries × 2."""
        alpha = np.maximum(self.shares @ lines.alpha, LEAST_SHARE * self.alpha)
        relevance = np.full(len(alpha), guess) if self.guessed is None else self.guessed
        unexplained = self.clicks - (self.displays @ lines.alpha) * relevance - self.displays @ lines.beta
        per_click = np.divide(unexplained, alpha, out=np.zeros(len(alpha)), where=self.supported)
        inside = self.inside * guess if self.guessed is None else self.inside
        before = inside + guess * self.elsewhere + self.always
        return self.times[:, None] * before + self._by_query(self.lambdas * per_click[:, None])

    def mean(self, by_query: Float64, weights: Float64) -> Float64:
        """The two values and their difference."""
        result: Float64 = CONTRASTS @ (weights @ by_query) / (weights @ self.times)
        return result


def _deviation(values: list[Float64]) -> Float64:
    return np.std(values, axis=0, ddof=1) if len(values) > 1 else np.zeros(3)
