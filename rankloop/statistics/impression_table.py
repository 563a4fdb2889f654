"""Impressions with what they have in common: policy, time, unit, list length and context columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from rankloop.errors import DataError
from rankloop.statistics.tables import ImpressionRows
from rankloop.types import Float64, Int64


@dataclass(frozen=True, eq=False)
class ImpressionTable:
    """Rows of impressions, and one value per impression of everything that is not about a document.

    Attributes:
        rows: what was shown and clicked; the rows of an impression are ordered by position.
        policy: int64, impressions; the number of the policy.
        unit: int64, impressions; the number of the user, or another one for each impression.
        length: int64, impressions; how many documents the list had.
        time: float64, impressions; seconds since 1970, NaN where the time is unknown; None for a log without
            times.
        columns: by name, int64, impressions; the number of the value of a context column.
        policy_ids: the names of the policies, in the order of their first impressions.
        values: by the name of a context column, the names of its values.
        unit_name: what a unit is: ``user``, ``session`` or ``impression``.
        share: the share of the rows of the log that the table has.
        numbers: int64, documents; their numbers in the counts of the log. None if they are numbered as these,
            or if a document is the same one in all queries.
    """

    rows: ImpressionRows
    policy: Int64
    unit: Int64
    length: Int64
    time: Float64 | None = None
    columns: Mapping[str, Int64] = field(default_factory=dict)
    policy_ids: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit_name: str = "impression"
    share: float = 1.0
    numbers: Int64 | None = None

    def __post_init__(self) -> None:
        sizes = {len(self.policy), len(self.unit), len(self.length), *map(len, self.columns.values())}
        if self.time is not None:
            sizes.add(len(self.time))
        if sizes != {len(self.rows)}:
            raise DataError(f"every impression needs one value: {len(self.rows)} impressions, got {sizes}")
        if not self.policy_ids:
            count = int(self.policy.max(initial=-1)) + 1
            object.__setattr__(self, "policy_ids", tuple(f"{number}" for number in range(count)))

    @classmethod
    def of_lists(
        cls,
        documents: ArrayLike,
        clicked: ArrayLike,
        *,
        query: ArrayLike,
        policy: ArrayLike | None = None,
        unit: ArrayLike | None = None,
        time: ArrayLike | None = None,
        columns: Mapping[str, Int64] | None = None,
    ) -> Self:
        """A table of lists: impressions × positions.

        Args:
            documents: int, impressions × positions; numbers over all queries, -1 where nothing is shown.
            clicked: bool, impressions × positions.
            query: int, impressions.
            policy: int, impressions; None for one policy.
            unit: int, impressions; None if the units are the impressions.
            time: seconds, impressions; None for none.
            columns: context columns, each with the number of a value per impression.

        Example:
            >>> table = ImpressionTable.of_lists([[4, 7], [7, -1]], [[1, 0], [0, 0]], query=[0, 0])
            >>> table.length, table.rows.document, table.rows.amount
            (array([2, 1]), array([4, 7, 7]), array([1., 0., 0.]))
        """
        lists = np.asarray(documents, np.int64)
        shown = lists >= 0
        length = shown.sum(axis=1)
        offsets = np.append(0, np.cumsum(length)).astype(np.int64)
        count = len(lists)
        rows = ImpressionRows(
            offsets,
            np.asarray(query, np.int64),
            lists[shown],
            np.nonzero(shown)[1].astype(np.int64),
            np.asarray(clicked)[shown].astype(np.float64),
        )
        return cls(
            rows,
            np.zeros(count, np.int64) if policy is None else np.asarray(policy, np.int64),
            np.arange(count) if unit is None else np.asarray(unit, np.int64),
            length.astype(np.int64),
            None if time is None else np.asarray(time, np.float64),
            columns or {},
            unit_name="impression" if unit is None else "user",
        )
