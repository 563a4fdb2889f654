"""Part of a log: the impressions of some time, or of some policies."""

from __future__ import annotations

import math
from typing import NamedTuple

from ibis import _

from rankloop.logs.counter import as_text
from rankloop.logs.engines import Expression


class Span(NamedTuple):
    """The impressions from one time to another, or those of some policies.

    Attributes:
        start: seconds since 1970; impressions without a time belong to a span without a start.
        end: the first second after it.
        policies: the policies; None for all.
    """

    start: float = -math.inf
    end: float = math.inf
    policies: tuple[str, ...] | None = None

    def of(self, rows: Expression) -> Expression:
        """The rows of impressions that belong to it."""
        if self.policies is not None:
            rows = rows.filter(as_text("policy_id")["policy_id"].isin(self.policies))
        # Whole seconds: Spark has no others.
        second = _.timestamp.epoch_seconds()
        if self.end < math.inf:
            early = second < int(self.end)
            rows = rows.filter(early | _.timestamp.isnull() if self.start == -math.inf else early)
        return rows if self.start == -math.inf else rows.filter(second >= int(self.start))


WHOLE = Span()
