"""Part of a log: the impressions of some time, of some policies, or of a segment."""

from __future__ import annotations

import math
from typing import NamedTuple

import ibis
from ibis import _

from rankloop.logs.counter import as_text
from rankloop.logs.engines import Expression

# The value of a column where it has none.
MISSING = "missing"


class Segment(NamedTuple):
    """The impressions with one value of a column, such as a device.

    Attributes:
        column: the name of the column.
        value: the value as text; ``missing`` where it is missing.
    """

    column: str
    value: str


class Span(NamedTuple):
    """The impressions from one time to another, or those of some policies or of a segment.

    Attributes:
        start: seconds since 1970; impressions without a time belong to a span without a start.
        end: the first second after it.
        policies: the policies; None for all.
        segment: the segment; None for all impressions.
    """

    start: float = -math.inf
    end: float = math.inf
    policies: tuple[str, ...] | None = None
    segment: Segment | None = None

    def of(self, rows: Expression) -> Expression:
        """The rows of impressions that belong to it."""
        if self.policies is not None:
            rows = rows.filter(as_text("policy_id")["policy_id"].isin(self.policies))
        if self.segment is not None:
            value = ibis.coalesce(_[self.segment.column].cast("string"), MISSING)
            rows = rows.filter(value == self.segment.value)
        # Whole seconds: Spark has no others.
        second = _.timestamp.epoch_seconds()
        if self.end < math.inf:
            early = second < int(self.end)
            rows = rows.filter(early | _.timestamp.isnull() if self.start == -math.inf else early)
        return rows if self.start == -math.inf else rows.filter(second >= int(self.start))


WHOLE = Span()
