"""The report on a log."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from rankloop.logs import write_simulated
from rankloop.offline import LogCheck, open_log
from rankloop.reports.check import MOST_DRAWN, check_document
from rankloop.reports.html import html_page
from tests.logs.logs_of import Row, simulated, write_rows

SECOND = 10**6


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> LogCheck:
    split, gathered = simulated()
    return open_log(write_simulated(tmp_path_factory.mktemp("logs") / "my<log>", split, gathered)).check()


def test_the_page_says_what_the_check_found(found: LogCheck) -> None:
    page = html_page(check_document(found))
    assert f"{found.impressions:,} impressions of {found.queries:,} queries by 2 policies" in page
    assert "my&lt;log&gt;" in page
    assert "<log>" not in page
    # In the order of time, whatever their names.
    assert re.findall(r'<th scope="row">([az])</th>', page) == ["z", "a"]
    assert re.findall(r'scope="col"><span>([az])</span></th>', page) == ["z", "a"]
    assert page.count("<figure>") == 3 + len(re.findall(r"drift", page)[:1])
    rates = ", ".join(f"{rate:.3f}" for rate in found.policies[0].click_rate_by_position if rate is not None)
    assert f"z: {rates}; a: " in page
    assert "Problems of the log: none found." in page
    # The decision comes first, and the next step last.
    assert page.index(found.summary) < page.index("impressions of") < page.index("Next step")
    assert html.escape(str(found.command)) in page
    assert not re.search(r'(src|href)="(?!#)', page)


def test_the_same_log_gives_the_same_page(found: LogCheck) -> None:
    assert html_page(check_document(found)) == html_page(check_document(found))


def test_warnings_and_problems_are_on_the_page(tmp_path: Path) -> None:
    rows = [Row(i, "q", "fixed", 1, "<x>", False, i * SECOND) for i in range(3)]
    page = html_page(check_document(open_log(write_rows(tmp_path / "log", [*rows, rows[0]])).check()))
    assert '<p class="warning">policy &#x27;fixed&#x27; does not explore' in page
    assert "rows that repeat the impression, position and document of another" in page
    assert "doc &#x27;&lt;x&gt;&#x27;" in page
    # Without candidates there is no support to draw.
    assert page.count("<figure>") == 2


def test_a_log_without_times_has_no_picture_of_them(tmp_path: Path) -> None:
    log = write_rows(tmp_path / "log", [Row("i", "q", "a", 1, "x", True)])
    page = html_page(check_document(open_log(log).check()))
    assert page.count("<figure>") == 1
    assert "The log has no timestamps" in page


def test_of_many_policies_the_largest_are_drawn(tmp_path: Path) -> None:
    rows = [
        Row(f"{policy}-{i}", "q", f"p{policy}", 1, "x", False, (10 * policy + i) * SECOND)
        for policy in range(9)
        for i in range(1 + policy)
    ]
    page = html_page(check_document(open_log(write_rows(tmp_path / "log", rows)).check()))
    assert "The figures show the 6 policies with the most impressions." in page
    drawn = re.findall(r"</svg>(p\d)</li>", page)
    assert drawn == [f"p{policy}" for policy in range(9 - MOST_DRAWN, 9)]
    for place in (r'<th scope="row">p\d</th>', r'scope="col"><span>p\d</span></th>'):
        assert len(re.findall(place, page)) == 9
    assert "a terminal shows the 3 policies with the most impressions, a page all" in page


@pytest.mark.parametrize("hours", [0.02, 3, 60, 90, 24 * 130, 24 * 1000])
def test_dates_fit_on_the_axis_whatever_the_length_of_the_log(tmp_path: Path, hours: float) -> None:
    """Matplotlib warns where it finds no interval between dates; warnings are errors here."""
    times = [int(share * hours * 3600 * SECOND) for share in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)]
    rows = [Row(i, "q", "a", 1, "x", False, time) for i, time in enumerate(times)]
    page = html_page(check_document(open_log(write_rows(tmp_path / "log", rows)).check()))
    assert "Impressions over time" in page
