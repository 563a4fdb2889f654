"""The slots of impressions: which positions have a row, where these are not simply 1, 2, 3 and so on.

A position without a row (an advertisement, a row that was not seen, a row that the import removed) does not
belong to the ranker. The positions that have rows are the impression's slots: every policy would fill the
same slots of that impression, in their order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ibis import _
from numpy.typing import NDArray

from rankloop.logs.counter import as_text
from rankloop.logs.counts import LogCounts
from rankloop.logs.engines import Engine, Expression
from rankloop.logs.folder import LogFolder
from rankloop.logs.schema import IMPRESSIONS
from rankloop.ragged import offsets_of, segment_sum
from rankloop.types import Float64, Int64

if TYPE_CHECKING:
    from collections.abc import Sequence

IMPRESSION = ("impression_id", "policy_id", "query_id")
# What identifies a cell of `Slots`.
CELL = ("policy_id", "query_id", "slot", "position")


class GapSummary(NamedTuple):
    """How many impressions have gaps; an impression may have both a leading and an inner one.

    Attributes:
        impressions: the number of impressions.
        gapped: impressions with a leading or an inner gap.
        leading: impressions whose first row is below position 1.
        inner: impressions that leave out a position between two of their rows.
        short: impressions with fewer rows than the longest one of their query under the same policy.
    """

    impressions: int
    gapped: int
    leading: int
    inner: int
    short: int

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
        summary: how many impressions have gaps.
        policy: int64, cells; the number of the policy.
        query: int64, cells; the number of the query.
        slot: int64, cells; the number of the slot in its impression, from 0.
        position: int64, cells; its position, from 0.
        times: int64, cells; in how many impressions with gaps the slot has the position.
        pinned: whether gaps are known to have been there before the policies drew.
    """

    summary: GapSummary
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

    def placement(self, counts: LogCounts, policy: int) -> Placement:
        """At which positions the ranks of a policy's draws are; its own where it never served the query.

        Args:
            counts: the counts of the log.
            policy: the number of the policy.
        """
        came = counts.query_counts[policy]
        rows = segment_sum(counts.displays_of(policy), counts.offsets)
        moved = (self.policy == policy) & (self.slot != self.position) & (self.position < counts.ranks)
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

    def rank_weights(self, counts: LogCounts, vectors: Float64) -> Float64 | None:
        """What the k-th document of a ranking is worth on each query, queries × vectors × ranks.

            θ_q[k] = 1/N_q Σ_i θ[slot_k(i)]

        over the impressions i of the query; 0 for impressions with fewer than k slots. Queries without
        impressions have θ itself. None if θ_q is θ for every query, as far as it has documents.

        Args:
            counts: the counts of the log, of at least as many ranks as the vectors have.
            vectors: float64, vectors × ranks; θ.
        """
        ranks = vectors.shape[1]
        rows = segment_sum(counts.displays_by_rank[:, :ranks], counts.offsets).astype(np.float64)
        rows = np.pad(rows, ((0, 0), (0, ranks - rows.shape[1])))
        came = counts.query_counts.sum(axis=0)
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


def find_slots(log: LogFolder, engine: Engine, counts: LogCounts) -> Slots:
    """Find the impressions with gaps; those without are only counted."""
    rows = engine.table(log.files(IMPRESSIONS)).select(
        "impression_id", **as_text("policy_id", "query_id"), position=_.position.cast("int64")
    )
    impressions = engine.stored(
        rows.group_by(*IMPRESSION)
        .agg(shown=_.count(), first=_.position.min(), last=_.position.max())
        .mutate(leading=_.first > 1, inner=_.last - _.first + 1 > _.shown)
    )
    summary = _summary(engine, impressions)
    if not summary.gapped:
        nothing = np.zeros(0, np.int64)
        return Slots(summary, nothing, nothing, nothing, nothing, nothing)
    gapped = impressions.filter(_.leading | _.inner).select(*IMPRESSION)
    slot = ibis.row_number().over(group_by=list(IMPRESSION), order_by="position")
    cells = rows.join(gapped, IMPRESSION).mutate(slot=slot.cast("int64")).group_by(*CELL).agg(times=_.count())
    tables = [pa.Table.from_batches([batch]) for batch in engine.batches(cells)]
    # Engines return groups in any order, and sums of floating-point numbers depend on it.
    table = pa.concat_tables(tables).sort_by([(name, "ascending") for name in CELL])
    return Slots(
        summary,
        _numbers(table["policy_id"], counts.policy_ids),
        _numbers(table["query_id"], counts.query_ids.tolist()),
        table["slot"].to_numpy(),
        table["position"].to_numpy() - 1,
        table["times"].to_numpy(),
        log.pinned,
    )


def find_placements(slots: Slots, counts: LogCounts) -> dict[str, Placement] | None:
    """By policy, at which positions its ranks are; None if all impressions show all documents in order."""
    found = {policy: slots.placement(counts, number) for number, policy in enumerate(counts.policy_ids)}
    sizes = np.diff(counts.offsets)
    return None if all(one.is_plain(sizes) for one in found.values()) else found


def _summary(engine: Engine, impressions: Expression) -> GapSummary:
    longest = _.shown.max().over(ibis.window(group_by=["policy_id", "query_id"]))
    found = impressions.mutate(short=_.shown < longest).agg(
        impressions=_.count(),
        gapped=_.count(where=_.leading | _.inner),
        leading=_.count(where=_.leading),
        inner=_.count(where=_.inner),
        short=_.count(where=_.short),
    )
    (row,) = (row for batch in engine.batches(found) for row in batch.to_pylist())
    return GapSummary(**row)


def _numbers(values: pa.ChunkedArray, known: Sequence[str]) -> Int64:
    found = pc.index_in(values, value_set=pa.array(known, pa.string()))
    return np.asarray(found.combine_chunks().to_numpy(), dtype=np.int64)
