"""Logs whose clicks tell nothing are refused, and logs that lack something have no firm decision."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError
from rankloop.logs.sanity import lacks_unclicked, only_clicked_impressions
from rankloop.offline import Log, open_log
from tests.logs.logs_of import Row, write_rows

RANKS = 4
Clicks = Callable[[int, np.random.Generator], bool]


def log_of(folder: Path, clicked: Clicks, *, queries: int = 8, impressions: int = 160) -> Log:
    """Documents in random order, clicked as given by their ranks."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(impressions):
        shown = rng.permutation(RANKS)
        marks = [clicked(rank, rng) for rank in range(RANKS)]
        query = f"q{number % queries}"
        rows += [
            Row(f"i{number}", query, "production", rank + 1, f"d{shown[rank]}", marks[rank])
            for rank in range(RANKS)
        ]
    return open_log(write_rows(folder / "log", rows))


def scores(folder: Path, log: Log) -> Path:
    """A policy that prefers documents by their names."""
    ids = [(query, f"d{one}", float(one)) for query in log.count().query_ids for one in range(RANKS)]
    columns = dict(zip(("query_id", "doc_id", "score"), zip(*ids, strict=True), strict=True))
    pq.write_table(
        pa.table({name: list(values) for name, values in columns.items()}), folder / "scores.parquet"
    )
    return folder / "scores.parquet"


@pytest.mark.parametrize(
    ("clicked", "reason"),
    [
        (lambda _, __: False, "the log has no clicks"),
        (lambda _, __: True, "100.0% of the rows of the log are clicked"),
        (lambda rank, rng: rank == 0 and rng.random() < 0.5, "clicks of the log are at position 1"),
    ],
)
def test_clicks_that_tell_nothing(tmp_path: Path, clicked: Clicks, reason: str) -> None:
    """Before, a policy leaned better on a log without clicks, and the reverse of a good one where all is."""
    log = log_of(tmp_path, clicked, impressions=600)
    policy = scores(tmp_path, log)
    with pytest.raises(DataError, match=reason):
        log.evaluate(policy, against="production", bias="position@4(eta=1)")
    with pytest.raises(DataError, match=reason):
        log.relevance(bias="position@4(eta=1)")
    assert log.check().summary == "Nothing should be learned from this log as it is."


def test_one_query_has_an_interval_and_no_firm_decision(tmp_path: Path) -> None:
    """Before, the interval had no width, so that any difference decided."""
    log = log_of(tmp_path, lambda rank, rng: bool(rng.random() < 0.5 / (rank + 1)), queries=1)
    result = log.evaluate(scores(tmp_path, log), against="production", bias="position@4(eta=1)")
    gain = result.difference.estimate
    assert (gain.low, gain.high) == (gain.same_low, gain.same_high)
    assert gain.low < gain.value < gain.high
    assert not result.holds("queries")
    assert "one query does not tell" in result.conclusion


def test_impressions_without_a_click_are_missed(tmp_path: Path) -> None:
    """Before, `check` warned, and the decision of `evaluate` was firm."""
    usual = log_of(tmp_path / "usual", lambda _, rng: bool(rng.random() < 0.25))
    table = pq.read_table(usual.folder / "impressions.parquet").to_pylist()
    clicked = {row["impression_id"] for row in table if row["clicked"]}
    rows = [Row(**row) for row in table if row["impression_id"] in clicked]
    lacking = open_log(write_rows(tmp_path / "lacking", rows))
    assert not only_clicked_impressions(usual, usual.count())
    assert only_clicked_impressions(lacking, lacking.count())
    result = lacking.evaluate(scores(tmp_path, lacking), against="production", bias="position@4(eta=1)")
    assert not result.holds("complete")


def test_what_click_rates_predict_by_hand() -> None:
    totals = {"impressions": 200, "rows": 400, "single": 0, "unclicked": 0}
    assert lacks_unclicked(totals, np.array([0.5, 0.5])) == 0.25
    assert lacks_unclicked({**totals, "unclicked": 40}, np.array([0.5, 0.5])) is None
    assert lacks_unclicked(totals, np.array([0.9, 0.9])) is None
