"""What a fit or an evaluation takes for granted: how users click, its periods, and what the self-test found.

A bias is given, read from a file, named, or estimated from the log. The periods are those within which
policies are compared, if they served at different times. Everything offline that decides asks here.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise, starmap
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankloop import clicks
from rankloop.bias import BiasAnswer, BiasEstimate, BiasOptions, ask_bias
from rankloop.bias.bias_estimate import AUTO, CURVE, LENGTH, NO_CONTEXT, bias_details
from rankloop.bias.movement import count_movement
from rankloop.bias.storage import read_bias
from rankloop.errors import DataError, RankloopError
from rankloop.evidence.assumption_tests import COLUMN
from rankloop.evidence.assumption_tests import LENGTH as LENGTH_TEST
from rankloop.evidence.self_test import SelfTest, context_found, self_test
from rankloop.evidence.traffic import traffic_cuts
from rankloop.logs import LogReader
from rankloop.logs.counter import DEEPEST_POSITION, Span
from rankloop.logs.features import read_features
from rankloop.logs.schema import FEATURES
from rankloop.names import BadNameError
from rankloop.progress import Progress
from rankloop.ragged import segment_index
from rankloop.statistics import Counts
from rankloop.statistics.counts import ImpressionTable
from rankloop.statistics.intervals import draw_units
from rankloop.statistics.tables import CellTable
from rankloop.types import ASSUMED, LIST_LENGTH, Bias, BiasEvidence, Float32, Float64, Int64, Lines

# A policy belongs to a period with at least this share of its impressions: the rest of it weighs nothing.
WHOLLY = 0.995


@dataclass(frozen=True, eq=False)
class LogPeriods:
    """The periods of a log, each with its own traffic.

    Attributes:
        spans: the parts of the log; one if all policies served at the same time.
        counts: the counts of each, with the queries and documents of the log, at all its positions.
        comparable: whether documents moved within each period, so that clicks of one period can be compared
            with each other.
    """

    spans: tuple[Span, ...]
    counts: tuple[Counts, ...]
    comparable: bool

    def __len__(self) -> int:
        return len(self.spans)

    def of_impressions(self, table: ImpressionTable) -> Int64:
        """The number of the period of each impression: int64, impressions."""
        if self.spans[0].policies is not None:
            home = {name: number for number, span in enumerate(self.spans) for name in span.policies or ()}
            return np.array([home[name] for name in table.policy_ids], np.int64)[table.policy]
        return period_of(table, np.array([span.start for span in self.spans[1:]]))


def period_of(table: ImpressionTable, cuts: Float64) -> Int64:
    """The number of the period of each impression; those without a time belong to the first."""
    assert table.time is not None
    period = np.searchsorted(cuts, table.time, side="right")
    period[np.isnan(table.time)] = 0
    return period


def periods_of(log: LogReader) -> LogPeriods | None:
    """The periods within which policies of a log are compared; None if clicks of all times are pooled.

    Two policies that served at the same time have one period, and so has a log whose periods cannot be
    compared each by itself, because its rankings hardly vary within them.

    Args:
        log: the log.
    """
    if not log.periods:
        log.periods.append(_find_periods(log))
    found = log.periods[0]
    return found if found is not None and found.comparable else None


def periods_since(log: LogReader, moment: float) -> NDArray[np.bool_]:
    """Which periods of a log have hardly any impression before a time: bool, periods; empty without periods.

    Args:
        log: the log.
        moment: seconds since 1970.
    """
    periods = periods_of(log)
    if periods is None:
        return np.zeros(0, np.bool_)
    table = log.impression_table()
    assert table.time is not None
    number = periods.of_impressions(table)
    early = np.bincount(number, table.time < moment, len(periods))
    result: NDArray[np.bool_] = early <= (1.0 - WHOLLY) * np.bincount(number, minlength=len(periods))
    return result


def counts_of_periods(log: LogReader, counts: Counts) -> list[Counts] | None:
    """The counts of each period, of as many positions and by the same contexts as those of the whole log."""
    found = periods_of(log)
    if found is None:
        return None
    if counts.context_of is None:
        return [part.of_ranks(counts.positions) for part in found.counts]
    return [log.count_span(span, counts.positions, counts.context_of) for span in found.spans]


def _find_periods(log: LogReader) -> LogPeriods | None:
    try:
        table = log.impression_table()
    except DataError:
        return None
    spans = _spans(table)
    if len(spans) < 2 or log.grading().graded:
        return None
    deep = log.count(DEEPEST_POSITION)
    whole = deep.of_ranks(int(deep.cells.position.max()) + 1)
    counts = tuple(log.count_span(span, whole.positions) for span in spans)
    return LogPeriods(spans, counts, _are_comparable(whole, counts))


def _spans(table: ImpressionTable) -> tuple[Span, ...]:
    cuts = traffic_cuts(table)
    if not len(cuts) or table.time is None:
        return (Span(),)
    period = period_of(table, cuts)
    served = np.zeros((len(table.policy_ids), len(cuts) + 1))
    np.add.at(served, (table.policy, period), 1.0)
    share = served.max(axis=1) / np.maximum(served.sum(axis=1), 1.0)
    if (share >= WHOLLY).all():
        # Counts are by policy already.
        names = np.array(table.policy_ids, object)
        home = served.argmax(axis=1)
        return tuple(Span(policies=tuple(names[home == number])) for number in range(len(cuts) + 1))
    edges = [-math.inf, *cuts.tolist(), math.inf]
    return tuple(starmap(Span, pairwise(edges)))


def _are_comparable(whole: Counts, counts: tuple[Counts, ...]) -> bool:
    """Whether rankings vary within each period, and all positions can be compared there."""
    if not all(part.impressions and part.explores() for part in counts):
        return False
    pooled = count_movement(CellTable.of(whole)).positions
    return 1 < pooled <= count_movement(CellTable.of_periods(counts)).positions


# What every report must state about an estimated bias whose resamples are not known.
NO_RESAMPLES = (
    "The bias was estimated from a log, but its resamples are not known: its uncertainty is not part of any "
    "interval here. Estimate it again with resamples."
)

# None to estimate the bias from the log itself.
BiasSource = Bias | BiasEstimate | str | os.PathLike[str] | None


@dataclass(frozen=True, eq=False)
class BiasResamples:
    """The resamples of an estimated bias.

    Attributes:
        lines: α and β, resamples × ranks each.
        seed: the seed of `rankloop.statistics.intervals.draw_units`; None if other things were resampled.
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

    def of_amount(self, per_click: float) -> Self:
        """The same, if what clicks by β are worth is this share of a unit."""
        return replace(self, lines=self.lines.for_amounts(per_click))

    def draws(self, counts: Counts) -> Float64 | None:
        """How often each query was drawn in each resample: float64, resamples × queries.

        None if the bias is not from this log, or if it is not known which queries were drawn.

        Args:
            counts: the counts of the log of the evaluation, of the ranks of the bias. Only queries with a
                document at one of these ranks were drawn.
        """
        if self.seed is None or self.log != counts.fingerprint:
            return None
        shown = np.zeros(counts.n_queries, np.bool_)
        shown[segment_index(counts.offsets)[counts.cells.document]] = True
        rng = np.random.default_rng(self.seed)
        result = np.zeros((len(self.lines.alpha), counts.n_queries))
        for row in result:
            row[shown] = draw_units(int(shown.sum()), rng)
        return result

    @property
    def biases(self) -> Iterator[Lines]:
        """α and β of each resample."""
        return (Lines(alpha, beta) for alpha, beta in zip(*self.lines, strict=True))


class AssumedBias(NamedTuple):
    """A bias, and what is known about it.

    Attributes:
        bias: how users click.
        details: how it was estimated, if it was; for JSON.
        notes: caveats that every report must state.
    """

    bias: Bias
    details: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def estimated(self) -> bool:
        """Whether it was estimated from clicks, rather than assumed."""
        if self.details is not None:
            return self.details.get("method") != ASSUMED
        return self.bias.evidence is not None and self.bias.evidence.method != ASSUMED

    @property
    def is_curve(self) -> bool:
        """Whether its form was assumed: examination k^−η."""
        return self.details is not None and self.details.get("model") == CURVE

    @property
    def resamples(self) -> BiasResamples | None:
        """Its resamples, if it was estimated and has any."""
        return BiasResamples.of_details(self.details) or BiasResamples.of_evidence(self.bias.evidence)


def assume_bias(
    log: LogReader, source: BiasSource, *, seed: int = 0, progress: Progress | None = None
) -> AssumedBias:
    """The bias that was asked for.

    Args:
        log: the log to estimate it from, if none is given.
        source: a bias, an estimate, the path of a file that `rankloop.bias.save_bias` wrote, the name of
            simulated users such as ``paper@5``, or None to estimate it from the log.
        seed: the random seed of the estimate.
        progress: called with what is being done.
    """
    if isinstance(source, Bias):
        return AssumedBias(source)
    if source is None:
        with explain_missing_bias():
            source = ask_log(log, seed=seed, progress=progress).require()
    if isinstance(source, BiasEstimate):
        return AssumedBias(source.bias, bias_details(source), source.notes)
    if Path(source).exists() or str(source).endswith(".json"):
        return AssumedBias(*read_bias(source))
    try:
        return AssumedBias(clicks.bias_of(clicks.users(str(source))))
    except BadNameError as error:
        raise RankloopError(
            f"the bias {str(source)!r} is neither a file nor the name of simulated users: {error}"
        ) from error


def ask_log(
    log: LogReader,
    options: BiasOptions | None = None,
    *,
    ranks: int | None = None,
    seed: int = 0,
    decision_only: bool = False,
    progress: Progress | None = None,
) -> BiasAnswer:
    """Ask a log how users click: everything offline that needs a bias asks here.

    Args:
        log: the log.
        options: what is estimated; None for the defaults. A policy that was declared randomised when the log
            was imported need not be named.
        ranks: how many positions to use; None for all.
        seed: the random seed.
        decision_only: leave out what cannot refuse; see `rankloop.bias.ask_bias`.
        progress: called with what is being done.
    """
    chosen = options or BiasOptions()
    if chosen.randomised is None and chosen.method in ("auto", "randomised") and len(log.randomised) == 1:
        chosen = replace(chosen, randomised=log.randomised[0])
    context = find_context(log, chosen.context)

    def ask(context_of: str | None) -> BiasAnswer:
        counts = log.count(ranks, context_of=context_of, progress=progress)
        return ask_bias(
            counts,
            chosen,
            periods=counts_of_periods(log, counts),
            rng=np.random.default_rng(seed),
            features=document_features(log, counts),
            decision_only=decision_only,
            progress=progress,
        )

    if chosen.context != AUTO or context is None:
        return ask(context)
    try:
        return ask(context)
    except DataError:
        # The self-test sees an effect that cannot be estimated; decisions by this bias only lean.
        return ask(None)


def find_context(log: LogReader, context: str) -> str | None:
    """What the log is counted by, as it was asked for: ``length``, a column, ``none`` or ``auto``.

    ``auto`` is what the self-test of the log finds.
    """
    if context == AUTO:
        try:
            found = context_found(log.impression_table())
        except DataError:
            return None
        return None if found is None else LIST_LENGTH if found == LENGTH_TEST else found.removeprefix(COLUMN)
    if context == NO_CONTEXT:
        return None
    return LIST_LENGTH if context == LENGTH else context


def accounted_tests(bias: Bias) -> frozenset[str]:
    """The names of the tests whose effects a bias accounts for."""
    if bias.contexts is None:
        return frozenset()
    return frozenset({LENGTH_TEST if bias.contexts.of == LIST_LENGTH else COLUMN + bias.contexts.of})


def document_features(log: LogReader, counts: Counts) -> Callable[[], Float32] | None:
    """The function that reads the features of a log's documents in the order of the counts, or None."""
    return (lambda: read_features(log, counts).values) if log.has(FEATURES) else None


@contextmanager
def explain_missing_bias() -> Iterator[None]:
    """Say what to do if a bias cannot be estimated."""
    try:
        yield
    except RankloopError as error:
        reason = str(error).rstrip(".")
        raise RankloopError(
            f"the bias cannot be estimated from this log: {reason}. Or give one (--bias, bias=…): a file "
            f"that `rankloop bias` wrote, or the name of simulated users such as paper@5"
        ) from error


def self_test_of(log: LogReader, assumed: AssumedBias | None) -> SelfTest | None:
    """What the clicks of a log say about the assumptions of decisions; None if no row can be tested.

    The last result is kept, and returned again for the same bias.

    Args:
        log: the log.
        assumed: how users click; None if that is not known. Only a bias from clicks is used.
    """
    bias = assumed.bias if assumed is not None and assumed.estimated else None
    for known, found in log.self_tests:
        if known is bias:
            return found
    try:
        found = self_test(log.impression_table(), bias)
    except DataError:
        return None
    log.self_tests[:] = [(bias, found)]
    return found
