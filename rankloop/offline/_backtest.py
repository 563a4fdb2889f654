"""Predict the clicks on a policy from those on another one that served at the same time, and compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.bias import BiasOptions, ask_bias
from rankloop.bias.bias_estimate import AUTO, bias_details
from rankloop.errors import DataError
from rankloop.evidence.traffic import traffic_cuts
from rankloop.logs import LogReader
from rankloop.logs.counter import WHOLE, Span
from rankloop.logs.reader import context_of
from rankloop.logs.sanity import require_contrast
from rankloop.names import unknown
from rankloop.notebook import NotebookResult
from rankloop.offline.assumptions import (
    AssumedBias,
    BiasSource,
    assume_bias,
    document_features,
    find_context,
    period_of,
)
from rankloop.offline.log_sums import sum_moments, sum_units
from rankloop.offline.policy_rankings import RankingResolver
from rankloop.progress import Progress, report
from rankloop.ragged import segment_sum
from rankloop.statistics import Counts
from rankloop.statistics.intervals import CONFIDENCE, FEW_UNITS, normal_quantile
from rankloop.storage.plain import plain_fields
from rankloop.types import Float64
from rankloop.value.predicted_clicks import PredictedClicks
from rankloop.value.uncertainty import PeriodValues, QueryValues
from rankloop.value.valuation import CLICKS, LoggedMetric, Valuation

# Fewer impressions of a policy measure too little to compare a prediction with.
LEAST_IMPRESSIONS = 200
# If more of what a policy shows was never shown by the other one, the prediction rests on the mean relevance.
MUCH_UNSEEN = 0.05


@dataclass(frozen=True)
class PolicyPrediction:
    """The clicks on a policy as another one's clicks predict them, and as they were.

    Attributes:
        policy: the policy whose clicks are predicted.
        by: the policy whose clicks predict them.
        predicted: clicks per impression.
        low: the lower end of the interval in which the measurement is expected: it contains the errors of
            both, the prediction and the measurement.
        high: its upper end.
        measured: clicks per impression of the policy.
        impressions: those of the policy, on queries that both served.
        source_impressions: those of the other policy.
        queries: how many queries both served.
        positions: down to which position clicks count.
        unseen: the share of what the policy shows that the other one hardly ever showed.
        source_alone: whether the bias, too, was estimated from the other policy's clicks alone.
    """

    plain_properties: ClassVar[tuple[str, ...]] = ("held",)
    policy: str
    by: str
    predicted: float
    low: float
    high: float
    measured: float
    impressions: int
    source_impressions: int
    queries: int
    positions: int
    unseen: float
    source_alone: bool

    @property
    def held(self) -> bool:
        """Whether the measurement is inside the interval."""
        return self.low <= self.measured <= self.high

    @property
    def text(self) -> str:
        """The result in one sentence."""
        return (
            f"{self.policy}: predicted {self.predicted:.3f} clicks per impression from the clicks on "
            f"{self.by} ({self.low:.3f} to {self.high:.3f}), measured {self.measured:.3f}."
        )


@dataclass(frozen=True)
class Backtest(NotebookResult):
    """Predictions of the clicks on policies that served at the same time, with what was measured.

    Attributes:
        predictions: one per policy and policy that predicts it.
        notes: caveats that every report must state.
    """

    document: ClassVar[str] = "rankloop.reports.backtest:backtest_document"
    predictions: tuple[PolicyPrediction, ...]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """How many predictions held, as a sentence."""
        held, total = sum(one.held for one in self.predictions), len(self.predictions)
        return f"{held} of {total} measurements are inside the {CONFIDENCE:.0%} interval of their prediction."

    def to_dict(self) -> dict[str, Any]:
        """The same as a dictionary for JSON."""
        return {"text": self.text, **plain_fields(self)}


def backtest(
    log: LogReader,
    policies: Sequence[str] | None = None,
    *,
    bias: BiasSource = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Backtest:
    """Predict the clicks on each policy from another one's, where both served at the same time.

    A prediction uses the displays and clicks of the other policy, and the rankings that the predicted policy
    displayed; none of the clicks on these. The bias, too, is estimated from the other policy's clicks, if its
    rankings vary enough. It is what `rankloop.evaluate` does with the metric ``clicks``, where the answer is
    known.

    Args:
        log: the log, as `rankloop.open_log` opens it.
        policies: ids of the policies to predict; None for all that served at the same time as another one.
        bias: how users click; see `rankloop.evaluate`. None to estimate it as described above.
        seed: the random seed.
        progress: called with what is being done.

    Raises:
        DataError: no two policies served at the same time.

    Reference: docs/offline.md.
    """
    clicks_log = replace(log, target=CLICKS) if log.grading().graded else log
    for name in policies or ():
        if name not in log.policy_ids:
            raise unknown("policy", name, log.policy_ids)
    parallel, notes = _find_parallel(clicks_log, policies)
    predictions = []
    for number, (first, second, span) in enumerate(parallel):
        for policy, other in ((first, second), (second, first)):
            report(progress, "backtest", number / len(parallel), f"{policy} from {other}")
            predictions.append(_predict(clicks_log, policy, other, span, bias, seed))
    report(progress, "backtest", 1.0)
    return Backtest(tuple(predictions), (*notes, *_caveats(predictions)))


class _Pair(NamedTuple):
    """Two policies, and when both of them served."""

    first: str
    second: str
    span: Span


def _find_parallel(log: LogReader, names: Sequence[str] | None) -> tuple[list[_Pair], list[str]]:
    """The pairs of policies that served at the same time, and notes.

    Each pair has the period in which both served most.
    """
    table = log.impression_table()
    cuts, notes = traffic_cuts(table), []
    if table.time is None or np.isnan(table.time).all():
        notes.append("The log has no times: it is assumed that its policies served at the same time.")
        period = np.zeros(len(table.policy), np.int64)
    else:
        period = period_of(table, cuts) if len(cuts) else np.zeros(len(table.policy), np.int64)
    served = np.zeros((len(table.policy_ids), len(cuts) + 1))
    np.add.at(served, (table.policy, period), 1.0 / table.share)
    edges, pairs = [-math.inf, *cuts.tolist(), math.inf], []
    for first, second in combinations(range(len(table.policy_ids)), 2):
        both = np.minimum(served[first], served[second])
        best = int(np.argmax(both))
        ids = table.policy_ids[first], table.policy_ids[second]
        if both[best] >= LEAST_IMPRESSIONS and (not names or set(ids) <= set(names)):
            pairs.append(_Pair(*ids, Span(edges[best], edges[best + 1]) if len(cuts) else WHOLE))
    if not pairs:
        raise DataError(
            f"no two {'of these ' if names else ''}policies of the log served at the same time, with at "
            f"least {LEAST_IMPRESSIONS} impressions each: a backtest needs two that share the traffic at "
            f"random, as in an A/B test"
        )
    return pairs, notes


def _predict(
    log: LogReader, policy: str, other: str, span: Span, source: BiasSource, seed: int
) -> PolicyPrediction:
    """The clicks on one policy by those on the other."""
    assumed, learned_from = _bias_by(log, other, span, source, seed)
    bias, contexts = assumed.bias, context_of(assumed.bias)
    whole = log.count(bias.positions, context_of=contexts)
    require_contrast(whole)
    counts = log.count_span(span, bias.positions, contexts)
    own, others = (counts.of_policies((name,)) for name in (policy, other))
    used = (own.impressions_by_query > 0) & (others.impressions_by_query > 0)
    if not used.any():
        raise DataError(
            f"{policy!r} and {other!r} have no query in common, so that neither predicts the other"
        )
    found, metric = log.statistics(bias), LoggedMetric.of(CLICKS, bias)
    # What was displayed, rather than what the policy would draw: clicks are compared on the same lists.
    resolver = RankingResolver(log, counts, metric, within=np.ones(counts.n_queries, np.bool_))
    rankings = resolver.resolve((policy, other), "sorted")
    first, second = (one.select(used, counts.offsets) for one in rankings)

    def valuation_by(part: Counts) -> Valuation:
        statistics = log.statistics_of_part(found, part, bias).select(np.flatnonzero(used))
        return Valuation(
            statistics, bias, metric, (first, second), Valuation.usual_support(statistics.impressions)
        )

    valuation = valuation_by(others)
    clicks = PredictedClicks(
        valuation,
        own.impressions_by_query[used],
        segment_sum(own.clicks_of(0).astype(np.float64), own.offsets)[used].astype(np.int64),
    )
    resamples = assumed.resamples
    biases = [] if resamples is None else list(resamples.biases)
    draws = None if resamples is None else resamples.draws((learned_from or whole).of_ranks(bias.positions))
    documents = np.repeat(used, np.diff(counts.offsets))
    shares = log.rank_shares(found, bias.contexts, others)[documents]
    error = clicks.error(
        biases, shares, None if draws is None else draws[:, used], np.random.default_rng(seed)
    )
    if log.client is not None:
        sides = ((valuation, other, 0), (valuation_by(own), policy, 0))
        more = sum(
            _more_by_users(log, whole, used, value, span._replace(policies=(name,)))[place]
            for value, name, place in sides
        )
        error = math.sqrt(error**2 + more)
    half = normal_quantile() * error
    return PolicyPrediction(
        policy=policy,
        by=other,
        predicted=clicks.predicted,
        low=clicks.predicted - half,
        high=clicks.predicted + half,
        measured=clicks.measured,
        impressions=int(clicks.impressions.sum()),
        source_impressions=valuation.contribution.total,
        queries=int(used.sum()),
        positions=bias.positions,
        unseen=float(valuation.bounds().shares[0]),
        source_alone=learned_from is not None,
    )


def _bias_by(
    log: LogReader, policy: str, span: Span, source: BiasSource, seed: int
) -> tuple[AssumedBias, Counts | None]:
    """How users click, and the counts of one policy's clicks if these told."""
    if source is not None:
        return assume_bias(log, source, seed=seed), None
    context = find_context(log, AUTO)
    deep = log.count(context_of=context)
    part = log.count_span(span, deep.positions, context).of_policies((policy,))
    answer = ask_bias(
        part,
        BiasOptions(held_out=False),
        rng=np.random.default_rng(seed),
        features=document_features(log, part),
    )
    if answer.estimate is None:
        return assume_bias(log, None, seed=seed), None
    return AssumedBias(answer.estimate.bias, bias_details(answer.estimate), answer.estimate.notes), part


def _more_by_users(
    log: LogReader, counts: Counts, used: NDArray[np.bool_], valuation: Valuation, span: Span
) -> Float64:
    """How much more the values vary because impressions of one user depend on each other: variances."""
    values = PeriodValues((QueryValues.of(valuation),))
    moments = [sum_moments(log, counts, used, valuation, span)]
    units = [sum_units(log, counts, used, valuation, span)]
    result: Float64 = np.maximum(values.unit_variances(units) - values.errors(moments) ** 2, 0.0)
    return result


def _caveats(predictions: Sequence[PolicyPrediction]) -> list[str]:
    notes = []
    together = [one for one in predictions if not one.source_alone]
    if together:
        notes.append(
            f"For {_listed(together)}, the bias is not from the other policy's clicks alone: these do not "
            f"tell how users click, or a bias was given."
        )
    notes += [
        f"{one.unseen:.0%} of what {one.policy} shows was hardly ever shown by {one.by}, and counts as "
        f"average."
        for one in predictions
        if one.unseen > MUCH_UNSEEN
    ]
    fewest = min(one.queries for one in predictions)
    if fewest < FEW_UNITS:
        notes.append(f"Only {fewest} queries were served by both: too few to tell how much queries differ.")
    return notes


def _listed(predictions: Sequence[PolicyPrediction]) -> str:
    return ", ".join(dict.fromkeys(one.policy for one in predictions))
