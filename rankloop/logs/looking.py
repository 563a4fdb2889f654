"""Looking for what is wrong with rows of impressions, wherever they are: staged by an import, or in a log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ibis
from ibis import _

from rankloop.logs.engines import Engine, Expression
from rankloop.logs.problems import EXAMPLES, Found

IMPRESSION, ROW = ("impression_id",), ("impression_id", "position", "doc_id")
# What examples are told by, where a table has it.
NAMED = ("impression_id", "policy_id", "query_id", "doc_id")


class Looking:
    """Counts problems, each with examples.

    Rows have the columns of ``impressions`` and ``place``, a number that orders them.

    Args:
        engine: what runs expressions.
        found: where problems go.
        place_name: what messages call a place; None: places have no names.
    """

    def __init__(self, engine: Engine, found: Found, place_name: Callable[[int], str] | None = None) -> None:
        self.engine, self.found, self.place_name = engine, found, place_name

    def distinct_rows(self, shown: Expression) -> Expression:
        """The rows, each once; those that come again and those before the first position are counted."""
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

    def impressions(self, rows: Expression) -> Expression:
        """One row an impression, with what can be wrong with it; ``kept`` says that it can be used."""
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
        if self.size(kept.filter(_.timestamp.notnull())):
            self.add("missing_times", kept.filter(_.timestamp.isnull()), left_out=0)
        return impressions

    def add(
        self, name: str, bad: Expression, *, count: int | None = None, left_out: int | None = None
    ) -> None:
        """Count the rows of an expression as a problem, or say how many there are."""
        size = self.size(bad) if count is None else count
        if size:
            self.found.add(name, *self._examples(bad), count=size, left_out=left_out)

    def size(self, expression: Expression) -> int:
        """How many rows there are."""
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
