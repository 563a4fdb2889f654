"""Prediction of another log: examples by hand, and a real log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rankloop.bias import perplexity
from rankloop.errors import DataError
from rankloop.logs import Columns, import_columns
from rankloop.offline import open_log
from tests.bias.counts_of import counts_of, simulated


def bits(clicks: float, displays: float, chance: float) -> float:
    return -(clicks * np.log2(chance) + (displays - clicks) * np.log2(1 - chance))


def test_baselines_by_hand() -> None:
    train = counts_of([[1000, 500], [500, 1000]], [[400, 100], [100, 200]])
    test = counts_of([[10, 0], [0, 20], [5, 0]], [[6, 0], [0, 5], [1, 0]])
    found = perplexity(train, test)
    ranks = 500 / 1500, 300 / 1500
    assert found.by_rank["rank"][0] == pytest.approx(2 ** (bits(7, 15, ranks[0]) / 15))
    assert found.by_rank["rank"][1] == pytest.approx(2 ** (bits(5, 20, ranks[1]) / 20))
    overall = 800 / 3000
    first, second = (500 + overall) / 1501, (300 + overall) / 1501
    # The third document is unseen and gets the click rate of the log.
    known = bits(6, 10, first) + bits(1, 5, overall)
    assert found.by_rank["document"][0] == pytest.approx(2 ** (known / 15))
    total = (known + bits(5, 20, second)) / 35
    assert found.overall["document"] == pytest.approx(2**total)
    assert found.displays.tolist() == [15.0, 20.0]
    assert found.unseen == pytest.approx(5 / 35)


def test_the_affine_model_predicts_users_with_trust_bias_best() -> None:
    """With one seed; the differences far exceed the noise."""
    train = simulated("paper@3", queries=150, impressions=30_000, seed=0)
    test = simulated("paper@3", queries=150, impressions=30_000, seed=0)
    found = perplexity(train, test)
    assert found.overall["affine"] < found.overall["position"] < found.overall["rank"]
    assert found.overall["affine"] < found.overall["document"]
    assert found.unseen == 0.0


def test_logs_without_common_documents_are_rejected() -> None:
    train = simulated("paper@3", queries=50, impressions=10_000, seed=0)
    other = replace(train, query_ids=np.char.add("other ", train.query_ids))
    with pytest.raises(DataError, match="no document of a query in common"):
        perplexity(train, other)


def test_a_real_log(real_data: Path, tmp_path: Path) -> None:
    """The last column of the table of docs/results/bias.md."""
    columns = Columns.parse(
        "impression_id=impression_id, query_id=query_id, position=position, doc_id=doc_id, clicked=clicked, "
        "timestamp=-"
    )
    counts = {}
    for split in ("train", "test"):
        source = real_data / "clicks-yandex" / "impressions.csv.gz"
        import_columns(source, tmp_path / split, columns=columns, policy="production", only={"split": split})
        counts[split] = open_log(tmp_path / split).count()
    found = perplexity(counts["train"], counts["test"])
    expected = {"affine": 1.4223, "position": 1.4223, "rank": 1.4704, "document": 1.4313}
    assert {model: found.overall[model] for model in expected} == pytest.approx(expected, abs=2e-4)
    assert (found.by_rank["affine"] < found.by_rank["rank"]).all()
    assert (found.by_rank["affine"] < found.by_rank["document"]).all()
