"""Effects of contexts: exact without noise, refused without evidence, and part of a bias wherever it goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rankloop.bias import BiasOptions, estimate_bias, load_bias, save_bias
from rankloop.bias.context_effects import estimate_effects
from rankloop.errors import DataError
from rankloop.offline import open_log
from rankloop.reports.bias import bias_document
from rankloop.statistics import Counts, Exposure, Statistics
from rankloop.statistics.counts import Cells, ImpressionRows
from rankloop.types import LIST_LENGTH, OTHER, Bias, ContextEffects, Float64
from rankloop.value.contribution import Contribution


def counts_by(
    factors: Float64, alpha: Float64, contexts: tuple[str, ...], of: str, *, displays: int = 4000
) -> Counts:
    """Expected clicks, rounded, on documents that every context shows at every rank."""
    relevance = np.linspace(0.1, 0.9, 40)
    documents, ranks, count = len(relevance), len(alpha), len(contexts)
    document, rank, context = (part.ravel() for part in np.indices((documents, ranks, count)))
    chance = factors[context, rank] * alpha[rank] * relevance[document]
    shown = np.full(len(chance), displays)
    cells = Cells(
        np.zeros(len(chance), np.int32),
        document.astype(np.int32),
        rank.astype(np.int32),
        shown,
        np.rint(displays * chance).astype(np.int64),
        context.astype(np.int32),
    )
    offsets = np.arange(documents + 1)
    came = np.full((1, documents), displays * ranks * count)
    return Counts(offsets, ("a",), came, cells, ranks, context_of=of, contexts=contexts)


def test_longer_lists_are_clicked_less_at_every_position() -> None:
    factors = np.array([1.5, 1.0, 0.5])[:, None].repeat(3, axis=1)
    counts = counts_by(factors, np.array([0.6, 0.4, 0.2]), ("10", "3", "5"), LIST_LENGTH)
    found = estimate_effects(counts)
    # In the order of their lengths, not of their names.
    assert found.values == ("3", "5", "10")
    np.testing.assert_allclose(found.factors, np.array([1.0, 0.5, 1.5])[:, None].repeat(3, axis=1), rtol=1e-3)
    assert found.low is not None
    assert found.high is not None
    assert (found.low <= found.factors).all()
    assert (found.factors <= found.high).all()


def test_values_of_a_column_have_their_own_curves() -> None:
    factors = np.array([[1.2, 1.5, 1.8], [0.8, 0.5, 0.2]])
    counts = counts_by(factors, np.array([0.5, 0.4, 0.3]), ("desktop", "phone"), "device")
    found = estimate_effects(counts)
    assert found.values == ("desktop", "phone", OTHER)
    np.testing.assert_allclose(found.factors[:2], factors, rtol=1e-3)
    # What the log never had is like the mean.
    np.testing.assert_allclose(found.factors[2], 1.0)
    assert found.codes(["phone", "television", "desktop"]).tolist() == [1, 2, 0]


def test_the_curve_is_that_of_one_length() -> None:
    """Short lists have no low ranks: without effects, low ranks seem to be clicked less."""
    rng, relevance = np.random.default_rng(0), np.linspace(0.05, 0.5, 200)
    shown, clicked = np.zeros((2, 200, 4, 2))
    for document, chance in enumerate(relevance):
        for context, (length, factor) in enumerate(((2, 1.8), (4, 0.9))):
            shown[document, :length, context] = 300
            clicked[document, :length, context] = rng.binomial(300, factor * chance, length)
    where = np.nonzero(shown)
    document, rank, context = (part.astype(np.int32) for part in where)
    cells = Cells(
        np.zeros(len(document), np.int32),
        document,
        rank,
        shown[where].astype(np.int64),
        clicked[where].astype(np.int64),
        context,
    )
    came = np.full((1, 200), 1200)
    counts = Counts(np.arange(201), ("a",), came, cells, 4, context_of=LIST_LENGTH, contexts=("2", "4"))
    options = BiasOptions(resamples=20, held_out=False)
    pooled = estimate_bias(replace(counts, context_of=None), options, rng=np.random.default_rng(0))
    found = estimate_bias(counts, options, rng=np.random.default_rng(0))
    assert pooled.bias.examination[-1] < 0.8
    assert 0.9 < found.bias.examination[-1] < 1.1
    assert found.bias.contexts is not None
    assert found.notes[0].endswith("in lists of 2 as in lists of 4. This is accounted for.")


def test_without_evidence_there_is_no_effect() -> None:
    counts = counts_by(np.ones((2, 2)), np.array([0.5, 0.4]), ("2", "3"), LIST_LENGTH, displays=2)
    with pytest.raises(DataError, match="effects of list length cannot be estimated: too few clicks"):
        estimate_effects(counts)
    with pytest.raises(DataError, match="not counted by context"):
        estimate_effects(replace(counts, context_of=None))


def test_displays_count_as_often_as_users_click() -> None:
    effects = ContextEffects(LIST_LENGTH, ("2", "5"), np.array([[2.0, 2.0], [0.5, 0.5]]))
    zeros = np.zeros(3, np.int32)
    cells = Cells(
        zeros, zeros, np.array([0, 0, 1], np.int32), np.array([3, 4, 6]), zeros, np.array([0, 1, 1], np.int32)
    )
    counts = Counts(
        np.array([0, 1]), ("a",), np.array([[7]]), cells, 2, context_of=LIST_LENGTH, contexts=("2", "7")
    )
    assert counts.effective_displays(effects).tolist() == [[3 * 2.0 + 4 * 0.5, 6 * 0.5]]
    assert counts.mean_effects(effects).tolist() == [[(3 * 2.0 + 4 * 0.5) / 7, 0.5]]
    with pytest.raises(DataError, match="not counted by device"):
        counts.weights(ContextEffects("device", (OTHER,), np.ones((1, 2))))


def test_impressions_add_up_to_queries() -> None:
    """Of each query, the sum over impressions with their weights is that over effective displays."""
    bias = Bias([0.8, 0.5], [0.1, 0.0], [1.0, 0.6])
    weights, guess = np.array([2.0, 2.0, 0.5]), np.array([0.3, 0.6])
    displays, clicks = np.array([[1, 0], [1, 1]]), np.array([[1, 0], [0, 1]])
    effective = np.array([[2.0, 0.0], [0.5, 2.0]])
    exposure = Exposure(*(effective @ part / 2 for part in (bias.alpha, bias.beta, bias.examination)))
    plain = Statistics.of_policy(
        "a",
        [0, 2],
        exposure,
        impressions_by_query=[2],
        displays_by_position=displays,
        clicks_by_position=clicks,
    )
    contribution = Contribution.of(replace(plain, weighted_displays=effective), bias, guess)
    rows = ImpressionRows(
        np.array([0, 2, 3]),
        np.array([0, 0]),
        np.array([0, 1, 1]),
        np.array([0, 1, 0]),
        np.array([1.0, 1.0, 0.0]),
        weights,
    )
    lambdas = np.array([[1.0, 0.0], [0.5, 1.0]])
    by_impression, _ = contribution.by_impression(lambdas, rows, bias)
    np.testing.assert_allclose(by_impression.sum(axis=0), contribution.by_query(lambdas)[0])


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two devices, whose users look down the list to another depth."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("contexts")
    count, ranks, relevance = 6_000, 3, rng.uniform(0.1, 0.9, (20, 3))
    query, phone = rng.integers(20, size=count), rng.random(count) < 0.5
    order = rng.permuted(np.tile(np.arange(ranks), (count, 1)), axis=1)
    falls = np.where(phone[:, None], [1.0, 0.3, 0.1], [1.0, 0.9, 0.8])
    clicked = rng.random(order.shape) < relevance[query[:, None], order] * falls
    table = {
        "impression_id": np.repeat(np.arange(count), ranks),
        "timestamp": pa.nulls(count * ranks, pa.timestamp("us", tz="UTC")),
        "query_id": np.repeat(query, ranks),
        "policy_id": pa.array(["a"] * count * ranks),
        "position": np.tile(np.arange(1, ranks + 1), count),
        "doc_id": (query[:, None] * ranks + order).ravel(),
        "clicked": clicked.ravel(),
        "device": pa.array(np.where(np.repeat(phone, ranks), "phone", "desktop").tolist()),
    }
    import pyarrow.parquet as pq

    pq.write_table(pa.table(table), folder / "impressions.parquet")
    scores = "\n".join(f"{q},{q * ranks + d},{relevance[q, d]}" for q in range(20) for d in range(ranks))
    (folder.parent / "scores.csv").write_text(f"query_id,doc_id,score\n{scores}\n", encoding="utf-8")
    return folder


def test_a_bias_by_device_is_stored_shown_and_used(log_folder: Path, tmp_path: Path) -> None:
    log = open_log(log_folder)
    options = BiasOptions(resamples=20, held_out=False, context="device")
    found = log.estimate_bias(options)
    contexts = found.bias.contexts
    assert contexts is not None
    assert contexts.values == ("desktop", "phone", OTHER)
    np.testing.assert_allclose(contexts.factors[0] / contexts.factors[1], [1.0, 3.0, 8.0], rtol=0.25)
    read = load_bias(save_bias(found, tmp_path / "bias.json"))
    assert contexts.equals(read.contexts)
    assert "by device" in str(bias_document(found))
    for metric in ("dcg", "clicks"):
        value = log.evaluate(log_folder.parent / "scores.csv", "a", bias=found, metric=metric)
        assert value.decision.kind == "better"
    assert len(log.relevance(bias=found).relevance) == 60


def test_lists_of_one_length_have_no_effect_of_their_length(log_folder: Path) -> None:
    with pytest.raises(DataError, match="effects of list length cannot be estimated"):
        open_log(log_folder).estimate_bias(BiasOptions(context="length"))
    with pytest.raises(DataError, match="'browser' is not a context column; the log has device"):
        open_log(log_folder).estimate_bias(BiasOptions(context="browser"))


def test_damaged_contexts_are_refused(tmp_path: Path) -> None:
    bias = Bias(
        [0.5], [0.1], [1.0], contexts=ContextEffects(LIST_LENGTH, ("2", "5"), np.array([[1.5], [0.5]]))
    )
    path = save_bias(bias, tmp_path / "bias.json")
    for good, bad, message in (
        ('"5"', '"five"', "contexts of list lengths are whole numbers, got 2, five"),
        ("1.5", "-1.5", "must be positive"),
        ('"factors"', '"fctors"', "'contexts' must have"),
    ):
        (tmp_path / "bad.json").write_text(path.read_text().replace(good, bad))
        with pytest.raises(DataError, match=message):
            load_bias(tmp_path / "bad.json")
