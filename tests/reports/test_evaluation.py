"""The report on a comparison: everything that decides is on it, and the same value gives the same bytes."""

from __future__ import annotations

import re
from dataclasses import replace

from rankloop.offline import RankingExample
from rankloop.reports.evaluation import evaluation_document
from rankloop.reports.html import html_page
from tests.offline.test_comparison import comparison


def test_the_page_says_all_that_decides() -> None:
    found = comparison(0.2, 0.1, unseen=0.05)
    page = html_page(evaluation_document(found))
    assert page.startswith("<!DOCTYPE html>")
    for words in ("new is better than old.", "a note", "0.2000, from 0.1000 to 0.3000", "3.00%", "1,000"):
        assert words in page
    assert len(re.findall(r'<svg role="img"', page)) == 2
    # It needs nothing from anywhere else.
    assert not re.search(r'(src|href)="http', page)


def test_the_last_words_are_the_next_step() -> None:
    steps = {
        kind: re.findall(r"<h2[^>]*>Next step</h2>\s*<p>([^<]*)</p>", html_page(evaluation_document(found)))
        for kind, found in (("better", comparison(0.2, 0.1)), ("worse", comparison(-0.2, 0.1)))
    }
    assert steps == {
        "better": ["Compare new with old in an A/B test before it serves everyone."],
        "worse": ["Keep old. More clicks, or features that say more about documents, may help."],
    }


def test_the_same_comparison_is_the_same_page() -> None:
    found = comparison(-0.2, 0.3)
    assert html_page(evaluation_document(found)) == html_page(evaluation_document(comparison(-0.2, 0.3)))
    assert html_page(evaluation_document(found)) != html_page(evaluation_document(comparison(-0.2, 0.31)))


def test_names_are_text_and_not_markup() -> None:
    found = comparison(0.2, 0.1)
    page = html_page(evaluation_document(replace(found, new=replace(found.new, name="<script>"))))
    assert "<script>" not in page
    assert "&lt;script&gt; is better than old." in page


def test_the_page_begins_with_the_interval_and_a_ranking_before_and_after() -> None:
    example = RankingExample("boots", 9, before=("a", "b"), after=("b", "c"))
    page = html_page(evaluation_document(replace(comparison(0.2, 0.1), example=example)))
    assert page.index('<svg role="img"') < page.index("Query &#x27;boots&#x27;") < page.index("a note")
    for cell in ("↑ 1", "from below"):
        assert cell in page
