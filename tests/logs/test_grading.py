"""The amount of a log in place of clicks: exact on logs whose frequencies are their expectations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankloop.errors import DataError, RankloopError
from rankloop.logs.grading import CLICKS, Grading
from rankloop.offline import EvaluationOptions, evaluate, fit, load_fit, open_log
from rankloop.rank_weights import dcg
from rankloop.types import Bias

PURCHASE = 5.0
# Documents by their chance to be clicked when examined, and to be bought when clicked.
RELEVANCE = {"browsed": 0.8, "bought": 0.5}
BOUGHT = {"browsed": 0.0, "bought": 0.8}
TIMES = 100
POSITION_BIAS = Bias(alpha=[1.0, 0.5], beta=[0.0, 0.0], examination=[1.0, 0.5])


def write_log(
    folder: Path, rows: list[tuple[Any, ...]], features: dict[str, list[float]] | None = None
) -> Path:
    folder.mkdir()
    names = ("impression_id", "query_id", "policy_id", "position", "doc_id", "clicked", "amount")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["timestamp"] = pa.nulls(len(rows), pa.timestamp("us", "UTC"))
    pq.write_table(pa.table(columns), folder / "impressions.parquet")
    if features is not None:
        documents = sorted({(row[1], row[4]) for row in rows})
        table = {"query_id": [q for q, _ in documents], "doc_id": [d for _, d in documents]}
        for place, name in enumerate(("x", "y")):
            table[name] = [features[document.split()[1]][place] for _, document in documents]
        pq.write_table(pa.table(table), folder / "features.parquet")
    return folder


def expected_log(bias: Bias, queries: int = 1) -> list[tuple[Any, ...]]:
    """A log in which both orders came equally often, and clicks and purchases as often as expected."""
    rows = []
    for query in range(queries):
        for order in (("browsed", "bought"), ("bought", "browsed")):
            for position, document in enumerate(order, 1):
                rate = bias.alpha[position - 1] * RELEVANCE[document] + bias.beta[position - 1]
                clicks = round(TIMES * rate)
                bought = round(clicks * BOUGHT[document])
                for time in range(TIMES):
                    name = f"{query} {order[0]} {time}"
                    amount = PURCHASE if time < bought else float(time < clicks)
                    # The order of the ids, which breaks ties, says nothing.
                    doc_id = f"{(query + (document == 'bought')) % 2} {document}"
                    rows.append((name, f"q{query}", "production", position, doc_id, time < clicks, amount))
    return rows


def scores(path: Path, best: str, queries: int = 1) -> Path:
    table = [
        (f"q{q}", document, float(best in document))
        for q in range(queries)
        for document in ("0 browsed", "1 bought")
    ]
    names = ("query_id", "doc_id", "score")
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*table, strict=True)), strict=True))), path)
    return path


def gains() -> dict[str, float]:
    """What examining a document is worth: clicks count 1, purchases 5."""
    return {document: RELEVANCE[document] * (1 + (PURCHASE - 1) * BOUGHT[document]) for document in RELEVANCE}


def test_values_are_those_of_the_amount(tmp_path: Path) -> None:
    """The amount prefers what is bought, clicks what is clicked; both are exact on the expected log."""
    folder = write_log(tmp_path / "log", expected_log(POSITION_BIAS))
    policies = [scores(tmp_path / f"{document}.parquet", document) for document in ("bought", "browsed")]
    options, gain = EvaluationOptions(guess="mean"), gains()
    found = evaluate(open_log(folder), *policies, bias=POSITION_BIAS, options=options)
    weights = dcg(2)
    truth = [weights @ [gain["bought"], gain["browsed"]], weights @ [gain["browsed"], gain["bought"]]]
    assert found.metric == "dcg@2 of the amount"
    assert [found.new.estimate.value, found.against.estimate.value] == pytest.approx(truth, rel=1e-9)
    assert found.notes[0].startswith("The target is the amount of the log: up to 5 per display")
    by_clicks = evaluate(open_log(folder, target="clicks"), *policies, bias=POSITION_BIAS, options=options)
    truth = [weights @ [0.5, 0.8], weights @ [0.8, 0.5]]
    assert by_clicks.metric == "dcg@2"
    assert [by_clicks.new.estimate.value, by_clicks.against.estimate.value] == pytest.approx(truth, rel=1e-9)
    assert found.difference.estimate.value > 0 > by_clicks.difference.estimate.value


def test_clicks_without_relevance_are_worth_the_mean_click() -> None:
    """β of the amount is β of clicks times the mean share that a click is worth; α stays."""
    bias = Bias(alpha=[0.6, 0.4], beta=[0.3, 0.1], examination=[1.0, 0.5])
    graded = Grading(unit=5.0, per_click=0.4, graded=True).bias(bias)
    assert graded.alpha.tolist() == [0.6, 0.4]
    assert graded.beta == pytest.approx([0.12, 0.04])
    assert CLICKS.bias(bias) is bias


def test_the_mean_worth_of_a_click(tmp_path: Path) -> None:
    grading = open_log(write_log(tmp_path / "log", expected_log(POSITION_BIAS))).grading()
    # Of 120 clicks on the first and 75 on the second document, 60 are purchases.
    clicks, bought = 120 + 75, 60
    assert (grading.unit, grading.target) == (5.0, "amount")
    assert grading.per_click == pytest.approx((clicks + 4 * bought) / (5 * clicks))


def test_an_amount_that_says_what_clicks_say_is_not_a_target(tmp_path: Path) -> None:
    """The live service writes such amounts; reports need not mention them."""
    rows = [(*row[:6], float(row[5])) for row in expected_log(POSITION_BIAS)]
    log = open_log(write_log(tmp_path / "log", rows))
    assert log.grading() == CLICKS


def test_bad_targets_are_refused(tmp_path: Path) -> None:
    rows = expected_log(POSITION_BIAS)
    folder = write_log(tmp_path / "log", [(*row[:6], -1.0) for row in rows])
    with pytest.raises(DataError, match="amounts are finite numbers from 0 on, got -1"):
        open_log(folder).grading()
    with pytest.raises(RankloopError, match="the target is auto, clicks or amount, not 'sales'"):
        open_log(folder, target="sales")
    table = pq.read_table(folder / "impressions.parquet").drop_columns(["amount"])
    pq.write_table(table, folder / "impressions.parquet")
    assert open_log(folder).grading() == CLICKS
    with pytest.raises(DataError, match="has no column amount: import it with weights"):
        open_log(folder, target="amount").grading()


@pytest.mark.parametrize("model", ["lightgbm(rounds=20)", "lightgbm(rounds=20, objective=click-likelihood)"])
def test_a_ranker_is_fitted_to_the_amount(tmp_path: Path, model: str) -> None:
    """What is bought comes first; fitted to clicks, what is only browsed does."""
    features = {"browsed": [1.0, 0.0], "bought": [0.0, 1.0]}
    folder = write_log(tmp_path / "log", expected_log(POSITION_BIAS, queries=60), features)
    matrix = np.array([features["browsed"], features["bought"]], np.float32)
    for target, best in (("auto", 1), ("clicks", 0)):
        found = fit(open_log(folder, target=target), model, bias=POSITION_BIAS)
        assert int(np.argmax(found.model.scores(matrix))) == best
        assert found.target == ("amount" if target == "auto" else "clicks")
        assert load_fit(found.save(tmp_path / target)).target == found.target
        assert found.held_out is not None
        assert ("of the amount" in found.held_out.metric) == (target == "auto")
    judged = evaluate(open_log(folder), load_fit(tmp_path / "clicks"), "production", bias=POSITION_BIAS)
    assert any("was fitted to the clicks, and is judged by the amount" in note for note in judged.notes) is (
        load_fit(tmp_path / "clicks").target == "clicks"
    )
