"""What a log adds up to for two policies: in its periods, over impressions and over users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankloop.bias.context_effects import period_levels
from rankloop.logs import LogReader, LogStatistics
from rankloop.logs.counter import WHOLE, Segment, Span
from rankloop.logs.impression_rows import UNIT_GROUPS, map_impressions, rows_and_units, rows_of
from rankloop.logs.reader import context_of
from rankloop.offline.assumptions import BiasResamples, counts_of_periods, periods_of
from rankloop.statistics import Counts, Statistics
from rankloop.value.uncertainty import (
    BiasSpread,
    ImpressionTerms,
    Moments,
    PeriodValues,
    QueryValues,
    UnitSums,
    bias_spread,
)
from rankloop.value.valuation import Valuation


class PeriodValuation(NamedTuple):
    """What two policies are worth in one period of a log.

    Attributes:
        valuation: the policies, and the clicks of the period.
        span: the part of the log.
        counts: its counts; None for those of the whole log.
        level: how much more users click than on average, whatever is shown.
    """

    valuation: Valuation
    span: Span = WHOLE
    counts: Counts | None = None
    level: float = 1.0


def support_of(statistics: Statistics, support: float | None) -> float:
    """The smallest expected α of a document whose clicks are used."""
    return Valuation.usual_support(statistics.impressions) if support is None else support


def in_periods(
    log: LogReader,
    found: LogStatistics,
    counts: Counts,
    used: NDArray[np.bool_],
    pooled: Valuation,
    support: float | None,
    *,
    segment: Segment | None = None,
    judging: NDArray[np.bool_] | None = None,
) -> Iterator[PeriodValuation]:
    """The two policies in each period in which these queries came; in the whole log if it has no periods.

    Args:
        log: the log.
        found: its statistics.
        counts: its counts.
        used: bool, queries; those that are compared.
        pooled: the policies, on the clicks of all times.
        support: the smallest expected α of a document whose clicks are used; None for the usual one.
        segment: the impressions that count; None for all.
        judging: bool, periods; those whose clicks count. None for all.
    """
    periods = periods_of(log)
    contexts = context_of(pooled.bias)
    by_context = log.count(counts.positions, context_of=contexts)
    spans = (WHOLE,) if periods is None else periods.spans
    whole = counts_of_periods(log, by_context) or []
    levels = period_levels(whole) if whole else np.ones(1)
    if segment is not None:
        spans = tuple(span._replace(segment=segment) for span in spans)
        parts = [log.count_span(span, counts.positions, contexts) for span in spans]
    else:
        parts = whole
    if not parts:
        yield PeriodValuation(pooled)
        return
    for number, (span, part, level) in enumerate(zip(spans, parts, levels.tolist(), strict=True)):
        if judging is not None and not judging[number]:
            continue
        statistics = log.statistics_of_part(found, part, pooled.bias).select(np.flatnonzero(used))
        if level != 1.0:
            statistics = statistics.at_level(level)
        if statistics.impressions:
            valuation = replace(pooled, statistics=statistics, support=support_of(statistics, support))
            yield PeriodValuation(valuation, span, part, level)


def sum_moments(
    log: LogReader,
    counts: Counts,
    used: NDArray[np.bool_],
    valuation: Valuation,
    span: Span = WHOLE,
    level: float = 1.0,
) -> Moments:
    """Sums over the impressions of each query: one pass over the log, or over part of it."""
    terms = ImpressionTerms(valuation.contribution, valuation.lambdas, valuation.bias)
    schema = pa.schema([("query", pa.int64()), *((name, pa.float64()) for name in Moments.COLUMNS)])
    effects = valuation.bias.contexts

    def add_up(batch: pa.RecordBatch) -> pa.RecordBatch:
        queries, sums = terms.by_query(rows_of(batch, effects).at_level(level))
        return pa.RecordBatch.from_arrays([pa.array(queries), *map(pa.array, sums.T)], schema=schema)

    total = np.zeros((int(used.sum()), len(Moments.COLUMNS)))
    with log.open_engine() as running:
        parts = map_impressions(
            running,
            log,
            counts,
            add_up,
            schema,
            queries=used,
            grading=log.grading(),
            effects=effects,
            span=span,
        )
        for batch in parts:
            values = np.stack([batch.column(name).to_numpy() for name in Moments.COLUMNS], axis=1)
            np.add.at(total, batch.column("query").to_numpy(), values)
    return Moments.of_table(total)


def sum_units(
    log: LogReader,
    counts: Counts,
    used: NDArray[np.bool_],
    valuation: Valuation,
    span: Span = WHOLE,
    level: float = 1.0,
) -> UnitSums:
    """Sums over the impressions of each group of users: one more pass, if it is known who looked."""
    terms = ImpressionTerms(valuation.contribution, valuation.lambdas, valuation.bias)
    constant, names = valuation.constant, ("x0", "x1", "times")
    effects = valuation.bias.contexts
    schema = pa.schema([("unit", pa.int64()), *((name, pa.float64()) for name in names)])

    def add_up(batch: pa.RecordBatch) -> pa.RecordBatch:
        rows, unit = rows_and_units(batch, effects)
        units, sums = terms.by_unit(rows.at_level(level), unit, constant)
        return pa.RecordBatch.from_arrays([pa.array(units), *map(pa.array, sums.T)], schema=schema)

    total = np.zeros((UNIT_GROUPS, len(names)))
    with log.open_engine() as running:
        grading = log.grading()
        for batch in map_impressions(
            running,
            log,
            counts,
            add_up,
            schema,
            queries=used,
            grading=grading,
            effects=effects,
            span=span,
            units=True,
        ):
            values = np.stack([batch.column(name).to_numpy() for name in names], axis=1)
            np.add.at(total, batch.column("unit").to_numpy(), values)
    return UnitSums.of_table(total)


def spread_of(
    log: LogReader,
    found: LogStatistics,
    counts: Counts,
    used: NDArray[np.bool_],
    parts: Sequence[PeriodValuation],
    resamples: BiasResamples | None,
) -> BiasSpread | None:
    """How the values vary with the bias; None for a bias without resamples."""
    if resamples is None:
        return None
    graded = resamples.of_amount(log.grading().per_click)
    documents = np.repeat(used, np.diff(counts.offsets))
    shares = [
        part.level * log.rank_shares(found, part.valuation.bias.contexts, part.counts)[documents]
        for part in parts
    ]
    draws = graded.draws(counts)
    valuations = [part.valuation for part in parts]
    weights = PeriodValues(tuple(QueryValues.of(one) for one in valuations)).weights
    return bias_spread(valuations, weights, graded.biases, shares, None if draws is None else draws[:, used])
