"""A log and how to read it: counts, statistics and checks, on the engine that it was opened with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from rankloop.errors import RankloopError
from rankloop.logs.counter import DEEPEST_POSITION, LogCounter, Span
from rankloop.logs.engines import Engine, check_engine, engine
from rankloop.logs.facts import LogFacts, find_facts
from rankloop.logs.features import read_feature_names, split_of_log
from rankloop.logs.folder import LogFolder
from rankloop.logs.grading import TARGETS, Grading, find_grading
from rankloop.logs.impression_rows import client_of, read_impression_table
from rankloop.logs.log_statistics import (
    LogStatistics,
    RankShares,
    assemble_statistics,
    compute_exposures,
    compute_rank_shares,
)
from rankloop.logs.schema import CANDIDATES, IMPRESSIONS
from rankloop.logs.slots import Slots, find_placements, find_slots
from rankloop.progress import Progress, report
from rankloop.ragged import segment_index
from rankloop.statistics.counts import Counts, ImpressionTable
from rankloop.statistics.statistics import Statistics
from rankloop.types import Bias, ContextEffects, Float64, Split

if TYPE_CHECKING:
    from rankloop.evidence.self_test import SelfTest
    from rankloop.offline.assumptions import LogPeriods

# Candidates' probabilities by rank are kept up to so many numbers: about 130 MB.
MOST_SHARES = 2**24
# Draws the queries of which the impressions are held in memory, if the log is large.
TABLE_SEED = 0

ExposureSource = Literal["candidates", "displays"]
EXPOSURE_SOURCES = ("candidates", "displays")


@dataclass(frozen=True, eq=False)
class LogReader(LogFolder):
    """The folder of a log, the engine that counts it, and the counts that are known so far.

    Attributes:
        engine: ``duckdb``, inside this process, ``spark``, or ``postgres``.
        master: where Spark runs, such as ``local[4]`` or ``spark://host:7077``, None for Spark's settings; or
            the address of PostgreSQL.
        exposure: where exposures come from: ``candidates`` (exact, from the scores of all candidates, where
            the log has them), or ``displays`` (always estimated), for policies that do not draw their
            rankings from their scores.
        target: what policies are fitted to and judged by: ``clicks``, ``amount``, or ``auto`` for the amount
            of logs that have one.
        self_tests: none or one: the last self-test, with the bias that it was given;
            `rankloop.offline.assumptions` keeps it here.
        periods: none or one: the periods of the log; `rankloop.offline.assumptions` keeps them here.
    """

    engine: str = "duckdb"
    master: str | None = None
    exposure: ExposureSource = "candidates"
    target: str = "auto"
    _known: dict[int, Counts] = field(default_factory=dict, init=False, repr=False)
    # None, or the last counts that were told apart by context.
    _by_context: list[Counts] = field(default_factory=list, init=False, repr=False)
    # None or one.
    _slots: list[Slots] = field(default_factory=list, init=False, repr=False)
    _grading: list[Grading] = field(default_factory=list, init=False, repr=False)
    # None, or the last bias and what was computed for it: a fit and its evaluation need the same.
    _statistics: list[tuple[Bias, LogStatistics]] = field(default_factory=list, init=False, repr=False)
    # None, or those of one number of ranks: every evaluation needs the same.
    _shares: list[tuple[int, list[RankShares]]] = field(default_factory=list, init=False, repr=False)
    # None or one.
    _table: list[ImpressionTable] = field(default_factory=list, init=False, repr=False)
    self_tests: list[tuple[Bias | None, SelfTest]] = field(default_factory=list, init=False, repr=False)
    periods: list[LogPeriods | None] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        check_engine(self.engine, self.master)
        if self.target not in TARGETS:
            raise RankloopError(
                f"the target is {', '.join(TARGETS[:-1])} or {TARGETS[-1]}, not {self.target!r}"
            )
        if self.exposure not in EXPOSURE_SOURCES:
            raise RankloopError(
                f"exposures come from {' or '.join(EXPOSURE_SOURCES)}, not from {self.exposure!r}"
            )

    def open_engine(self) -> AbstractContextManager[Engine]:
        """The engine, to be used in a ``with`` block."""
        return engine(self.engine, master=self.master)

    def facts(self, *, progress: Progress | None = None) -> LogFacts:
        """What is in the log: policies over time, clicks by rank, support, and problems."""
        report(progress, "check", note="counting")
        with self.open_engine() as running:
            counter = LogCounter(self, running, known=self._recall(None))
            counter.ranks = min(counter.totals["deepest"], DEEPEST_POSITION)
            counts = counter.known or self._remember(counter.counts())
            if not self._slots:
                self._slots.append(find_slots(self, running, counts))
            return find_facts(counter, counts, self._slots[0], progress)

    def count(
        self, ranks: int | None = None, *, context_of: str | None = None, progress: Progress | None = None
    ) -> Counts:
        """How often each document was shown and clicked, by policy and rank.

        The log is read once: later calls use what has been counted, whatever the number of ranks, unless it
        is larger than before and rows were left out.

        Args:
            ranks: how many ranks to count; None for all, up to 1,000.
            context_of: what displays are told apart by, too: ``list length``, or a column; None for nothing.
            progress: called with what is being done.
        """
        if ranks is not None and not 1 <= ranks <= DEEPEST_POSITION:
            raise RankloopError(
                f"the number of ranks must be between 1 and {DEEPEST_POSITION:,}, got {ranks}"
            )
        if context_of is not None:
            return self._count_contexts(self.count(ranks, progress=progress), context_of)
        known = self._recall(ranks)
        if known is None:
            report(progress, "count")
            with self.open_engine() as running:
                known = self._remember(LogCounter(self, running, ranks).counts())
            report(progress, "count", 1.0, f"{known.rows:,} rows")
        return known

    def _count_contexts(self, counts: Counts, context_of: str) -> Counts:
        """The same counts, told apart by context."""
        for known in self._by_context:
            if known.context_of == context_of and known.can_give(counts.positions):
                return known.of_ranks(counts.positions)
        with self.open_engine() as running:
            counter = LogCounter(self, running, counts.positions, counts, context_of)
            self._by_context[:] = [counter.counts()]
        return self._by_context[0]

    def count_span(self, span: Span, ranks: int, context_of: str | None = None) -> Counts:
        """The counts of part of the log, with the queries and documents of the whole log; not kept."""
        known = self.count(ranks, context_of=context_of)
        if span.policies is not None and span.segment is None:
            return known.of_policies(span.policies)
        with self.open_engine() as running:
            counter = LogCounter(self, running, ranks, known, context_of)
            counter.impressions = span.of(counter.impressions)
            return counter.counts()

    def statistics(self, bias: Bias) -> LogStatistics:
        """The statistics of the log, which estimators take; as many ranks are counted as the bias has.

        Exposures are exact where the log has the scores of all candidates of the policy and the query, and
        are estimated from displays elsewhere; see `rankloop.logs.log_statistics.assemble_statistics`.
        The last result is kept, and returned again for an equal bias.
        """
        for known, found in self._statistics:
            if _are_equal(known, bias):
                return found
        found = self._compute_statistics(bias)
        self._statistics[:] = [(bias, found)]
        return found

    def _compute_statistics(self, bias: Bias) -> LogStatistics:
        counts, slots = self.count(bias.positions, context_of=context_of(bias)), self.slots()
        if not self.draws:
            return assemble_statistics(counts, bias, None, slots)
        placements = find_placements(slots, counts)
        with self.open_engine() as running:
            counter = LogCounter(self, running, bias.positions, counts)
            exact = compute_exposures(counter, counts, bias, placements)
            return assemble_statistics(counts, bias, exact, slots)

    @property
    def draws(self) -> bool:
        """Whether the log has the scores of candidates, and policies draw their rankings from them."""
        return self.exposure == "candidates" and self.has(CANDIDATES)

    def slots(self) -> Slots:
        """Which positions impressions fill, where these are not simply 1, 2, 3 …; the log is read once."""
        if not self._slots:
            counts = self._any_counts()
            with self.open_engine() as running:
                self._slots.append(find_slots(self, running, counts))
        return self._slots[0]

    def grading(self) -> Grading:
        """What displays are worth: their clicks, or their amount; the log is read once."""
        if not self._grading:
            with self.open_engine() as running:
                self._grading.append(find_grading(running, self, self.target))
        return self._grading[0]

    def impression_table(self) -> ImpressionTable:
        """The impressions with what they have in common, a sample if there are many; the log is read once.

        Raises:
            DataError: no impression shows a known document.
        """
        if not self._table:
            with self.open_engine() as running:
                rng = np.random.default_rng(TABLE_SEED)
                self._table.append(read_impression_table(running, self, self._any_counts(), rng=rng))
        return self._table[0]

    def rank_shares(
        self, found: LogStatistics, effects: ContextEffects | None = None, part: Counts | None = None
    ) -> Float64:
        """How often each document is at each rank per impression of its query: float64, documents × ranks.

        Computed from scores where exposures are, and from displays elsewhere; averaged over the policies that
        served the query.

        Args:
            found: the statistics of the log.
            effects: how much more users click in some contexts; a display counts as often.
            part: the counts of part of the log, by these contexts; None for all.
        """
        ranks = found.statistics.positions
        whole, slots = self.count(ranks), self.slots()
        counts = part or self.count(ranks, context_of=None if effects is None else effects.of)
        relative = None if effects is None else counts.mean_effects(effects)
        came = np.maximum(counts.impressions_by_query, 1)
        query_of = segment_index(counts.offsets)
        result = np.zeros((counts.n_documents, ranks))
        for number, policy in enumerate(counts.policy_ids):
            estimated = ~found.exact.get(policy, np.zeros(counts.n_queries, np.bool_))
            shown = (
                counts.displays_of(number) if effects is None else counts.effective_displays(effects, number)
            )
            result += np.where(estimated[query_of, None], shown, 0)
        result /= came[query_of, None]
        if not self.draws:
            return result
        numbers = {policy: number for number, policy in enumerate(counts.policy_ids)}
        placements = {
            policy: slots.placement(whole, number) for number, policy in enumerate(whole.policy_ids)
        }
        for policy, documents, shares in self._candidate_shares(whole):
            if policy not in numbers:
                continue
            queries, number = query_of[documents], numbers[policy]
            weight = (
                counts.impressions_by_policy[number][queries] / came[queries] * found.exact[policy][queries]
            )
            placed = placements[policy].place(shares, queries)
            if relative is not None:
                placed = placed * relative[queries]
            result[documents] += weight[:, None] * placed
        return result

    def statistics_of_part(self, found: LogStatistics, part: Counts, bias: Bias) -> Statistics:
        """The statistics of part of the log, such as a period or a segment.

        Args:
            found: the statistics of the log.
            part: the counts of the part, by the contexts of the bias, if it has any.
            bias: how users click.
        """
        if bias.contexts is None or not self.draws:
            return found.of_part(part, bias)
        # How often users click depends on the contexts of this part.
        whole, slots = self.count(bias.positions), self.slots()
        relative, query_of = part.mean_effects(bias.contexts), segment_index(part.offsets)
        by_rank = np.stack([bias.alpha, bias.beta, bias.examination])
        exposures = {policy: np.zeros((len(by_rank), part.n_documents)) for policy in part.policy_ids}
        for policy, documents, shares in self._candidate_shares(whole):
            if policy not in exposures:
                continue
            placement = slots.placement(whole, whole.policy_ids.index(policy))
            placed = placement.place(shares, query_of[documents]) * relative[query_of[documents]]
            exposures[policy][:, documents] = by_rank @ placed.T
        return found.of_part(part, bias, exposures)

    def _candidate_shares(self, counts: Counts) -> Iterator[RankShares]:
        """The probabilities of all candidates at each rank, in parts; kept, unless there are very many."""
        ranks = counts.positions
        for known, parts in self._shares:
            if known == ranks:
                yield from parts
                return
        kept, numbers = list[RankShares](), 0
        with self.open_engine() as running:
            for part in compute_rank_shares(LogCounter(self, running, ranks, counts), ranks):
                numbers += part.shares.size
                if numbers <= MOST_SHARES:
                    kept.append(part)
                yield part
        if numbers <= MOST_SHARES:
            self._shares[:] = [(ranks, kept)]

    def split(self) -> Split:
        """The documents of the log with their features, in the order of its counts and statistics.

        Labels are all 0: a log has none.
        """
        return split_of_log(self, self._any_counts())

    @cached_property
    def client(self) -> str | None:
        """The column of impressions that tells who looked, if there is one."""
        with self.open_engine() as running:
            return client_of(running.table(self.files(IMPRESSIONS)))

    @property
    def policy_ids(self) -> tuple[str, ...]:
        """The ids of the policies that logged, in the order of their first impressions."""
        return self._any_counts().policy_ids

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """The names of the features; None if they are stored as vectors, or if there are none."""
        return read_feature_names(self)

    @property
    def fingerprint(self) -> str:
        """A name for the content of the log, the same wherever it is stored; see `Counts.fingerprint`."""
        return self._any_counts().fingerprint

    def _any_counts(self) -> Counts:
        """Counts of any number of ranks: the documents are the same for all of them."""
        return next(iter(self._known.values()), None) or self.count(DEEPEST_POSITION)

    def _recall(self, ranks: int | None) -> Counts | None:
        """The counts of a number of ranks, if they follow from what has been counted."""
        for counts in list(self._known.values()):
            if ranks is None and counts.left_out == 0:
                deepest = int(counts.cells.position.max()) + 1
                return self._known.get(deepest) or self._remember(counts.of_ranks(deepest))
            if ranks is not None and counts.can_give(ranks):
                return self._known.get(ranks) or self._remember(counts.of_ranks(ranks))
        return None

    def _remember(self, counts: Counts) -> Counts:
        self._known[counts.positions] = counts
        return counts


def _are_equal(first: Bias, second: Bias) -> bool:
    names = ("alpha", "beta", "examination")
    alike = all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)
    if first.contexts is None:
        return alike and second.contexts is None
    return alike and first.contexts.equals(second.contexts)


def context_of(bias: Bias) -> str | None:
    """What the log has to be counted by for a bias; None if contexts are all alike."""
    return None if bias.contexts is None else bias.contexts.of
