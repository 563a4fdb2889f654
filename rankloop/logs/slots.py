"""The slots of impressions: which positions have a row, where these are not simply 1, 2, 3 and so on.

A position without a row (an advertisement, a row that was not seen, a row that the import removed) does not
belong to the ranker. The positions that have rows are the impression's slots: every policy would fill the
same slots of that impression, in their order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ibis import _
from numpy.typing import NDArray

from rankloop.logs.counter import as_text
from rankloop.logs.engines import Engine, Expression
from rankloop.logs.folder import LogFolder
from rankloop.logs.schema import IMPRESSIONS
from rankloop.ragged import offsets_of, segment_sum
from rankloop.statistics.counts import Counts
from rankloop.types import Float64, Int64

if TYPE_CHECKING:
    from collections.abc import Sequence

IMPRESSION = ("impression_id", "policy_id", "query_id")
# As many of the most frequent kinds of gaps are listed.
PATTERNS = 3
# What identifies a cell of `Slots`.
CELL = ("policy_id", "query_id", "slot", "position")


@dataclass(frozen=True)
class Gaps:
    """Impressions with positions that have no row: slots of others, or rows that were not logged.

    Attributes:
        impressions: the number of impressions.
        gapped: how many have a leading or an inner gap; an impression may have both.
        leading: how many begin below position 1.
        inner: how many skip a position between their first and their last.
        short: how many end above the position at which most impressions of their policy end.
        patterns: the most frequent positions of impressions with leading or inner gaps, as text, and how many
            impressions have them.
    """

    impressions: int
    gapped: int
    leading: int
    inner: int
    short: int
    patterns: tuple[tuple[str, int], ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What every report must state about gaps; empty if there are none."""
        if not self.gapped:
            return ()
        return (
            f"{self.gapped:,} of {self.impressions:,} impressions have positions without a row "
            f"({self.leading:,} before their first row, {self.inner:,} between two rows). These positions "
            f"count as slots that are not the ranker's: every policy fills the remaining slots of the same "
            f"impression in order.",
        )


@dataclass(frozen=True, eq=False)
class Placement:
    """At which positions the ranks of one policy's draws are, query by query.

    Attributes:
        stays: float64, queries × ranks; the share of impressions that have the k-th slot at position k.
        offsets: the cells of each query, and their number; other slots than these have no cells.
        slot: int64, cells; the number of the slot, from 0.
        position: int64, cells; its position, from 0: another one.
        share: float64, cells; the share of the query's impressions in which the slot has the position.
    """

    stays: Float64
    offsets: Int64
    slot: Int64
    position: Int64
    share: Float64

    def is_plain(self, sizes: Int64) -> bool:
        """Whether all impressions show as many documents as there are, each rank at its own position."""
        shown = np.arange(self.stays.shape[1]) < sizes[:, None]
        return not len(self.slot) and bool((self.stays[shown] >= 1.0).all())

    def place(self, by_rank: Float64, queries: Int64) -> Float64:
        """The probabilities of documents at each position: float64, documents × ranks.

            P(d at j) = Σ_k P(d is drawn as the k-th) · (share of impressions whose k-th slot is at j)

        Args:
            by_rank: float64, documents × ranks; the probability to be drawn as the k-th.
            queries: documents; the numbers of their queries.
        """
        result = by_rank * self.stays[queries]
        cells = self.offsets[queries + 1] - self.offsets[queries]
        document = np.repeat(np.arange(len(queries)), cells)
        begins = np.repeat(self.offsets[queries] - (np.cumsum(cells) - cells), cells)
        cell = np.arange(len(document)) + begins
        np.add.at(
            result,
            (document, self.position[cell]),
            by_rank[document, self.slot[cell]] * self.share[cell],
        )
        return result


@dataclass(frozen=True, eq=False)
class Slots:
    """Which positions the impressions with gaps fill; the arrays have one entry per cell.

    Attributes:
        gaps: how many impressions have gaps.
        policy: int64, cells; the number of the policy.
        query: int64, cells; the number of the query.
        slot: int64, cells; the number of the slot in its impression, from 0.
        position: int64, cells; its position, from 0.
        times: int64, cells; in how many impressions with gaps the slot has the position.
        pinned: whether gaps are known to have been there before the policies drew.
    """

    gaps: Gaps
    policy: Int64
    query: Int64
    slot: Int64
    position: Int64
    times: Int64
    pinned: bool = False

    def displaced(self, shape: tuple[int, ...], ranks: int) -> NDArray[np.bool_]:
        """Where it is not known what was drawn for which slot, in an array of policies × queries.

        That is where any of the first slots is not at its own rank, and nobody knows why.
        """
        result = np.zeros(shape, np.bool_)
        moved = (self.slot < ranks) & (self.slot != self.position)
        result[self.policy[moved], self.query[moved]] = not self.pinned
        return result

    def placement(self, counts: Counts, policy: int) -> Placement:
        """At which positions the ranks of a policy's draws are; its own where it never served the query.

        Args:
            counts: the counts of the log.
            policy: the number of the policy.
        """
        came = counts.impressions_by_policy[policy]
        rows = segment_sum(counts.displays_of(policy), counts.offsets)
        moved = (self.policy == policy) & (self.slot != self.position) & (self.position < counts.positions)
        order = np.flatnonzero(moved)[np.argsort(self.query[moved], kind="stable")]
        query, position, times = self.query[order], self.position[order], self.times[order]
        np.subtract.at(rows, (query, position), times)
        return Placement(
            np.where(came[:, None] > 0, rows / np.maximum(came, 1)[:, None], 1.0),
            offsets_of(np.bincount(query, minlength=counts.n_queries)),
            self.slot[order],
            position,
            times / came[query],
        )

    def rank_weights(self, counts: Counts, vectors: Float64) -> Float64 | None:
        """What the k-th document of a ranking is worth on each query, queries × vectors × ranks.

            θ_q[k] = 1/N_q Σ_i θ[slot_k(i)]

        over the impressions i of the query; 0 for impressions with fewer than k slots. Queries without
        impressions have θ itself. None if θ_q is θ for every query, as far as it has documents.

        Args:
            counts: the counts of the log, of at least as many ranks as the vectors have.
            vectors: float64, vectors × ranks; θ.
        """
        ranks = vectors.shape[1]
        rows = segment_sum(counts.displays_by_position[:, :ranks], counts.offsets).astype(np.float64)
        rows = np.pad(rows, ((0, 0), (0, ranks - rows.shape[1])))
        came = counts.impressions_by_query
        sizes = np.diff(counts.offsets)
        expected = np.where(np.arange(ranks) < sizes[:, None], came[:, None], 0)
        inside = (self.slot < ranks) & (self.position < ranks)
        if not len(self.slot) and (rows >= expected).all():
            return None
        here = (self.query[inside], self.position[inside])
        np.subtract.at(rows, here, self.times[inside])
        result = rows[:, None, :] * vectors
        cells = self.times[inside] * vectors[:, self.position[inside]]
        for number in range(len(vectors)):
            np.add.at(result[:, number], (self.query[inside], self.slot[inside]), cells[number])
        return np.where(came[:, None, None] > 0, result / np.maximum(came, 1)[:, None, None], vectors)


def find_slots(log: LogFolder, engine: Engine, counts: Counts) -> Slots:
    """Find the impressions with gaps; those without are only counted."""
    rows = engine.table(log.files(IMPRESSIONS)).select(
        "impression_id", **as_text("policy_id", "query_id"), position=_.position.cast("int64")
    )
    impressions = engine.stored(
        rows.group_by(*IMPRESSION)
        .agg(shown=_.count(), first=_.position.min(), last=_.position.max())
        .mutate(leading=_.first > 1, inner=_.last - _.first + 1 > _.shown)
    )
    gaps = _count_gaps(engine, impressions)
    if not gaps.gapped:
        nothing = np.zeros(0, np.int64)
        return Slots(gaps, nothing, nothing, nothing, nothing, nothing)
    gapped = impressions.filter(_.leading | _.inner).select(*IMPRESSION)
    slot = ibis.row_number().over(group_by=list(IMPRESSION), order_by="position")
    cells = rows.join(gapped, IMPRESSION).mutate(slot=slot.cast("int64")).group_by(*CELL).agg(times=_.count())
    tables = [pa.Table.from_batches([batch]) for batch in engine.batches(cells)]
    # Engines return groups in any order, and sums of floating-point numbers depend on it.
    table = pa.concat_tables(tables).sort_by([(name, "ascending") for name in CELL])
    return Slots(
        gaps,
        _numbers(table["policy_id"], counts.policy_ids),
        _numbers(table["query_id"], counts.query_ids.tolist()),
        table["slot"].to_numpy(),
        table["position"].to_numpy() - 1,
        table["times"].to_numpy(),
        log.pinned,
    )


def find_placements(slots: Slots, counts: Counts) -> dict[str, Placement] | None:
    """By policy, at which positions its ranks are; None if all impressions show all documents in order."""
    found = {policy: slots.placement(counts, number) for number, policy in enumerate(counts.policy_ids)}
    sizes = np.diff(counts.offsets)
    return None if all(one.is_plain(sizes) for one in found.values()) else found


def _count_gaps(engine: Engine, impressions: Expression) -> Gaps:
    by_end = impressions.group_by("policy_id", "last").agg(
        impressions=_.count(),
        gapped=_.count(where=_.leading | _.inner),
        leading=_.count(where=_.leading),
        inner=_.count(where=_.inner),
    )
    ends: dict[str, dict[int, int]] = {}
    total = Counter[str]()
    for row in _rows(engine, by_end):
        policy, last = row.pop("policy_id"), row.pop("last")
        ends.setdefault(policy, {})[last] = row["impressions"]
        total.update(row)
    usual = {policy: max(own, key=lambda end, own=own: (own[end], end)) for policy, own in ends.items()}  # type: ignore[misc]
    short = sum(n for policy, own in ends.items() for end, n in own.items() if end < usual[policy])
    counted = {name: total[name] for name in ("impressions", "gapped", "leading", "inner")}
    return Gaps(**counted, short=short, patterns=_patterns(engine, impressions) if total["gapped"] else ())


def _patterns(engine: Engine, impressions: Expression) -> tuple[tuple[str, int], ...]:
    shapes = impressions.filter(_.leading | _.inner).group_by("first", "last", "shown").agg(times=_.count())
    most = shapes.order_by(ibis.desc("times"), "first", "last", "shown").limit(PATTERNS)
    return tuple(
        (f"{row['shown']} rows from position {row['first']} to {row['last']}", row["times"])
        for row in _rows(engine, most)
    )


def _rows(engine: Engine, expression: Expression) -> list[dict[str, Any]]:
    return [row for batch in engine.batches(expression) for row in batch.to_pylist()]


def _numbers(values: pa.ChunkedArray, known: Sequence[str]) -> Int64:
    found = pc.index_in(values, value_set=pa.array(known, pa.string()))
    return np.asarray(found.combine_chunks().to_numpy(), dtype=np.int64)
