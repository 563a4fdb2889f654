"""Guesses of relevance as a control variate: they make the same impressions tell more about two policies.

The estimate of a value is unbiased for every guess that does not depend on the clicks of the query that it is
about. A good guess leaves less to chance: the interval becomes narrower, as if there were more impressions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.logs import LogReader, LogStatistics
from rankloop.logs.features import read_features
from rankloop.logs.schema import PARQUET_ERRORS
from rankloop.names import parse
from rankloop.offline.scores import DocumentIndex, DocumentScores, find_repeated
from rankloop.progress import Progress
from rankloop.ragged import segment_index
from rankloop.relevance import GUESSES, Calibration, cross_fit_relevance, guess_model
from rankloop.relevance.guesses import LogisticGuess
from rankloop.statistics import Counts, Statistics
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
    columns = [column for each in (*judged, *scores) for column in _means_and_rest(each, statistics.offsets)]
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
    guesses, calibration = cross_fit_relevance(
        values, found.statistics, bias, model, categorical=features.categorical, progress=progress
    )
    return ScaledGuess(f"{model} on features", guesses, calibration)


def _means_and_rest(scores: Float64, offsets: Int64) -> tuple[Float64, Float64]:
    """The mean score of a document's query, and how far above it the document's score is."""
    query, count = segment_index(offsets), len(offsets) - 1
    known = np.isfinite(scores)
    sums = np.bincount(query[known], scores[known], count)
    numbers = np.bincount(query[known], minlength=count)
    # A query without any score is not one of score 0.
    means = np.divide(sums, numbers, out=np.full(count, np.nan), where=numbers > 0)
    return means[query], np.where(known, scores - means[query], np.nan)


# The columns of a table, by the names that tools give them.
QUERY = ("query_id", "query", "qid")
DOCUMENT = ("doc_id", "docid", "docId", "document", "doc")
GRADE = ("grade", "rating", "score", "label", "relevance", "judgment")
QRELS_COLUMNS = 4
QRELS_ENDINGS = (".qrels", ".txt")


def read_judgments(path: str | os.PathLike[str]) -> DocumentScores:
    """Read judgments: a grade per query and document.

    CSV, TSV and Parquet have a column each (query_id, doc_id, grade; Quepid's query, docid, rating are known,
    too); qrels (``.qrels``, ``.txt``) have lines ``query 0 document grade``; JSON is that of OpenSearch's
    Search Relevance Workbench (``judgmentRatings``).

    Raises:
        DataError: the file cannot be read, lacks a column, or has a pair twice or a grade that is no number.
    """
    place = Path(path)
    try:
        if place.name.endswith(".json"):
            rows = _read_workbench(place)
        elif place.name.endswith(QRELS_ENDINGS):
            rows = _read_qrels(place)
        else:
            rows = _read_table(place)
    except (*PARQUET_ERRORS, UnicodeDecodeError) as error:
        raise DataError(f"{place}: the judgments cannot be read ({error})") from error
    query_ids, doc_ids, grades = rows
    if not len(grades):
        raise DataError(f"{place}: there are no judgments")
    if query_ids.null_count or doc_ids.null_count:
        raise DataError(f"{place}: a row has no query or no document; every judgment needs both")
    bad = np.flatnonzero(~np.isfinite(grades))
    if len(bad):
        raise DataError(f"{place}: row {bad[0] + 1} has no grade that is a number ({len(bad)} in total)")
    repeated = find_repeated(query_ids, doc_ids)
    if repeated is not None:
        raise DataError(
            f"{place}: row {repeated + 1} judges document {doc_ids[repeated].as_py()!r} of query "
            f"{query_ids[repeated].as_py()!r} again: average the judges of a pair first"
        )
    return DocumentScores(query_ids, doc_ids, grades)


def grades_of(path: str | os.PathLike[str], counts: Counts) -> Float64:
    """The grade of every document of a log; NaN where there is none.

    Raises:
        DataError: none of the judged pairs is in the log.
    """
    judged = read_judgments(path)
    documents = DocumentIndex(counts).documents(judged.query_ids, judged.doc_ids)
    inside = documents >= 0
    if not inside.any():
        raise DataError(
            f"{path}: none of the {len(documents):,} judged pairs of query and document is in the log: it "
            f"has queries such as {judged.query_ids[0].as_py()!r}, the log such as "
            f"{str(counts.query_ids[0])!r}: "
            "queries and documents need the ids of the log"
        )
    grades = np.full(counts.n_documents, np.nan)
    grades[documents[inside]] = judged.scores[inside]
    return grades


def _read_table(path: Path) -> tuple[pa.Array, pa.Array, Float64]:
    if path.name.endswith(".parquet"):
        table = pyarrow.parquet.read_table(path)
    else:
        text = dict.fromkeys((*QUERY, *DOCUMENT), pa.string())
        table = pyarrow.csv.read_csv(
            path.absolute(),
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if path.name.endswith(".tsv") else ","),
            convert_options=pyarrow.csv.ConvertOptions(column_types=text),
        )
    names = []
    for what, known in (("query", QUERY), ("document", DOCUMENT), ("grade", GRADE)):
        name = next((name for name in known if name in table.column_names), None)
        if name is None:
            raise DataError(
                f"{path}: no column has the {what}: it is called {', '.join(known)}; the columns are "
                f"{', '.join(table.column_names)}"
            )
        names.append(name)
    ids = [table[name].cast(pa.string()).combine_chunks() for name in names[:2]]
    try:
        grades = table[names[2]].cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid as error:
        raise DataError(f"{path}: the column {names[2]} must have numbers ({error})") from error
    return ids[0], ids[1], np.asarray(grades, np.float64)


def _read_qrels(path: Path) -> tuple[pa.Array, pa.Array, Float64]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fields = line.split()
        if not fields:
            continue
        try:
            if len(fields) != QRELS_COLUMNS:
                raise ValueError
            rows.append((fields[0], fields[2], float(fields[3])))
        except ValueError:
            raise DataError(
                f"{path}, line {number}: a line of qrels is 'query 0 document grade', got "
                f"{line.strip()[:100]!r}"
            ) from None
    return _columns(rows)


def _read_workbench(path: Path) -> tuple[pa.Array, pa.Array, Float64]:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            (str(query["query"]), str(rating["docId"]), float(rating["rating"]))
            for query in content["judgmentRatings"]
            for rating in query["ratings"]
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"{path}: not judgments of the Search Relevance Workbench, "
            '{"judgmentRatings": [{"query": …, "ratings": [{"docId": …, "rating": …}]}]} '
            f"({type(error).__name__}: {error})"
        ) from error
    return _columns(rows)


def _columns(rows: list[tuple[str, str, float]]) -> tuple[pa.Array, pa.Array, Float64]:
    queries, documents, grades = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.array(queries, pa.string()), pa.array(documents, pa.string()), np.array(grades, np.float64)
