"""Searches with known content, to be written in many formats."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.logs import ImportReport
from tests.logs.importers.reading import rows_of

NOON = 1_714_564_800
SHOWN = 4


class Search:
    """A search of a session, what it showed, and which positions were clicked."""

    def __init__(self, number: int, rng: np.random.Generator) -> None:
        self.number, self.session = number, f"s{number // 2}"
        # Every third session searches for the same thing twice.
        query = number // 2 * 2 if number // 2 % 3 == 0 else number
        self.query, self.time = f"query {query % 14}", NOON + 120 * number
        self.documents = [f"d{number % 14}x{one}" for one in rng.permutation(8)[:SHOWN]]
        self.clicks = [int(rng.random() < 0.4) for _ in range(SHOWN)]

    @property
    def clicked(self) -> list[str]:
        return [document for document, mark in zip(self.documents, self.clicks, strict=True) if mark]

    def rows(self) -> list[tuple[int, str, int]]:
        return list(zip(range(1, SHOWN + 1), self.documents, self.clicks, strict=True))


RNG = np.random.default_rng(0)
SEARCHES = [Search(number, RNG) for number in range(40)]
CLICKED = [search for search in SEARCHES if search.clicked]
EXPECTED = sorted((*row[:2], bool(row[2])) for search in SEARCHES for row in search.rows())
QUERIES = {document: search.query for search in SEARCHES for document in search.documents}
ONLY_ROWS = ("impression_id", "ts", "q", "item", "pos", "was_clicked")


def content(report: ImportReport) -> list[tuple[int, str, bool]]:
    return sorted((row["position"], row["doc_id"], row["clicked"]) for row in rows_of(report.log))


def table(path: Path, header: list[str] | None, rows: list[list[Any]], delimiter: str = ",") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerows([*([] if header is None else [header]), *rows])
    return path


def flat() -> list[list[Any]]:
    return [
        [f"r{search.number}", search.time, search.query, document, position, mark]
        for search in SEARCHES
        for position, document, mark in search.rows()
    ]
