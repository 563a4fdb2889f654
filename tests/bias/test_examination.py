"""Curves of one parameter: against noiseless clicks, and where clicks are too few for other estimates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankloop.bias import BiasEstimate, BiasOptions, ask_bias
from rankloop.bias.examination import PowerCurve, fit_curve, power
from rankloop.errors import DataError
from rankloop.offline.comparison import BIAS, assumptions_of
from rankloop.statistics import CellTable, Counts
from rankloop.types import Float64
from tests.bias.counts_of import counts_of, expected

ETA = 0.55


def randomised(rng: np.random.Generator, searches: int, *, ranks: int = 10, eta: float = ETA) -> Counts:
    """Searches that came a few times each, with their documents in random order."""
    relevance = rng.beta(1.0, 4.0, (searches, ranks))
    came = rng.integers(1, 6, searches)
    shown, clicked = np.zeros((2, searches * ranks, ranks), np.int64)
    for query in np.repeat(np.arange(searches), came):
        order = rng.permutation(ranks)
        hit = rng.random(ranks) < power(np.arange(ranks), eta) * relevance[query, order]
        shown[query * ranks + order, np.arange(ranks)] += 1
        clicked[query * ranks + order, np.arange(ranks)] += hit
    return Counts.of_arrays(np.arange(0, searches * ranks + 1, ranks), {"random": (came, shown, clicked)})


def asked(counts: Counts, **options: object) -> BiasEstimate:
    chosen = BiasOptions(held_out=False, resamples=40, **options)  # type: ignore[arg-type]  # by name
    return ask_bias(counts, chosen, rng=np.random.default_rng(0)).require()


def test_noiseless_clicks_give_eta_however_relevant_documents_are(rng: np.random.Generator) -> None:
    displays = rng.integers(1, 50, (30, 6)).astype(np.float64)
    table = expected(displays, rng.random(30), power(np.arange(6), 0.8), np.zeros(6))
    curve = fit_curve(table)
    assert curve.eta == pytest.approx(0.8, abs=1e-8)
    # Clicks on documents of one rank alone say nothing.
    assert fit_curve(table.first_positions(1)) == PowerCurve(0.0, np.inf, 0.0)
    # The lower ranks alone have the same η, from fewer clicks.
    lower = fit_curve(table, first=3)
    assert lower.eta == pytest.approx(0.8, abs=1e-8)
    assert 0.0 < lower.clicks < curve.clicks


def test_the_standard_error_is_the_spread_over_logs() -> None:
    """Of 200 logs; the spread itself is known to within 5 %."""
    curves = [
        fit_curve(CellTable.of(randomised(np.random.default_rng(seed), 60), unit="queries"))
        for seed in range(200)
    ]
    etas, errors = (np.array([getattr(curve, name) for curve in curves]) for name in ("eta", "error"))
    assert etas.mean() == pytest.approx(ETA, abs=0.03)
    assert errors.mean() == pytest.approx(etas.std(), rel=0.2)


def test_a_randomised_log_of_few_searches_gives_a_curve_and_no_refusal(rng: np.random.Generator) -> None:
    found = asked(randomised(rng, 134), randomised="random")
    assert (found.method, found.model) == ("randomised", "curve")
    assert found.bias.positions == 10
    assert not found.bias.beta.any()
    assert found.examination is not None
    assert (found.examination.low[1:] < power(np.arange(1, 10), ETA)).all()
    assert (power(np.arange(1, 10), ETA) < found.examination.high[1:]).all()
    assert "η = " in found.notes[-1]
    # Its form was assumed: decisions lean.
    (bias,) = (
        one for one in assumptions_of(bias_estimated=True, explores=True, curve=True) if one.name == BIAS
    )
    assert (bias.state, bias.remedy) == ("broken", "Collect more clicks on varied rankings.")


def test_hardly_any_clicks_are_refused_with_the_number_needed() -> None:
    few = randomised(np.random.default_rng(1), 6)
    with pytest.raises(DataError, match="too few even for a curve of one parameter: 50 are needed"):
        asked(few, randomised="random")
    with pytest.raises(DataError, match="too few even for a curve"):
        asked(few, model="curve", method="pairs")


def test_pairs_that_moved_give_a_curve_if_it_is_asked_for(rng: np.random.Generator) -> None:
    counts = randomised(rng, 40)
    found = asked(counts, model="curve")
    assert (found.method, found.model) == ("pairs", "curve")
    assert found.bias.examination[-1] == pytest.approx(10.0**-ETA, abs=0.15)


def lower_ranks_hardly_move(rng: np.random.Generator, eta: float) -> tuple[Counts, Float64]:
    """Two ranks vary; at two more, few impressions have another order."""
    queries, ranks, often, rarely = 60, 4, 400, 2
    theta = power(np.arange(ranks), eta)
    shown = np.zeros((queries, ranks, ranks), np.int64)
    shown[:, [0, 0, 1, 1], [0, 1, 0, 1]] = often
    shown[:, [2, 3], [2, 3]] = 2 * often
    shown[:, [0, 2, 1, 3], [2, 0, 3, 1]] = rarely
    relevance = rng.choice([0.1, 0.4, 0.7, 1.0], (queries, ranks, 1))
    clicked = rng.binomial(shown, relevance * theta)
    flat = (queries * ranks, ranks)
    return counts_of(shown.reshape(flat), clicked.reshape(flat), sizes=[ranks] * queries), theta


def test_ranks_with_few_clicks_go_on_as_the_curve_above_them(rng: np.random.Generator) -> None:
    counts, theta = lower_ranks_hardly_move(rng, 0.7)
    found = asked(counts, model="position")
    assert found.movement.positions == 2
    assert found.bias.positions == 4
    (note,) = (note for note in found.notes if "fall as k^−η" in note)
    assert note.startswith("Ranks 3 to 4 have too few clicks for estimates of their own.")
    assert not any(text.startswith("No estimate") for text in found.notes)
    assert found.alpha is not None
    assert (found.alpha.low[2:] < theta[2:]).all()
    assert (theta[2:] < found.alpha.high[2:]).all()
    # The ranks below are less certain.
    width = (found.alpha.high - found.alpha.low) / found.bias.alpha
    assert (width[2:] > width[1]).all()
    assert found.resampled is not None
    assert found.resampled.alpha.shape == (40, 4)


def test_a_randomised_policy_that_shows_one_document_at_a_time(rng: np.random.Generator) -> None:
    """As a bandit does: each impression is a query of its own."""
    shown = 6_000
    document, rank = rng.integers(0, 20, shown), rng.integers(0, 3, shown)
    clicked = rng.random(shown) < (0.1 + 0.02 * document) * power(rank, ETA)
    displays, clicks = np.zeros((2, shown, 3), np.int64)
    displays[np.arange(shown), rank] = 1
    clicks[np.arange(shown), rank] = clicked
    counts = Counts.of_arrays(np.arange(shown + 1), {"random": (np.ones(shown, np.int64), displays, clicks)})
    named = replace(counts, doc_ids=document.astype(np.str_))
    found = asked(named, randomised="random")
    assert found.method == "randomised"
    assert found.bias.examination == pytest.approx(power(np.arange(3), ETA), abs=0.12)
