"""The methods of a bias estimate: which is chosen, what it gives, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rankloop.bias import BiasEstimate, BiasOptions, anchored, estimate_bias
from rankloop.clicks import bias_of, gather, users
from rankloop.errors import DataError, RankloopError
from rankloop.statistics import CellTable, Counts
from rankloop.types import Float64, Int64
from tests.bias.counts_of import counts_of, simulated

DOCUMENTS, RANKS = 300, 4


def estimate(counts: Counts, seed: int = 0, **options: Any) -> BiasEstimate:
    options = {"held_out": False, **options}
    return estimate_bias(counts, BiasOptions(**options), rng=np.random.default_rng(seed))


def recommendations(
    name: str, impressions: int, seed: int, *, sort: Float64 | None = None
) -> tuple[Counts, Int64, Int64]:
    """A log without queries: every impression is a query of its own, with four of 300 documents.

    The order is random, or by score plus noise. Also returns displays and clicks, documents × ranks.
    """
    rng = np.random.default_rng(seed)
    relevance = rng.choice(5, DOCUMENTS) / 4
    bias = bias_of(users(name))
    drawn = rng.random((impressions, DOCUMENTS)).argpartition(RANKS, axis=1)[:, :RANKS]
    if sort is not None:
        order = (-(sort[drawn] + rng.gumbel(size=drawn.shape))).argsort(axis=1)
        drawn = np.take_along_axis(drawn, order, axis=1)
    clicked = rng.random(drawn.shape) < bias.alpha * relevance[drawn] + bias.beta
    displays = np.tile(np.eye(RANKS, dtype=np.int64), (impressions, 1))
    offsets = np.arange(0, impressions * RANKS + 1, RANKS)
    part = np.ones(impressions, np.int64), displays, displays * clicked.ravel()[:, None]
    counts = Counts.of_arrays(offsets, {"a": part})
    totals = np.zeros((2, DOCUMENTS, RANKS), np.int64)
    for k in range(RANKS):
        totals[0, :, k] = np.bincount(drawn[:, k], minlength=DOCUMENTS)
        totals[1, :, k] = np.bincount(drawn[:, k], weights=clicked[:, k], minlength=DOCUMENTS)
    return replace(counts, doc_ids=drawn.ravel().astype(np.str_)), totals[0], totals[1]


def test_documents_equal_pairs_where_every_document_belongs_to_one_query() -> None:
    counts = simulated("paper@3", queries=100, impressions=20_000, seed=0)
    # Ids in another order than the documents: documents are numbered by where they first appear.
    counts = replace(counts, doc_ids=counts.doc_ids[::-1].copy())
    pairs, documents = (estimate(counts, method=name, resamples=20) for name in ("pairs", "documents"))
    assert (pairs.method, documents.method) == ("pairs", "documents")
    for name in ("alpha", "beta", "examination"):
        np.testing.assert_array_equal(getattr(pairs.bias, name), getattr(documents.bias, name))
        one, other = getattr(pairs, name), getattr(documents, name)
        np.testing.assert_array_equal(one.low, other.low)
        np.testing.assert_array_equal(one.high, other.high)
    assert pairs.notes == documents.notes


def test_counts_by_document_are_sums_over_queries() -> None:
    counts, displays, clicks = recommendations("paper@4", 500, seed=0)
    pooled = CellTable.of(counts, unit="documents")
    found = np.zeros((2, DOCUMENTS, RANKS))
    # The number of a document is the order of its first display.
    _, first = np.unique(counts.doc_ids, return_index=True)
    names = counts.doc_ids[np.sort(first)].astype(int)
    found[0, names[pooled.document_of], pooled.position] = pooled.displays
    found[1, names[pooled.document_of], pooled.position] = pooled.clicks
    np.testing.assert_array_equal(found, [displays, clicks])
    np.testing.assert_array_equal(pooled.query_impressions, displays.sum(axis=1)[names])
    # Documents of one impression stay with it; all others are resampled on their own.
    alone = displays.sum(axis=1)[names] == 1
    assert alone.any()
    assert (pooled.queries[alone] < counts.n_queries).all()
    assert len(np.unique(pooled.queries[~alone])) == (~alone).sum()


@pytest.mark.parametrize("order", ["random", "by relevance"])
def test_recommendations_are_estimated_from_documents(order: str) -> None:
    """Before, such a log was refused: no pair of query and document was shown twice.

    Four standard errors, derived from the intervals: fails in about one of 3,000 cases (6 free values).
    """
    rng = np.random.default_rng(1)
    sort = None if order == "random" else rng.choice(5, DOCUMENTS) / 2
    counts, _, _ = recommendations("paper@4", 30_000, seed=1, sort=sort)
    found = estimate(counts, resamples=40)
    assert found.method == "documents"
    assert found.notes[0].startswith("Not estimated from pairs: every document was always shown at the same")
    assert "cannot be checked whether a document is equally relevant" in found.notes[1]
    assert "equally relevant in every query" in found.assumption
    truth = anchored(bias_of(users("paper@4")))
    for name in ("alpha", "beta"):
        ends = getattr(found, name)
        error = (ends.high - ends.low) / (2 * 1.645)
        assert (np.abs(getattr(found.bias, name) - getattr(truth, name)) <= 4 * error + 1e-9).all()
        assert error.max() < 0.04


def searches(queries: int, seed: int) -> Counts:
    """A log of searches: a ranker that knows the query sorts the same three documents for every query."""
    rng = np.random.default_rng(seed)
    names = np.stack([rng.permutation(["a", "b", "c"]) for _ in range(queries)])
    # Document c is the most relevant on average, but relevance differs by query.
    relevance = 0.5 * rng.random((queries, 3)) + 0.4 * (names == "c")
    order = (-relevance).argsort(axis=1)
    relevance, names = (np.take_along_axis(part, order, axis=1).ravel() for part in (relevance, names))
    displays = np.tile(20 * np.eye(3, dtype=np.int64), (queries, 1))
    counts = counts_of(displays, rng.binomial(displays, relevance[:, None]), sizes=[3] * queries)
    return replace(counts, doc_ids=names)


def test_methods_that_share_a_reason_are_named_together() -> None:
    """The same long sentence stood there twice."""
    displays = np.tile(20 * np.eye(3, dtype=np.int64), (50, 1))
    clicks = np.random.default_rng(0).binomial(displays, 0.3)
    with pytest.raises(DataError) as refused:
        estimate(counts_of(displays, clicks, sizes=[3] * 50))
    message = str(refused.value)
    assert "Not estimated from pairs or documents: every document was always shown at the same" in message
    assert message.count("every document was always shown") == 1


def test_documents_that_are_placed_by_query_are_not_pooled() -> None:
    """Ranks are examined equally here. Pooling would claim that rank 3 is examined much less often."""
    with pytest.raises(DataError, match="is 0% of that over all queries") as refused:
        estimate(searches(500, seed=0))
    message = str(refused.value)
    assert "Not estimated from pairs: every document was always shown at the same rank" in message
    assert "Not estimated from documents: documents change rank between queries" in message
    assert "--randomised POLICY" in message
    assert "--curve paper@10" in message
    forced = estimate(searches(2000, seed=0), method="documents", model="position", resamples=0)
    assert any(note.startswith("Do not rely on this estimate") for note in forced.notes)
    assert forced.bias.examination[2] < 0.7


def randomised_counts(name: str, seed: int, queries: int = 400, impressions: int = 40_000) -> Counts:
    """A log of a random policy and one that sorts."""
    rng = np.random.default_rng(seed)
    offsets = np.arange(0, 4 * queries + 1, 4)
    relevance = rng.random(offsets[-1])
    people = users(name)
    setting = offsets, relevance, people, impressions, rng
    return gather(40 * relevance, *setting, policy="sorts") + gather(
        np.zeros(offsets[-1]), *setting, policy="random"
    )


@pytest.mark.parametrize("model", ["affine", "position"])
def test_a_randomised_policy_gives_ratios_of_click_rates(model: str) -> None:
    counts = randomised_counts("paper@3", seed=0)
    found = estimate(counts, randomised="random", model=model, resamples=20)
    displays, clicks = (getattr(counts, name)(1) for name in ("displays_of", "clicks_of"))
    by_rank = np.zeros(3)
    cells = counts.cells.select(counts.cells.policy == 1)
    np.add.at(by_rank, cells.position, cells.clicks)
    assert by_rank.sum() == clicks.sum()
    rates = by_rank / displays.sum(axis=0)
    assert found.method == "randomised"
    assert found.bias.evidence is not None
    assert found.bias.evidence.method == "randomised"
    assert "'random' was declared randomised" in found.assumption
    assert not any("Do not rely" in note for note in found.notes)
    assert found.examination is not None
    assert (found.examination.low[1:] < found.bias.examination[1:]).all()
    assert (found.bias.examination[1:] < found.examination.high[1:]).all()
    np.testing.assert_array_equal(found.bias.alpha + found.bias.beta, found.bias.examination)
    if model == "position":
        np.testing.assert_allclose(found.bias.examination, rates / rates[0], rtol=1e-8)
        assert not found.bias.beta.any()
        assert found.check is None
    else:
        # Pairs moved under this policy, so β is separated from examination. Click rates are a check.
        only = counts.of_policy("random")
        np.testing.assert_array_equal(found.bias.alpha, estimate(only, resamples=0).bias.alpha)
        assert found.check is not None
        assert found.check.unit == "queries"
        np.testing.assert_allclose(found.check.harvested, rates / rates[0], rtol=1e-8)
        # These queries have documents of every relevance, so that α and β expect nearly the same.
        np.testing.assert_allclose(found.check.expected, found.check.harvested, atol=0.02)


def test_a_policy_that_is_wrongly_called_randomised_is_contradicted() -> None:
    """The policy prefers relevant documents, so its click rates fall faster than α and β say."""
    counts = simulated("position@3", queries=250, impressions=40_000, seed=0)
    found = estimate(counts, randomised="a", resamples=20, held_out=False)
    note = next(note for note in found.notes if note.startswith("Do not rely on this estimate: on the same"))
    assert "on the same queries, rank" in note
    assert "is clicked 0." in note
    np.testing.assert_allclose(found.bias.examination, 1 / np.arange(1, 4), atol=0.05)


def test_short_lists_do_not_distort_a_randomised_policy() -> None:
    """Half of the queries show two documents and are clicked three times as often.

    The ratio of click rates over all queries at rank 3 would be 0.25; the truth is 0.5. The bound is five
    standard errors (about 0.008 each).
    """
    rng = np.random.default_rng(0)
    theta, queries = np.array([1.0, 0.75, 0.5]), 2000
    long, short = np.ones((queries, 3), np.int64) * 20, np.array([[20, 20, 0]] * queries)
    displays = np.concatenate([long, short])
    chance = np.repeat([0.2, 0.6], queries)[:, None] * theta
    counts = counts_of(displays, rng.binomial(displays, chance), sizes=[1] * 2 * queries)
    found = estimate(counts, randomised="a", model="position", resamples=0)
    np.testing.assert_allclose(found.bias.examination, theta, atol=0.04)


def test_a_randomised_policy_without_repeated_documents_has_no_trust_bias() -> None:
    """Every query comes once and documents do not repeat: α and β are not separable."""
    counts, _, _ = recommendations("position@4", 8000, seed=0)
    counts = replace(counts, doc_ids=np.arange(counts.n_documents).astype(np.str_))
    found = estimate(counts, randomised="a", resamples=40)
    assert found.model == "position"
    assert found.notes == (
        "Trust bias (β) cannot be separated from examination: too few documents moved between ranks under "
        "policy 'a'. The bias is position-based, with β = 0.",
    )
    assert found.examination is not None
    # Intervals of 90 %; four standard errors fail in one of 5,000 cases (three free values).
    error = (found.examination.high - found.examination.low) / (2 * 1.645)
    assert (np.abs(found.bias.examination - 1 / np.arange(1, 5)) <= 4 * error + 1e-9).all()
    assert found.bias.evidence is not None
    assert found.bias.evidence.resamples is not None
    assert found.bias.evidence.resamples.shape == (40, 3, 4)


def test_a_curve_is_assumed_only_on_request() -> None:
    counts = searches(500, seed=0)
    found = estimate(counts, curve="position@3(eta=2)")
    assert (found.method, found.is_estimated, found.bias.is_estimated) == ("assumed", False, False)
    np.testing.assert_array_equal(found.bias.examination, bias_of(users("position@3(eta=2)")).examination)
    assert found.headline == "Rank 3 is assumed to be examined 0.11 times as often as rank 1."
    assert found.notes[0].startswith("Not estimated from pairs")
    assert found.notes[-1].startswith("The bias is assumed, not estimated: position@3(eta=2)")
    default = estimate(counts, method="assumed")
    np.testing.assert_array_equal(default.bias.alpha, bias_of(users("paper@3")).alpha)
    # A log that can be estimated does not use the curve.
    better = estimate(
        simulated("paper@3", queries=100, impressions=20_000, seed=0), curve="paper@3", resamples=20
    )
    assert (better.method, better.bias.is_estimated) == ("pairs", True)
    assert better.headline.startswith("Rank 3 is examined ")
    assert "90% interval: 0." in better.headline


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "pair"}, "unknown method 'pair', did you mean 'pairs'"),
        ({"method": "randomised"}, "no policy was declared randomised"),
        ({"randomised": "b"}, "unknown policy 'b'"),
        ({"method": "pairs", "randomised": "a"}, "is for the method 'randomised', not 'pairs'"),
        ({"method": "pairs", "curve": "paper@3"}, "is for the method 'assumed', not 'pairs'"),
        ({"method": "assumed", "curve": "papr@3"}, "'papr@3' is not a curve"),
    ],
)
def test_wrong_methods(options: dict[str, object], message: str) -> None:
    with pytest.raises(RankloopError, match=message):
        estimate(counts_of([[1, 1]], [[1, 0]]), **options)


def test_a_randomised_policy_with_few_clicks_is_passed_over() -> None:
    """Before: `rankloop pipeline` on a hotel log with a randomised part ended in "too few clicks"."""
    rng, offsets, people = np.random.default_rng(0), np.arange(0, 401, 4), users("paper@2")
    relevance = rng.random(400)
    live, explore = (
        gather(np.zeros(400), offsets, relevance, people, impressions, rng, policy=policy)
        for policy, impressions in (("live", 30_000), ("explore", 40))
    )
    counts = live + explore
    found = estimate_bias(counts, BiasOptions(randomised="explore", resamples=0, held_out=False), rng=rng)
    assert found.method == "pairs"
    assert any(note.startswith("Not estimated from randomised: policy 'explore'") for note in found.notes)
