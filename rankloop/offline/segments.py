"""Two policies compared on each segment of the impressions, such as each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.evidence.decision import Assumption
from rankloop.logs import LogReader, LogStatistics
from rankloop.logs.counter import Segment, Span
from rankloop.logs.impression_rows import unit_name
from rankloop.offline.assumptions import BiasResamples
from rankloop.offline.comparison import SegmentComparison, compare
from rankloop.offline.log_sums import in_periods, spread_of, sum_moments, sum_units
from rankloop.offline.policy_rankings import DISPLAYED, RankingResolver
from rankloop.statistics import Counts
from rankloop.statistics.intervals import CONFIDENCE
from rankloop.value.valuation import PolicyRanking, Valuation

# A smaller segment says too little for an interval of its own.
LEAST_IMPRESSIONS = 200


@dataclass(frozen=True, eq=False)
class SegmentedLog:
    """What is compared on each segment.

    Attributes:
        log: the log.
        found: its statistics.
        counts: its counts.
        used: bool, queries; those that are compared.
        valuation: the policies, on all impressions.
        support: the smallest expected α of a document whose clicks are used; None for the usual one.
        resamples: those of the bias.
        assumptions: what the values rest on.
        seed: the random seed.
        judging: bool, periods; those whose clicks count. None for all.
    """

    log: LogReader
    found: LogStatistics
    counts: Counts
    used: NDArray[np.bool_]
    valuation: Valuation
    support: float | None
    resamples: BiasResamples | None
    assumptions: tuple[Assumption, ...]
    seed: int
    judging: NDArray[np.bool_] | None = None


class SegmentedResult(NamedTuple):
    """The comparisons, and notes on segments that are left out."""

    segments: tuple[SegmentComparison, ...]
    notes: tuple[str, ...]


def compare_segments(whole: SegmentedLog, column: str) -> SegmentedResult:
    """Compare both policies on the impressions with each value of a column.

    The intervals hold together: with S segments, each has the confidence level 1 − 0.1 / S (Bonferroni).

    Raises:
        DataError: the log has no such column, or it has too many values.
    """
    values, small = _values_of(whole.log, column)
    confidence = 1.0 - (1.0 - CONFIDENCE) / max(len(values), 1)
    results, notes = [], []
    if small:
        notes.append(
            f"Segments with fewer than {LEAST_IMPRESSIONS} impressions are left out: {', '.join(small)}."
        )
    for value in values:
        segment = Segment(column, value)
        rankings = [_shown_in(whole, policy, segment) for policy in whole.valuation.policies]
        if any(ranking is None for ranking in rankings):
            notes.append(
                f"{column} {value} is left out: one of the policies never served it, so that it is not known "
                f"what it would show there."
            )
            continue
        first, second = (ranking for ranking in rankings if ranking is not None)
        valuation = replace(whole.valuation, policies=(first, second))
        result = _compare(whole, valuation, segment, confidence)
        if result is not None:
            results.append(result)
    return SegmentedResult(tuple(results), tuple(notes))


def _values_of(log: LogReader, column: str) -> tuple[list[str], list[str]]:
    """The values with enough impressions, the most frequent first, and the others."""
    table = log.impression_table()
    if column not in table.columns:
        raise DataError(
            f"{column!r} does not divide the impressions into segments: columns with 2 to 20 values are "
            f"{', '.join(table.columns) or 'none'}"
        )
    counts = np.bincount(table.columns[column], minlength=len(table.values[column])) / table.share
    order = np.argsort(-counts, kind="stable")
    names: Sequence[str] = table.values[column]
    large = [names[place] for place in order if counts[place] >= LEAST_IMPRESSIONS]
    return large, [names[place] for place in order if 0 < counts[place] < LEAST_IMPRESSIONS]


def _shown_in(whole: SegmentedLog, policy: PolicyRanking, segment: Segment) -> PolicyRanking | None:
    """How a policy ranks in a segment: as it displayed there, if only its displays are known.

    None if it is not known what it would display there.
    """
    metric, counts, bias = whole.valuation.metric, whole.counts, whole.valuation.bias
    span = Span(segment=segment)
    effects = bias.contexts
    if policy.ranking == DISPLAYED:
        part = whole.log.count_span(span, max(counts.positions, metric.ranks))
        if not part.impressions_by_policy[part.policy_ids.index(policy.name)].any():
            return None
        resolver = RankingResolver(whole.log, part, metric, within=np.ones(counts.n_queries, np.bool_))
        shown = resolver.resolve((policy.name, policy.name), "sorted")[0].select(whole.used, counts.offsets)
        usual = None
    else:
        shown, usual = policy, effects
    if effects is None or metric.discounts is not None:
        return shown
    # Clicks: as often as users click in this segment.
    inside = whole.log.count_span(span, bias.positions, effects.of).mean_effects(effects)
    if usual is not None:
        inside = inside / whole.log.count(bias.positions, context_of=effects.of).mean_effects(effects)
    inside = inside[whole.used]
    documents = np.diff(whole.valuation.statistics.offsets)
    return replace(
        shown, placed=shown.placed * np.repeat(inside, documents, axis=0), elsewhere=shown.elsewhere * inside
    )


def _compare(
    whole: SegmentedLog, valuation: Valuation, segment: Segment, confidence: float
) -> SegmentComparison | None:
    log, counts, used = whole.log, whole.counts, whole.used
    parts = list(
        in_periods(
            log,
            whole.found,
            counts,
            used,
            valuation,
            whole.support,
            segment=segment,
            judging=whole.judging,
        )
    )
    if not parts:
        return None
    client = log.client
    units = client and [sum_units(log, counts, used, part.valuation, part.span, part.level) for part in parts]
    result = compare(
        [part.valuation for part in parts],
        [sum_moments(log, counts, used, part.valuation, part.span, part.level) for part in parts],
        assumptions=whole.assumptions,
        seed=whole.seed,
        spread=spread_of(log, whole.found, counts, used, parts, whole.resamples),
        units=units or None,
        unit=unit_name(client),
        confidence=confidence,
    )
    return SegmentComparison(
        segment.value,
        result.impressions,
        result.queries,
        result.new,
        result.against,
        result.difference,
        result.decision,
    )
