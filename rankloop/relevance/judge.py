"""What the grades of a judge are worth in relevance, as clicks tell it: does it agree with the users?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankloop.statistics import CellTable
from rankloop.statistics.intervals import student_quantile
from rankloop.types import Bias, Float64

LEVEL = 0.9
# More different grades than this are put into so many groups.
ROWS = 10
# Fewer queries have no interval that means anything.
FEWEST_QUERIES = 10


@dataclass(frozen=True)
class GradeRow:
    """Documents of one grade, or of similar ones.

    Attributes:
        grade: their mean grade.
        documents: how many of them were shown.
        displays: how often.
        relevance: their mean relevance, by clicks that are corrected for bias; noise may take it below 0.
    """

    grade: float
    documents: int
    displays: int
    relevance: float


@dataclass(frozen=True)
class JudgeAgreement:
    """How far a judge agrees with the users.

    Attributes:
        slope: how much more relevant a document is that has one grade more than others of its query.
        low: the lower end of its 90 % interval; None with fewer than two queries.
        high: the upper end.
        queries: how many queries have shown documents of different grades.
        documents: how many shown documents are judged.
        judged: how many documents of the log are judged, shown or not.
        rows: relevance by grade.
    """

    slope: float
    low: float | None
    high: float | None
    queries: int
    documents: int
    judged: int
    rows: tuple[GradeRow, ...]

    @property
    def state(self) -> Literal["agrees", "contradicts", "unknown"]:
        """Whether documents of higher grades are more relevant to the users."""
        if self.low is None or self.high is None or self.queries < FEWEST_QUERIES:
            return "unknown"
        return "agrees" if self.low > 0.0 else "contradicts" if self.high < 0.0 else "unknown"

    @property
    def sentence(self) -> str:
        """The same in words."""
        basis = f"by clicks on {self.documents:,} judged documents"
        if self.low is None or self.high is None or self.queries < FEWEST_QUERIES:
            return (
                f"Only {self.queries} queries have shown documents of different grades: too few to say "
                "whether the judge agrees with the users."
            )
        worth = (
            f"within a query, one grade more is worth {self.slope:+.3f} of relevance ({self.low:+.3f} to "
            f"{self.high:+.3f}, {LEVEL:.0%} interval), {basis} of {self.queries:,} queries."
        )
        start = {
            "agrees": "The judge agrees with the users",
            "contradicts": "The judge contradicts the users",
            "unknown": "Clicks do not tell whether the judge agrees with the users",
        }[self.state]
        return f"{start}: {worth}"


def judge_agreement(grades: Float64, cells: CellTable, bias: Bias) -> JudgeAgreement:
    """Compare grades with clicks, within queries.

        b = Σ_d (g_d − ḡ_q) U_d / Σ_d A_d (g_d − ḡ_q)²,    A_d = Σ_k n_dk α_k,    U_d = C_d − Σ_k n_dk β_k

    ḡ_q is the mean grade of the query's documents, weighted with A: what all documents of a query have in
    common does not count. Queries are independent, which gives the interval.

    Args:
        grades: documents of the table; NaN where there is none.
        cells: their displays and clicks.
        bias: how users click.

    Example:
        >>> cells = CellTable.of_cells([0, 1, 2], [0, 0], [10, 10], [2, 8], [0, 0])
        >>> found = judge_agreement(np.array([1.0, 3.0]), cells, Bias([1.0], [0.0], [1.0]))
        >>> round(found.slope, 6), found.state  # 0.6 of relevance for two grades, and a single query
        (0.3, 'unknown')
    """
    judged = int(np.isfinite(grades).sum())
    which = np.flatnonzero(np.isfinite(grades) & (np.diff(cells.starts) > 0))
    shown, g = cells.select(which), grades[which]
    seen = shown.by_document(shown.displays * bias.alpha[shown.position])
    clicks = shown.by_document(shown.clicks - shown.displays * bias.beta[shown.position])
    total = np.maximum(shown.by_query(seen), np.finfo(np.float64).tiny)
    centred = g - (shown.by_query(seen * g) / total)[shown.queries]
    information = shown.by_query(seen * centred**2)
    several = information > 0.0
    slope = float(shown.by_query(centred * clicks)[several].sum() / max(information.sum(), 1e-300))
    residuals = shown.by_query(centred * (clicks - slope * seen * centred))
    queries = int(several.sum())
    low = high = None
    if queries > 1:
        error = float(np.sqrt((residuals**2).sum())) / float(information.sum())
        half = student_quantile(queries - 1, 0.5 - 0.5 * LEVEL) * error
        low, high = slope - half, slope + half
    displays = shown.by_document(shown.displays)
    rows = []
    for group in _groups(g):
        inside = np.flatnonzero(group)
        relevance = float(clicks[inside].sum() / max(seen[inside].sum(), 1e-300))
        rows.append(
            GradeRow(float(g[inside].mean()), len(inside), round(float(displays[inside].sum())), relevance)
        )
    return JudgeAgreement(slope, low, high, queries, len(which), judged, tuple(rows))


def _groups(grades: Float64) -> list[NDArray[np.bool_]]:
    """Which documents have each grade; groups of similar grades, if there are many."""
    values = np.unique(grades)
    if len(values) <= ROWS:
        return [grades == value for value in values]
    edges = np.unique(np.quantile(grades, np.linspace(0.0, 1.0, ROWS + 1)))
    group = np.searchsorted(edges[1:-1], grades, side="right")
    return [group == number for number in range(len(edges) - 1)]
