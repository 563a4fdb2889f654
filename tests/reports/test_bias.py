"""The report on a bias."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from rankloop.bias import BiasEstimate, BiasOptions, estimate_bias
from rankloop.reports.bias import bias_document
from rankloop.reports.html import html_page
from tests.bias.counts_of import simulated


@pytest.fixture(scope="module")
def estimate() -> BiasEstimate:
    counts = simulated("paper@3", queries=100, impressions=20_000, seed=0)
    return estimate_bias(counts, BiasOptions(resamples=20), rng=np.random.default_rng(0))


def test_the_numbers_and_the_decision(estimate: BiasEstimate) -> None:
    page = html_page(bias_document(estimate))
    assert page == html_page(bias_document(estimate))
    assert estimate.alpha is not None
    assert estimate.examination is not None
    assert estimate.check is not None
    for k in range(3):
        assert f"<td>{estimate.bias.alpha[k]:.3f}</td>" in page
        assert f"<td>{estimate.alpha.low[k]:.3f} – {estimate.alpha.high[k]:.3f}</td>" in page
        assert f"<td>{estimate.examination.low[k]:.3f} – {estimate.examination.high[k]:.3f}</td>" in page
        assert f"<td>{estimate.check.harvested[k]:.3f}</td><td>{estimate.check.expected[k]:.3f}</td>" in page
    assert "Held-out queries favour the affine model" in page
    assert "relevance 1 is always clicked at rank 1, relevance 0 never at rank 3" in page
    # Two pictures, with words for those who do not see them, and nothing from elsewhere.
    assert len(re.findall(r'<svg role="img" aria-label="[^"]+"', page)) == 2
    assert not re.search(r'(src|href)="(?!#)', page)


def test_the_page_starts_with_a_plain_sentence_and_the_method(estimate: BiasEstimate) -> None:
    page = html_page(bias_document(estimate))
    first, second = re.findall(r"<p>([^<]*)</p>", page)[:2]
    assert re.fullmatch(
        r"Rank 3 is examined .* as often as rank 1 \(90% interval: 0\.\d\d to 0\.\d\d times\)\.", first
    )
    assert second.startswith(
        "Estimated from pairs of query and document that moved between ranks. Assumption:"
    )


def test_an_assumed_curve_is_called_that() -> None:
    counts = simulated("paper@3", queries=100, impressions=2_000, seed=0)
    found = estimate_bias(counts, BiasOptions("assumed", curve="position@3"), rng=np.random.default_rng(0))
    page = html_page(bias_document(found))
    assert "Rank 3 is assumed to be examined a third as often as rank 1." in page
    assert "Nothing was estimated." in page
    assert "--sensitivity" in page[page.index("Next step") :]
    assert '<p class="warning">The bias is assumed, not estimated: position@3.' in page


def test_what_every_report_must_say(estimate: BiasEstimate) -> None:
    page = html_page(bias_document(replace(estimate, notes=("No numbers below rank 3: <b>",))))
    assert '<p class="warning">No numbers below rank 3: &lt;b&gt;</p>' in page


def test_ranks_without_a_number_and_estimates_without_intervals(estimate: BiasEstimate) -> None:
    bare = replace(
        estimate,
        bias=replace(
            estimate.bias,
            **{name: getattr(estimate.bias, name)[:2] for name in ("alpha", "beta", "examination")},
        ),
        alpha=None,
        beta=None,
        examination=None,
        resamples=0,
        comparison=None,
    )
    page = html_page(bias_document(bare))
    assert '<th scope="row">3</th><td>–</td>' in page
    assert "The two models were not compared." in page
    assert "<dd>none</dd>" in page
