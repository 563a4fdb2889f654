"""A fitted policy goes out to every engine, and files of other programs come in as policies."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop.errors import DataError, ModelFileError
from rankloop.exchange import ExportError
from rankloop.models import LightGBMModel
from rankloop.models.lightgbm import boost
from rankloop.offline import Fit, Log, rank
from tests.offline.test_model_inputs import NAMES, QUICK, TREES, columns_of, imported

FORMATS = (
    "opensearch",
    "opensearch(format=ranklib)",
    "elasticsearch",
    "solr",
    "vespa",
    "xgboost",
    "lightgbm",
)
# Sums of five leaves, which are float32 in the files.
CLOSE = 1e-6


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return imported(tmp_path_factory.mktemp("export") / "log", columns_of())


@pytest.fixture(scope="module")
def trees(log: Log) -> Fit:
    return log.fit(TREES, bias="paper@3", learning=QUICK, judge="split")


@pytest.mark.parametrize("to", FORMATS)
def test_an_exported_policy_ranks_as_the_fit_does(log: Log, trees: Fit, to: str, tmp_path: Path) -> None:
    path = trees.export(to, name="shop").save(tmp_path / "model")[0]
    here, there = log.rank(trees), log.rank(path)
    np.testing.assert_allclose(here.scores, there.scores, atol=CLOSE)
    assert here.doc_ids.equals(there.doc_ids)
    one, other = (
        log.evaluate(policy, "production", bias="paper@3", queries="all") for policy in (trees, path)
    )
    assert one.difference.estimate.value == pytest.approx(other.difference.estimate.value, abs=CLOSE)


def test_a_fit_to_missing_values_of_both_signs_is_read_by_every_command(tmp_path: Path) -> None:
    """Before: `fit` wrote a split of missing against present as ``threshold=inf``, and others refused it."""
    columns = columns_of()
    rng = np.random.default_rng(0)
    for name in NAMES:
        columns[name] = [None if rng.random() < 0.5 else value for value in columns[name]]
    holey = imported(tmp_path / "holey", columns)
    features = np.column_stack([np.array(columns[name], np.float32) for name in NAMES])
    target = np.isnan(features) @ [3.0, -2.0, 1.0]
    grown = boost(features, lambda scores: (target - scores, np.ones(len(target))), rounds=5)
    assert re.search(r"^threshold=(.* )?inf( |$)", grown.text, re.MULTILINE)
    fit = replace(holey.fit(TREES, bias="paper@3", learning=QUICK), model=LightGBMModel(grown.text, NAMES))
    policy = fit.save(tmp_path / "policy")
    assert rankloop.load_fit(policy).model.fingerprint == fit.model.fingerprint
    expected = holey.rank(fit).tsv()
    assert holey.rank(policy).tsv() == expected
    assert rankloop.evaluate(holey, policy, "production").queries == len(fit.held_out_queries)
    for to in ("opensearch", "solr", "vespa", "xgboost", "lightgbm"):
        path = rankloop.export(policy, to).save(tmp_path / to / "model")[0]
        there = holey.rank(path)
        np.testing.assert_allclose(there.scores, holey.rank(fit).scores, atol=CLOSE)


def test_onnx_ranks_as_the_fit_does(log: Log, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason='onnxruntime is not installed: pip install "rankloop[export]"')
    columns = columns_of()
    columns["stock"][::5] = [None] * len(columns["stock"][::5])
    holey = imported(tmp_path / "holey", columns)
    for model, source in ((TREES, holey), ("mlp", holey), ("linear", log)):
        fit = source.fit(model, bias="paper@3", learning=QUICK, missing="mean")
        path = fit.export("onnx").save(tmp_path / "model.onnx")[0]
        assert getattr(rankloop.load(path), "feature_names", None) == NAMES
        np.testing.assert_allclose(source.rank(fit).scores, source.rank(path).scores, atol=1e-5)


def test_paths_and_models_are_exported_as_fits_are(trees: Fit, tmp_path: Path) -> None:
    trees.save(tmp_path / "policy")
    expected = trees.export("opensearch").model
    for policy in (trees, tmp_path / "policy", trees.model, tmp_path / "policy" / "model.rankloop"):
        assert rankloop.export(policy, "opensearch").model == expected
    with pytest.raises(ModelFileError, match="cannot read the model"):
        rankloop.export(tmp_path / "nowhere", "solr")


def test_what_replaces_missing_values_goes_along_or_the_export_is_refused(tmp_path: Path) -> None:
    columns = columns_of()
    columns["stock"][::3] = [None] * len(columns["stock"][::3])
    holey = imported(tmp_path / "holey", columns)
    means, zeros = (
        holey.fit("linear", bias="paper@3", learning=QUICK, missing=how) for how in ("mean", "zero")
    )
    with pytest.raises(ExportError, match="replaced by their means"):
        means.export("opensearch")
    assert zeros.export("opensearch").model
    trees = holey.fit(TREES, bias="paper@3", learning=QUICK)
    with pytest.raises(ExportError, match="fitted to missing values"):
        trees.export("elasticsearch")


def test_a_file_may_use_fewer_features_than_the_log_has(log: Log, tmp_path: Path) -> None:
    weights = {
        "model": {"name": "m", "model": {"type": "model/linear", "definition": '{"stock": 2, "price": -1}'}}
    }
    (tmp_path / "linear.json").write_text(json.dumps(weights))
    ranked = log.rank(tmp_path / "linear.json")
    columns = columns_of()
    by_pair = dict(zip(zip(columns["query_id"], columns["doc_id"], strict=True), range(1000), strict=False))
    rows = [
        by_pair[pair] for pair in zip(ranked.query_ids.to_pylist(), ranked.doc_ids.to_pylist(), strict=True)
    ]
    expected = 2 * np.array(columns["stock"])[rows] - np.array(columns["price"])[rows]
    np.testing.assert_allclose(ranked.scores, expected, atol=1e-5)
    assert ranked.notes == ("1 of 3 features are not used by the policy linear.json.",)
    (tmp_path / "linear.json").write_text(json.dumps(weights).replace("price", "prise"))
    with pytest.raises(DataError, match=r"1 missing: 'prise' \(is it 'price'\?\)"):
        log.rank(tmp_path / "linear.json")


def ranklib(feature: int) -> str:
    leaves = "".join(
        f'<split pos="{side}"><output>{value}</output></split>' for side, value in (("left", 1), ("right", 2))
    )
    split = f"<split><feature>{feature}</feature><threshold>0</threshold>{leaves}</split>"
    return f'## LambdaMART\n<ensemble><tree id="1" weight="1">{split}</tree></ensemble>'


def test_a_file_without_names_is_matched_by_order_and_says_so(log: Log, tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(ranklib(3))
    ranked = log.rank(tmp_path / "m.txt")
    assert ranked.notes[0].startswith(
        "Features are matched by their order, not by name, because the policy m.txt"
    )
    (tmp_path / "m.txt").write_text(ranklib(2))
    with pytest.raises(DataError, match=r"3 features, but the policy m\.txt takes 2"):
        log.rank(tmp_path / "m.txt")


def test_tables_of_features_are_ranked_by_files_of_other_programs(trees: Fit, tmp_path: Path) -> None:
    columns: dict[str, Any] = columns_of()
    turned = {name: columns[name] for name in ("stock", "doc_id", "price", "query_id", "list age")}
    pq.write_table(pa.table(turned), tmp_path / "f.parquet")
    path = trees.export("xgboost").save(tmp_path / "model.json")[0]
    np.testing.assert_allclose(
        rank(path, tmp_path / "f.parquet").scores, rank(trees, tmp_path / "f.parquet").scores, atol=CLOSE
    )
