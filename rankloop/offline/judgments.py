"""Relevance as judgments, in the files of tools that evaluate search."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankloop.errors import DataError, RankloopError
from rankloop.types import Float64

# `rankloop relevance --grades`: relevance 1 is this grade.
HIGHEST_GRADE = 4
OPENSEARCH_NAME = "rankloop"


class Judgment(NamedTuple):
    """The grade of a document for a query, a real number."""

    query: str
    document: str
    grade: float


def qrels(judgments: Iterable[Judgment]) -> str:
    r"""TREC qrels, ``query 0 document grade`` with whole grades, as ``trec_eval`` and ir_measures read them.

    >>> qrels([Judgment("q1", "d7", 2.8)])
    'q1 0 d7 3\n'

    Raises:
        DataError: an id contains white space, which separates columns.
    """
    rows = list(judgments)
    for name, ids in (("query", [row.query for row in rows]), ("document", [row.document for row in rows])):
        check_trec_ids(name, pa.array(ids, pa.string()), "judgments for OpenSearch or Quepid")
    return "".join(f"{query} 0 {document} {round(grade)}\n" for query, document, grade in rows)


def quepid(judgments: Iterable[Judgment]) -> str:
    r"""A table of ratings that Quepid imports: ``query,docid,rating``, with whole ratings.

    >>> quepid([Judgment("red shoes", "d7", 2.8)])
    'query,docid,rating\nred shoes,d7,3\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("query", "docid", "rating"))
    writer.writerows((query, document, round(grade)) for query, document, grade in judgments)
    return text.getvalue()


def opensearch(judgments: Iterable[Judgment]) -> str:
    """The body of a request that imports judgments into OpenSearch's Search Relevance Workbench.

    ``PUT _plugins/_search_relevance/judgments``; judgments of a query follow each other.

    >>> json.loads(opensearch([Judgment("red shoes", "d7", 2.8)]))["judgmentRatings"]
    [{'query': 'red shoes', 'ratings': [{'docId': 'd7', 'rating': '2.800'}]}]
    """
    ratings = [
        {"query": query, "ratings": [{"docId": row.document, "rating": f"{row.grade:.3f}"} for row in rows]}
        for query, rows in groupby(judgments, key=lambda row: row.query)
    ]
    about = {
        "name": OPENSEARCH_NAME,
        "description": "Relevance estimated from clicks, corrected for position and trust bias",
        "type": "IMPORT_JUDGMENT",
    }
    return json.dumps({**about, "judgmentRatings": ratings}, ensure_ascii=False, indent=1) + "\n"


FORMS = {"qrels": qrels, "opensearch": opensearch, "quepid": quepid}
# By how the name of a file ends.
ENDINGS = {".qrels": "qrels", ".json": "opensearch"}


def grade(queries: pa.Array, documents: pa.Array, values: Float64, highest: int) -> Iterator[Judgment]:
    """Judgments from values between 0 and 1, which is the highest grade; values outside are cut off."""
    if highest < 1:
        raise RankloopError(f"the highest grade is at least 1, got {highest}")
    grades = (highest * np.clip(values, 0.0, 1.0)).tolist()
    return map(Judgment, queries.to_pylist(), documents.to_pylist(), grades)


def write_judgments(form: str, judgments: Iterable[Judgment]) -> str:
    """Judgments as ``qrels``, ``opensearch`` or ``quepid``."""
    if form not in FORMS:
        raise RankloopError(f"judgments are {', '.join(FORMS)}, not {form!r}")
    return FORMS[form](judgments)


def check_trec_ids(name: str, ids: pa.Array, others: str) -> None:
    """Refuse ids that TREC's files, whose columns are separated by white space, cannot hold.

    Args:
        name: what the ids belong to.
        ids: text.
        others: the formats that can hold them.
    """
    bad = pc.index(pc.match_substring_regex(ids, r"\s|^$"), True).as_py()
    if bad >= 0:
        raise DataError(
            f"the id of {name} {ids[bad].as_py()!r} is empty or contains white space, which files of TREC "
            f"cannot hold: write {others}, or give ids without white space"
        )
