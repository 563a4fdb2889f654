"""Finds problems in rows of impressions, whether they are staged by an import or in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ibis
from ibis import _

from rankloop.logs.engines import Engine, Expression
from rankloop.logs.problems import EXAMPLES, ProblemCounter

IMPRESSION, ROW = ("impression_id",), ("impression_id", "position", "doc_id")
# The columns that examples show, if a table has them.
NAMED = ("impression_id", "policy_id", "query_id", "doc_id")
# Positions are bits of a 64-bit number, to which up to 2³² rows are added; impressions with more than 31
# positions are examined in detail.
DEEPEST_BIT = 30


class DefectFinder:
    """Counts problems, with examples of each.

    Rows have the columns of ``impressions`` and ``place``, a number that orders them.

    Args:
        engine: the engine that runs expressions.
        found: collects the problems.
        place_name: how messages name a place; None if places have no names.
    """

    def __init__(
        self, engine: Engine, found: ProblemCounter, place_name: Callable[[int], str] | None = None
    ) -> None:
        self.engine, self.found, self.place_name = engine, found, place_name

    def distinct_rows(self, shown: Expression) -> Expression:
        """The distinct rows; counts repeated rows and rows before the first position as problems."""
        self.add("bad_positions", shown.filter(_.position < 1))
        rows = self.engine.stored(
            shown.filter(_.position >= 1)
            .group_by(*ROW)
            .agg(
                times=_.count(),
                clicked=_.clicked.any(),
                timestamp=_.timestamp.min(),
                query_id=_.query_id.min(),
                other_query=_.query_id.max(),
                policy_id=_.policy_id.min(),
                other_policy=_.policy_id.max(),
                place=_.place.min(),
                last=_.place.max(),
            )
        )
        again = rows.filter(_.times > 1).mutate(place=_.last)
        self.add("duplicate_rows", again, count=self.total(again, _.times - 1))
        return rows

    def suspicious(self, shown: Expression, *, timed: bool) -> Expression | None:
        """The rows of all impressions that may have a problem, and of a few others; None if there are none.

        Finding problems by ids takes about a hundred bytes per row. Most impressions have no problem, and
        hashes of ids are enough to see that: if hashes differ, so do the ids.

        Args:
            shown: rows, each of which has a position.
            timed: whether an impression without a time is a problem.
        """
        coded = shown.mutate(code=shown.impression_id.hash())
        place = coded.position.cast("int64") - 1
        by_code = (
            coded.select(
                "code",
                "timestamp",
                place=place,
                bit=_bit(ibis.least(ibis.greatest(place, 0), DEEPEST_BIT)),
                query=coded.query_id.hash(),
                policy=coded.policy_id.hash(),
            )
            .group_by("code")
            .agg(
                rows=_.count(),
                first=_.place.min(),
                last=_.place.max(),
                bits=_.bit.sum(),
                mixed=(_.query.min() != _.query.max()) | (_.policy.min() != _.policy.max()),
                untimed=_.timestamp.max().isnull(),
            )
        )
        # n powers of two add up to 2ⁿ − 1 only if they are all different.
        one_of_each = _bit(ibis.least(by_code.rows, DEEPEST_BIT + 1)) - 1
        complete = (_.first == 0) & (_.rows == _.last + 1) & (by_code.bits == one_of_each)
        odd = by_code.filter(~complete | _.mixed | (ibis.literal(timed) & _.untimed)).select("code")
        pairs = coded.select("code", pair=coded.code ^ coded.doc_id.hash())
        repeated = self.engine.stored(pairs.group_by("pair").agg(times=_.count()).filter(_.times > 1))
        if self.size(repeated):
            odd = odd.union(pairs.semi_join(repeated, "pair").select("code"))
        codes = self.engine.stored(odd.distinct())
        return coded.semi_join(codes, "code").drop("code") if self.size(codes) else None

    def impressions(self, rows: Expression, *, timed: bool | None = None) -> Expression:
        """One row per impression, with its problems; ``kept`` says whether it can be used.

        Args:
            rows: what `distinct_rows` returns.
            timed: whether an impression without a time is a problem; None if it is one only if others have
                times.
        """
        mixed = (_.other_query.max() != _.query_id.min()) | (_.other_policy.max() != _.policy_id.min())
        by_impression = rows.group_by(*IMPRESSION).agg(
            rows=_.count(),
            positions=_.position.nunique(),
            documents=_.doc_id.nunique(),
            deepest=_.position.max(),
            timestamp=_.timestamp.min(),
            place=_.place.min(),
            mixed=mixed,
        )
        impressions = self.engine.stored(by_impression.mutate(kept=~_.mixed & (_.positions == _.rows)))
        for name, bad in (
            ("mixed_impressions", impressions.filter(_.mixed)),
            ("repeated_positions", impressions.filter(~_.mixed & ~_.kept)),
        ):
            self.add(name, bad, left_out=self.total(bad, _.rows))
        kept = impressions.filter(_.kept)
        again = kept.filter(_.documents < _.rows)
        self.add("repeated_documents", again, count=self.total(again, _.rows - _.documents))
        self.add("missing_positions", kept.filter(_.positions != _.deepest), left_out=0)
        if self.size(kept.filter(_.timestamp.notnull())) if timed is None else timed:
            self.add("missing_times", kept.filter(_.timestamp.isnull()), left_out=0)
        return impressions

    def add(
        self, name: str, bad: Expression, *, count: int | None = None, left_out: int | None = None
    ) -> None:
        """Count the rows of an expression as a problem, or add a given count."""
        size = self.size(bad) if count is None else count
        if size:
            self.found.add(name, *self._examples(bad), count=size, left_out=left_out)

    def size(self, expression: Expression) -> int:
        """The number of rows."""
        return self.total(expression, ibis.literal(1))

    def total(self, expression: Expression, what: Expression) -> int:
        """The sum of a number over rows."""
        ((total,),) = (row.values() for row in self.fetch(expression.select(n=what).agg(total=_.n.sum())))
        return int(total or 0)

    def fetch(self, expression: Expression) -> list[dict[str, Any]]:
        """The rows of a small expression."""
        return [row for batch in self.engine.batches(expression) for row in batch.to_pylist()]

    def _examples(self, bad: Expression) -> Iterator[str]:
        columns = [name for name in NAMED if name in bad.columns]
        first = bad.order_by("place", *columns).limit(EXAMPLES).select(*columns, "place")
        for row in self.fetch(first):
            named = ", ".join(f"{name.removesuffix('_id')} {row[name]!r}" for name in columns)
            yield named if self.place_name is None else f"{self.place_name(row['place'])}: {named}"


def _bit(place: Expression) -> Expression:
    """A power of two. PostgreSQL gives numbers 32 bits, unless they are converted, and shifts by 32 bits."""
    return ibis.literal("1").cast("int64") << place.cast("int32")
