"""The section on the self-test of a log."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.self_test_table import by_moments, table_of
from rankloop.evidence.self_test import SelfTest, finding_of, self_test, summary_of
from rankloop.reports.document import Document
from rankloop.reports.html import html_page
from rankloop.reports.self_test import self_test_section
from rankloop.statistics.counts import ImpressionTable
from tests.reports.shown import shown


def result_of(world: str, impressions: int = 10_000) -> SelfTest:
    table = table_of(world, np.random.default_rng(3), impressions)
    return self_test(table, by_moments(table))


def page(found: SelfTest) -> str:
    return html_page(Document("a log", "A log", (self_test_section(found),)))


@pytest.mark.parametrize(
    ("world", "test", "text"),
    [
        ("demand +15 %", "drift by policy", "The same document at the same position was clicked "),
        ("clicks lost at one rank", "drift between halves", "The same document at position 3 was clicked "),
        ("weekends", "drift by weekday", "Clicks vary by weekday: "),
        ("cascade", "order", "Clicks depend on what stands above (−"),
        (
            "different lengths",
            "length",
            "In longer lists the same document at the same position is clicked less",
        ),
        ("one pick per list", "set", "beside more attractive ones, a document is clicked less"),
        ("curves by device", "column device", "Users of different device have different position curves"),
        ("curves by unknown attribute", "hidden contexts", "Queries have different position curves"),
    ],
)
def test_what_was_found_is_said_in_a_sentence_and_drawn(world: str, test: str, text: str) -> None:
    found = result_of(world)
    finding = finding_of(found.test(test))
    assert text in finding.text
    assert finding.remedy.endswith(".")
    section = page(found)
    assert "an assumption does not hold" in section
    assert '<p class="warning">' in section
    # Hidden contexts have no picture: their effect has no direction.
    assert ("<svg" in section) == (world != "curves by unknown attribute")


def test_a_sound_log_says_what_would_have_been_seen() -> None:
    found = result_of("affine")
    assert summary_of(found).startswith("Self-test: nothing found; a change of click rates above ")
    text = shown(Document("a log", "A log", (self_test_section(found),)), width=200)
    assert "not tested: all lists have the same length" in text
    assert page(found) == page(found)


def test_a_log_that_cannot_be_tested() -> None:
    lists = np.tile([0, 1], (500, 1))
    found = self_test(ImpressionTable.of_lists(lists, lists == 0, query=np.zeros(500)))
    assert summary_of(found).startswith("Self-test: nothing could be tested")
    assert "<svg" not in page(found)
