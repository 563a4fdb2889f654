"""The page on a bias: what it says, and that it says it again."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from rankloop.bias import BiasEstimate, estimate_bias
from rankloop.reports.bias import bias_page
from tests.bias.counts_of import simulated


@pytest.fixture(scope="module")
def estimate() -> BiasEstimate:
    counts = simulated("paper@3", queries=100, impressions=20_000, seed=0)
    return estimate_bias(counts, rng=np.random.default_rng(0), resamples=20)


def test_the_numbers_and_the_verdict(estimate: BiasEstimate) -> None:
    page = bias_page(estimate)
    assert page == bias_page(estimate)
    assert estimate.alpha is not None
    for k in range(3):
        assert f"<td>{estimate.bias.alpha[k]:.4f}</td>" in page
        assert f"<td>{estimate.alpha.low[k]:.4f} – {estimate.alpha.high[k]:.4f}</td>" in page
        assert f"<td>{estimate.harvested[k]:.4f}</td>" in page
    assert "Held-out queries favour the affine model" in page
    assert "relevance 1 is always clicked at rank 1, relevance 0 never at rank 3" in page
    # Two pictures, with words for those who do not see them, and nothing from elsewhere.
    assert len(re.findall(r'<svg role="img" aria-label="[^"]+"', page)) == 2
    assert not re.search(r'(src|href)="(?!#)', page)


def test_what_every_report_must_say(estimate: BiasEstimate) -> None:
    page = bias_page(replace(estimate, notes=("No estimate below rank 3: <b>",)))
    assert '<p class="warning">No estimate below rank 3: &lt;b&gt;</p>' in page


def test_ranks_without_a_number_and_estimates_without_intervals(estimate: BiasEstimate) -> None:
    bare = replace(
        estimate,
        bias=replace(
            estimate.bias,
            **{name: getattr(estimate.bias, name)[:2] for name in ("alpha", "beta", "examination")},
        ),
        alpha=None,
        beta=None,
        resamples=0,
        comparison=None,
    )
    page = bias_page(bare)
    assert '<th scope="row">3</th><td>–</td>' in page
    assert "They were not compared." in page
    assert "<dd>none</dd>" in page
