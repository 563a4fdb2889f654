"""Guesses of relevance as a control variate: they make the same impressions tell more about two policies.

The estimate of a value is unbiased for every guess that does not depend on the clicks of the query that it is
about. A good guess leaves less to chance: the interval becomes narrower, as if there were more impressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs import LogReader, LogStatistics
from rankloop.logs.features import read_features
from rankloop.names import parse
from rankloop.progress import Progress
from rankloop.ragged import segment_index
from rankloop.relevance import GUESSES, Calibration, cross_fit_relevance, guess_model
from rankloop.relevance.guesses import LogisticGuess
from rankloop.statistics import Statistics
from rankloop.types import Bias, Float32, Float64, Int64

# What can be asked for besides the names of guesses.
MEAN, SCORES = "mean", "scores"


@dataclass(frozen=True, eq=False)
class ScaledGuess:
    """A guess of each document's relevance that has not seen the clicks of its query.

    Attributes:
        name: what guesses.
        guesses: float64, documents.
        calibration: how well the guesses explain the clicks of the queries that are used.
    """

    name: str
    guesses: Float64
    calibration: Calibration

    @property
    def is_useful(self) -> bool:
        """Whether it explains clicks that it has not seen better than one relevance for all documents."""
        return self.calibration.gain > 0.0


def check_guess(name: str) -> None:
    """Refuse what is neither a guess by name nor one of the other words."""
    if name not in (MEAN, SCORES):
        parse(name, (MEAN, SCORES, *GUESSES), kind="guess")
        guess_model(name)


def guess_by_scores(
    scores: Sequence[Float64],
    statistics: Statistics,
    bias: Bias,
    used: NDArray[np.bool_],
    *,
    grades: Float64 | None = None,
) -> ScaledGuess:
    """Guess relevance by the scores of the policies: a logistic curve through the clicks of other queries.

    Policies that were fitted to clicks score the queries that they held out, whose clicks they do not know.
    The curve of a query is fitted to the clicks of other queries (`cross_fit_relevance`). It uses two numbers
    per policy: the mean score of the query, and how far above it the document is.

    Args:
        scores: documents, one array per policy; NaN or -inf where a policy has no score.
        statistics: of all queries of the log.
        bias: how users click.
        used: bool, queries; those that the policies are evaluated on.
        grades: documents; those of a judge, which are used as scores are; NaN where there is none.
    """
    judged = () if grades is None else (grades,)
    columns = [column for each in (*judged, *scores) for column in _columns(each, statistics.offsets)]
    features: Float32 = np.column_stack(columns).astype(np.float32)
    inside = np.repeat(used, np.diff(statistics.offsets))
    part = statistics.select(np.flatnonzero(used))
    guesses = np.zeros(len(features))
    guesses[inside], calibration = cross_fit_relevance(features[inside], part, bias, LogisticGuess())
    sources = [*(["judgments"] if judged else []), *(["the policies' scores"] if scores else [])]
    return ScaledGuess(f"logistic curve of {' and '.join(sources)}", guesses, calibration)


def guess_by_features(
    name: str, log: LogReader, found: LogStatistics, bias: Bias, *, progress: Progress | None = None
) -> ScaledGuess:
    """Guess relevance from the features of the log, by a model that is fitted to the clicks of others."""
    features = read_features(log, found)
    if not features.known.any():
        raise DataError(f"the guess {name!r} needs features, and the log has none: use {MEAN!r}")
    model = guess_model(name)
    values = np.where(features.known[:, None], features.values, np.nan).astype(np.float32)
    guesses, calibration = cross_fit_relevance(values, found.statistics, bias, model, progress=progress)
    return ScaledGuess(f"{model} on features", guesses, calibration)


def _columns(scores: Float64, offsets: Int64) -> tuple[Float64, Float64]:
    """The mean score of a document's query, and how far above it the document's score is."""
    query, count = segment_index(offsets), len(offsets) - 1
    known = np.isfinite(scores)
    sums = np.bincount(query[known], scores[known], count)
    numbers = np.bincount(query[known], minlength=count)
    # A query without any score is not one of score 0.
    means = np.divide(sums, numbers, out=np.full(count, np.nan), where=numbers > 0)
    return means[query], np.where(known, scores - means[query], np.nan)
