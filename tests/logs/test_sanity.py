"""What every engineer would notice in a log, and what the log can teach."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.bias.estimate import REMEDY
from rankloop.errors import DataError
from rankloop.logs import Columns, import_columns
from rankloop.offline import LogCheck, open_log
from rankloop.statistics.intervals import wilson
from tests.logs.logs_of import Row, write_rows

SECOND, HOUR = 10**6, 3_600 * 10**6


def usual(impressions: int = 300, step: int = 60 * SECOND) -> list[Row]:
    """Documents in random order, clicked at random; one impression per minute."""
    rng = np.random.default_rng(0)
    return [
        Row(f"i{number}", f"q{number % 40}", "a", place + 1, f"d{doc}", rng.random() < 0.3, number * step)
        for number in range(impressions)
        for place, doc in enumerate(rng.permutation(6)[:4])
    ]  # fmt: skip


def checked(folder: Path, rows: list[Row], **columns: list[str]) -> LogCheck:
    write_rows(folder, rows)
    if columns:
        path = folder / "impressions.parquet"
        table = pq.read_table(path)
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values))
        pq.write_table(table, path)
    return open_log(folder).check()


def codes(found: LogCheck) -> set[str]:
    return {warning.code for warning in found.warnings} - {"no_candidates", "no_timestamps"}


def test_a_usual_log_is_not_suspicious(tmp_path: Path) -> None:
    found = checked(tmp_path / "log", usual())
    assert codes(found) == set()
    # Clicks do not depend on the document, so they do not tell how users click.
    assert found.summary == (
        "This log can teach how relevant each document is and what a ranker is worth only in part; it cannot "
        "teach how users click or a ranker."
    )
    assert found.command is not None
    assert (found.sanity.gaps.leading, found.sanity.gaps.inner, found.sanity.gaps.short) == (0, 0, 0)


def test_only_clicked_rows_were_logged(tmp_path: Path) -> None:
    """Before: a log whose click rate is 1.0, overall or below rank 10, was checked without a word."""
    clicked = [row._replace(clicked=True) for row in usual()]
    found = checked(tmp_path / "all", clicked)
    assert found.warnings[0].code == "only_clicked_rows"
    assert found.warnings[0].startswith("100.0% of all rows are clicked: it seems that only clicked rows")
    assert found.summary == "Nothing should be learned from this log as it is."
    assert found.command is None
    deep = [
        *usual(),
        *(Row(f"i{n}", f"q{n % 40}", "a", 11 + n % 3, "deep", True, n * SECOND) for n in range(30)),
    ]
    found = checked(tmp_path / "deep", deep)
    assert "only_clicked_rows_below" in codes(found)
    (warning,) = (text for text in found.warnings if text.code == "only_clicked_rows_below")
    assert warning.startswith("From position 11 on, 100.0% of the 30 rows are clicked")


def test_impressions_without_a_click_are_missing(tmp_path: Path) -> None:
    """Before: published logs that keep only impressions with a click were checked without a word."""
    clicked = {row.impression_id for row in usual(900) if row.clicked}
    found = checked(tmp_path / "log", [row for row in usual(900) if row.impression_id in clicked])
    assert codes(found) == {"only_clicked_impressions", "looks_randomised"}
    (warning,) = (text for text in found.warnings if text.code == "only_clicked_impressions")
    assert warning.startswith(f"0 of {len(clicked)} impressions have no click, but click rates predict")


def test_a_log_without_clicks(tmp_path: Path) -> None:
    """Before: a click rate of 0 everywhere was a row of zeros in a table."""
    found = checked(tmp_path / "log", [row._replace(clicked=False) for row in usual()])
    assert found.warnings[0].code == "no_clicks"
    assert {use.answer for use in found.answers} == {"no"}


def test_robots_are_noticed_by_query_and_by_client(tmp_path: Path) -> None:
    """Before: clients that click everything or never stop were counted like all others."""
    robot = [
        Row(f"r{n}", "robot", "a", place + 1, f"d{place}", True, n * 60 * SECOND)
        for n in range(30)
        for place in range(4)
    ]
    found = checked(tmp_path / "query", [*usual(), *robot])
    assert codes(found) == {"robots_click_everything"}
    assert "1 queries look like robots: 'robot' (30 impressions)" in " ".join(found.warnings)
    rows = usual(impressions=1_500)
    clients = [
        "tireless" if int(str(row.impression_id)[1:]) % 3 == 0 else f"c{row.impression_id}" for row in rows
    ]
    found = checked(tmp_path / "client", rows, client_id=clients)
    # So many impressions show, too, that this log is in random order.
    assert codes(found) == {"looks_randomised", "robots_never_stop"}
    assert "1 clients look like robots: 'tireless'" in " ".join(found.warnings)
    burst = [Row(f"b{n}", "burst", "a", 1 + n % 2, "x", n % 3 == 0, n * SECOND) for n in range(800)]
    found = checked(tmp_path / "burst", [*usual(impressions=8_000), *burst])
    assert "robots_never_stop" in codes(found)


def test_sessions_that_were_taken_for_impressions(tmp_path: Path) -> None:
    """Before: two problems in a table, and the log was used as it is."""
    rows = [row._replace(impression_id=f"s{int(str(row.impression_id)[1:]) // 5}") for row in usual()]
    found = checked(tmp_path / "log", rows)
    assert found.warnings[0].code == "sessions_as_impressions"
    assert "60 of 60 impressions have several queries" in found.warnings[0]
    assert found.command is None


def test_gaps_are_counted_and_explained(tmp_path: Path) -> None:
    """Before: "impressions whose positions are not 1, 2, 3 … without a gap", whatever the kind of gap."""
    rows = usual()
    lead = [row for row in rows if not (row.impression_id in {"i1", "i2"} and row.position == 1)]
    inner = [row for row in lead if not (row.impression_id == "i3" and row.position == 2)]
    short = [row for row in inner if not (row.impression_id in {"i4", "i5", "i6"} and row.position == 4)]
    found = checked(tmp_path / "log", short)
    gaps = found.sanity.gaps
    assert (gaps.impressions, gaps.leading, gaps.inner, gaps.short) == (300, 2, 1, 3)
    assert gaps.patterns[0] == ("3 rows from position 2 to 4", 2)
    assert codes(found) == {"gaps"}
    hole = checked(tmp_path / "hole", [row for row in rows if row.position != 3])
    assert codes(hole) == {"gaps", "holes"}
    assert "at rank 3" in " ".join(hole.warnings)


def test_long_times_without_impressions(tmp_path: Path) -> None:
    """Before: a chart on the page, and nothing in the terminal."""
    late = [row._replace(timestamp=row.timestamp + 100 * HOUR * (int(str(row.impression_id)[1:]) > 150))
            for row in usual() if row.timestamp is not None]  # fmt: skip
    found = checked(tmp_path / "log", late)
    assert codes(found) == {"clock_gaps"}
    (gap,) = found.sanity.clock_gaps
    assert gap.length.total_seconds() == 100 * 3_600 + 60
    assert json.loads(json.dumps(found.to_dict()))["clock_gaps"][0][0] == "1970-01-01T02:30:00+00:00"


def test_impressions_that_were_logged_twice(tmp_path: Path) -> None:
    """Before: rows that repeat under the same id were found, impressions under another id were not."""
    again = [row._replace(impression_id=f"x{row.impression_id}") for row in usual()[:80]]
    found = checked(tmp_path / "log", [*usual(), *again])
    assert codes(found) == {"copied_impressions"}
    # Times at midnight may be days.
    assert "19 impressions look exactly like another one" in " ".join(found.warnings)


def test_positions_that_never_change(tmp_path: Path) -> None:
    """Before: one rank in a table."""
    rows = [Row(f"i{n}", f"q{n % 9}", "a", 1, f"d{n % 5}", n % 3 == 0, n * SECOND) for n in range(60)]
    assert checked(tmp_path / "log", rows).warnings[0].code == "one_position"
    single = [row._replace(position=1 + n % 3) for n, row in enumerate(rows)]
    assert "single_rows" in codes(checked(tmp_path / "single", single))


@pytest.mark.parametrize(
    ("moves", "method"), [("pairs", "pairs"), ("documents", "documents"), ("nothing", None)]
)
def test_a_check_says_where_a_bias_comes_from(tmp_path: Path, moves: str, method: str | None) -> None:
    """Before: `check` did not say what could be learned; `bias` refused with "too little movement"."""
    rng = np.random.default_rng(1)
    rows = []
    for number in range(1_000):
        query = {"pairs": number % 5, "documents": number, "nothing": number % 5}[moves]
        order = np.arange(3) if moves == "nothing" else rng.permutation(3)
        for place, doc in enumerate(order):
            name = f"{query}-{doc}" if moves == "nothing" else f"d{doc}"
            rows.append(
                Row(
                    f"i{number}",
                    f"q{query}",
                    "a",
                    place + 1,
                    name,
                    bool(rng.random() < (0.2, 0.4, 0.8)[doc]),
                    number * SECOND,
                )
            )
    found = checked(tmp_path / "log", rows)
    assert found.bias.to_dict()["method"] == method
    assert found.answer("fit").answer == "no"
    assert found.answer("bias").answer == ("no" if method is None else "yes")
    assert found.answer("relevance").needs_bias == (method is None)
    if method is None:
        with pytest.raises(DataError, match=re.escape(found.answer("bias").text)):
            open_log(tmp_path / "log").estimate_bias()
        assert found.next_step == REMEDY


def test_wilson_by_hand() -> None:
    """The ends solve (p − share)² = z² p (1 − p) / n."""
    z = 1.6448536269514722
    for clicks, shown in ((3, 10), (0, 5), (7, 7)):
        for end in wilson(clicks, shown):
            if 0 < end < 1:
                assert (end - clicks / shown) ** 2 == pytest.approx(z * z * end * (1 - end) / shown)


def test_a_real_log_with_gaps(real_data: Path, tmp_path: Path) -> None:
    """CLARA 2: 86 impressions skip a position, because the import left repeated documents out."""
    report = import_columns(
        real_data / "clicks-clara2" / "impressions.csv.gz",
        tmp_path / "log",
        columns=Columns.parse("timestamp=-, policy_id=-"),
        policy="production",
    )
    found = open_log(report.log).check()
    assert (found.sanity.gaps.leading, found.sanity.gaps.inner) == (0, 86)
    assert codes(found) == {"gaps"}
    assert found.bias.to_dict()["method"] == "pairs"


@pytest.mark.parametrize(("ordered", "expected"), [(True, True), (False, False)])
def test_documents_in_the_order_of_their_ids(tmp_path: Path, ordered: bool, expected: bool) -> None:
    """Outbrain: rows are sorted by their ids. As text, 9 would come after 10."""
    rng = np.random.default_rng(0)
    rows = []
    for number in range(120):
        shown = rng.choice(2_000, size=4, replace=False)
        shown = np.sort(shown) if ordered else shown
        rows += [
            Row(f"i{number}", f"q{number}", "p", at, int(one), bool(rng.random() < 0.2))
            for at, one in enumerate(shown, 1)
        ]
    found = open_log(write_rows(tmp_path / "log", rows)).check()
    assert ("ordered_by_id" in {warning.code for warning in found.warnings}) == expected


def test_long_lists_are_not_sessions(tmp_path: Path) -> None:
    """Before, 200 rows were said to be those of a session, although each has a position of its own."""
    rows = [Row(f"i{one}", f"q{one}", "p", at, f"d{at * 7 % 251}", at % 9 == 0) for one in range(3)
            for at in range(1, 251)]  # fmt: skip
    found = open_log(write_rows(tmp_path / "log", rows)).check()
    assert "sessions_as_impressions" not in {warning.code for warning in found.warnings}


def by_rank(impressions: int, rates: list[float], clients: int = 0) -> tuple[list[Row], list[str]]:
    """Documents in random order, clicked with a rate per position; the client of every row."""
    rng = np.random.default_rng(1)
    rows, names = [], []
    for number in range(impressions):
        for place, document in enumerate(rng.permutation(8)[: len(rates)]):
            clicked = bool(rng.random() < rates[place])
            rows.append(Row(f"i{number}", f"q{number % 40}", "a", place + 1, f"d{document}", clicked))
            names.append(f"c{number % clients}" if clients else "")
    return rows, names


@pytest.mark.parametrize(
    ("rates", "code", "position"),
    [
        ([0.5, 0.35, 0.3, 0.25], None, None),
        ([0.3, 0.3, 0.3, 0.3], None, None),
        ([0.0, 0.5, 0.35, 0.3], "clicks_one_row_off", 1),
        ([0.5, 0.45, 0.28, 0.4], "lost_clicks", 3),
        ([0.25, 0.45, 0.4, 0.35], "lost_clicks", 1),
    ],
)
def test_positions_that_lost_clicks(
    tmp_path: Path, rates: list[float], code: str | None, position: int | None
) -> None:
    found = checked(tmp_path / "log", by_rank(1_500, rates)[0])
    assert codes(found) - {"looks_randomised"} == ({code} if code else set())
    if code:
        assert f"osition {position}" in next(text for text in found.warnings if text.code == code)


@pytest.mark.parametrize("robots", [0, 30])
def test_clients_that_click_most_are_a_group(tmp_path: Path, robots: int) -> None:
    """Each saw 30 rows, too few for one of them to stand out."""
    rows, clients = by_rank(1_200, [0.4, 0.3, 0.25], clients=120)
    rng = np.random.default_rng(2)
    named = [f"c{number}" for number in range(robots)]
    rows = [
        row._replace(clicked=bool(rng.random() < 0.85)) if client in named else row
        for row, client in zip(rows, clients, strict=True)
    ]
    found = checked(tmp_path / "log", rows, user_id=clients)
    assert ("robots_click_most" in codes(found)) == (robots > 0)


def test_clicks_before_their_impressions(tmp_path: Path) -> None:
    write_rows(tmp_path / "log", usual())
    for count, early in ((200, True), (10, False)):
        problem = {"name": "early_clicks", "count": count, "what": "", "done": "", "left_out": 0}
        (tmp_path / "log" / "import.json").write_text(json.dumps({"problems": [problem]}))
        assert ("early_clicks" in codes(open_log(tmp_path / "log").check())) == early
