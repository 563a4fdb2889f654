"""Judgments of people or of a language model, read from the files that judging tools write."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from rankloop.errors import DataError
from rankloop.logs.parquet_file import PARQUET_ERRORS
from rankloop.offline.scores import DocumentIndex, DocumentScores, find_repeated
from rankloop.statistics import Counts
from rankloop.types import Float64

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
