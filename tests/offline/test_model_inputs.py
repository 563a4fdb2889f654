"""Features by name, from the table into the log, the model and the rankings; missing values and documents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop.errors import DataError
from rankloop.logs import Columns, ImportOptions, import_columns
from rankloop.offline import Log, open_log, rank
from rankloop.training import learning_named

QUERIES, DOCS = [f"red shoes {number}" for number in range(12)], [f"d{number}" for number in range(6)]
NAMES = ("price", "list age", "stock")
QUICK = learning_named("robust")
TREES = "lightgbm(min_documents=2, rounds=5)"


def columns_of(seed: int = 0, **changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    pairs = [(query, document) for query in QUERIES for document in DOCS]
    values = {name: rng.normal(size=len(pairs)).tolist() for name in NAMES}
    return {"query_id": [q for q, _ in pairs], "doc_id": [d for _, d in pairs], **values, **changes}


def impressions(path: Path) -> Path:
    rng = np.random.default_rng(1)
    lines = ["session,query,rank,doc,clicked"]
    for number in range(240):
        query = QUERIES[number % len(QUERIES)]
        for place, document in enumerate(rng.permutation(DOCS)[:3], 1):
            lines.append(f"s{number},{query},{place},{document},{int(rng.random() < 0.6 / place)}")
    path.write_text("\n".join(lines) + "\n")
    return path


def imported(folder: Path, *features: dict[str, Any]) -> Log:
    """A log imported with tables of features."""
    folder.mkdir()
    tables = []
    for number, columns in enumerate(features):
        tables.append(folder / f"features{number}.parquet")
        pq.write_table(pa.table(columns), tables[-1])
    report = import_columns(
        impressions(folder / "impressions.csv"),
        folder / "log",
        columns=Columns.parse(
            "impression_id=session, query_id=query, position=rank, doc_id=doc, timestamp=-, policy_id=-"
        ),
        policy="production",
        options=ImportOptions(features=tables),
    )
    return open_log(report.log)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return imported(tmp_path_factory.mktemp("named") / "all", columns_of())


@pytest.mark.parametrize("model", [TREES, "linear"])
def test_names_reach_the_log_the_model_and_the_rankings(log: Log, model: str, tmp_path: Path) -> None:
    """Before: an import turned columns into vectors, and the log, the model and the page had no names."""
    assert log.feature_names == NAMES
    fit = log.fit(model, bias="paper@3", learning=QUICK)
    assert fit.feature_names == NAMES
    stored = rankloop.load_fit(fit.save(tmp_path / "policy"))
    assert stored.feature_names == NAMES
    alone: Any = rankloop.load(tmp_path / "policy" / "model.rankloop")
    assert alone.feature_names == NAMES
    assert "list age" in rankloop.write_report(fit, tmp_path / "page.html").read_text()


@pytest.mark.parametrize("model", [TREES, "linear"])
@pytest.mark.parametrize("stored", ["fit", "model file"])
def test_columns_in_another_order_give_the_same_rankings(
    log: Log, model: str, stored: str, tmp_path: Path
) -> None:
    """Before: columns in another order were accepted by position, and most of the top five changed."""
    fit = log.fit(model, bias="paper@3", learning=QUICK)
    policy = fit.save(tmp_path / "policy")
    policy = policy if stored == "fit" else policy / "model.rankloop"
    expected = log.rank(policy, top=5).tsv()
    columns = columns_of()
    turned = {name: columns[name] for name in ("query_id", "stock", "doc_id", "list age", "price")}
    pq.write_table(pa.table(turned), tmp_path / "turned.parquet")
    pyarrow.csv.write_csv(pa.table(turned), tmp_path / "turned.csv")
    for name in ("turned.parquet", "turned.csv"):
        ranked = rank(policy, tmp_path / name, top=5)
        assert ranked.tsv() == expected
        assert ranked.notes == ()


def test_evaluate_matches_features_by_name(log: Log, tmp_path: Path) -> None:
    """Before: a log with the columns in another order was refused by a fit, and accepted by a model."""
    fit = log.fit(TREES, bias="paper@3", learning=QUICK)
    columns = columns_of()
    turned = {name: columns[name] for name in ("query_id", "doc_id", "stock", "price", "list age")}
    other = imported(tmp_path / "turned", turned)
    for policy in (fit, fit.model):
        here, there = (
            place.evaluate(policy, "production", bias="paper@3", queries="all") for place in (log, other)
        )
        assert here.difference.estimate.value == pytest.approx(there.difference.estimate.value, abs=1e-12)


def test_missing_and_unknown_features_are_listed(log: Log, tmp_path: Path) -> None:
    """Before: "3 features, but the policy takes 3" was all that was checked."""
    fit = log.fit("linear", bias="paper@3", learning=QUICK, judge="none")
    columns = columns_of()
    columns["list_age"] = columns.pop("list age")
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    message = r"1 missing: 'list age' \(is it 'list_age'\?\); 1 unknown: 'list_age'"
    with pytest.raises(DataError, match=message):
        rank(fit, tmp_path / "f.parquet")
    other = imported(tmp_path / "other", columns)
    with pytest.raises(DataError, match=message):
        other.evaluate(fit, "production", queries="all")
    columns["more"] = columns["price"]
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    with pytest.raises(DataError, match="2 unknown: 'list_age', 'more'"):
        rank(fit, tmp_path / "f.parquet")


def test_a_model_that_lightgbm_saved_is_matched_by_its_own_spelling(log: Log, tmp_path: Path) -> None:
    """Before: refused as "cut short, or a plain LightGBM model"."""
    fit = log.fit(TREES, bias="paper@3", learning=QUICK)
    model: Any = fit.model
    model.booster.save_model(tmp_path / "plain.txt")
    ranked = log.rank(tmp_path / "plain.txt")
    assert ranked.tsv() == log.rank(fit).tsv()
    assert ranked.notes == ()
    text = (tmp_path / "plain.txt").read_text()
    (tmp_path / "nameless.txt").write_text(text.replace("price list_age stock", "Column_0 Column_1 Column_2"))
    ranked = log.rank(tmp_path / "nameless.txt")
    assert ranked.tsv() == log.rank(fit).tsv()
    assert ranked.notes[0].startswith("Features are matched by their order, not by name, because")


def test_a_table_of_documents_is_joined_for_every_query(log: Log, tmp_path: Path) -> None:
    """Before: "the column 'query_id' is missing"."""
    documents = {"doc_id": [*DOCS, "other"], "weight": [float(i) for i in range(7)]}
    alone = imported(tmp_path / "alone", documents)
    assert alone.feature_names == ("weight",)
    split = alone.split()
    assert split.doc_ids is not None
    assert split.features[:, 0].tolist() == [float(document[1:]) for document in split.doc_ids]
    both = imported(tmp_path / "both", columns_of(), documents)
    assert both.feature_names == (*NAMES, "weight")
    np.testing.assert_array_equal(both.split().features[:, :3], log.split().features)
    np.testing.assert_array_equal(both.split().features[:, 3:], split.features)
    # The same when documents are ranked: the log tells which belong to which query.
    pq.write_table(pa.table(documents), tmp_path / "docs.parquet")
    fit = alone.fit("linear", bias="paper@3", learning=QUICK)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "impressions.parquet").write_bytes((alone.folder / "impressions.parquet").read_bytes())
    assert rank(fit, [bare, tmp_path / "docs.parquet"]).tsv() == alone.rank(fit).tsv()
    pairs = tmp_path / "pairs.csv"
    pyarrow.csv.write_csv(pa.table({name: columns_of()[name] for name in ("query_id", "doc_id")}), pairs)
    assert rank(fit, [pairs, tmp_path / "docs.parquet"]).tsv() == alone.rank(fit).tsv()
    with pytest.raises(DataError, match="does not tell which documents belong to which query"):
        rank(fit, tmp_path / "docs.parquet")
    with pytest.raises(DataError, match="more than one feature is named 'weight'"):
        rank(fit, [*[tmp_path / "docs.parquet"], imported(tmp_path / "again", documents).folder])


def test_missing_values_are_for_models_that_take_them(tmp_path: Path) -> None:
    """Before: one NaN stopped the import, and there was no way to ask for another treatment."""
    columns = columns_of()
    columns["price"][::5] = [None] * len(columns["price"][::5])
    holed = imported(tmp_path / "holed", columns)
    trees = holed.fit(TREES, bias="paper@3", learning=QUICK)
    assert any("are missing: trees take them as they are" in note for note in trees.notes)
    assert len(holed.rank(trees)) == len(columns["price"])
    with pytest.raises(DataError, match=r"feature 'price' is missing .*`--missing mean`"):
        holed.fit("linear", bias="paper@3", learning=QUICK)
    known = [value for value in columns["price"] if value is not None]
    for missing, fill in (("zero", 0.0), ("mean", np.mean(known))):
        fit = holed.fit("linear", bias="paper@3", learning=QUICK, missing=missing)  # type: ignore[arg-type]
        stored = rankloop.load_fit(fit.save(tmp_path / missing))
        assert stored.fill_values is not None
        assert stored.fill_values[0] == pytest.approx(fill, rel=1e-6)
        filled = imported(tmp_path / f"filled-{missing}", columns | {"price": [
            stored.fill_values[0] if value is None else value for value in columns["price"]
        ]})  # fmt: skip
        assert holed.rank(stored).tsv() == filled.rank(stored).tsv()
        assert holed.evaluate(stored, "production").queries > 0


def test_documents_without_features_are_left_out_and_counted(tmp_path: Path) -> None:
    """Before: "no features for query …: every document needs exactly one row", and no fit."""
    columns = columns_of()
    kept = [
        i
        for i, document in enumerate(columns["doc_id"])
        if document != "d0" and columns["query_id"][i] != QUERIES[0]
    ]
    some = imported(tmp_path / "some", {name: [values[i] for i in kept] for name, values in columns.items()})
    fit = some.fit(TREES, bias="paper@3", learning=QUICK)
    note = "17 of 72 documents have no features and are left out, and with them 1 queries"
    assert any(text.startswith(note) for text in fit.notes)
    assert len(fit.train_queries) + len(fit.stop_queries) == len(QUERIES) - 1
    assert len(fit.held_out_queries) == len(QUERIES) - 1
    result = some.evaluate(fit, "production", queries="all")
    assert result.queries == len(QUERIES) - 1
    assert any("17 of 72 documents have no features" in text for text in result.notes)
    assert len(some.rank(fit)) == 55
