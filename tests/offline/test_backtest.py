"""Backtests: what one policy's clicks say about another one's, against arithmetic, and end to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankloop
from rankloop.clicks import gather_log, users
from rankloop.errors import DataError, RankloopError
from rankloop.logs import PolicyTraffic, write_simulated
from rankloop.offline import Log, open_log
from rankloop.reports.backtest import backtest_document
from rankloop.reports.html import html_page
from rankloop.types import Bias
from tests.cli.commands import Run
from tests.logs.logs_of import Row, write_rows

RELEVANCE = {"a": 1.0, "b": 0.5, "c": 0.25}
BIAS = Bias([0.8, 0.4], [0.2, 0.1], [1.0, 0.5])
# An A/B test: production shows every order equally often, the variant one order.
LISTS = {"production": ["ab", "ba", "ac", "ca", "bc", "cb"], "variant": ["cb"]}
TIMES = 240


def chance(document: str, position: int) -> float:
    return float(BIAS.alpha[position] * RELEVANCE[document] + BIAS.beta[position])


def exact_rows(*, later: str = "") -> Iterator[Row]:
    """Clicks are as frequent as they are likely, to the last impression."""
    second = 1_000_000
    for query in ("p", "q"):
        for policy, lists in LISTS.items():
            each = TIMES // len(lists)
            for number in range(TIMES):
                documents, turn = lists[number // each], number % each
                for position, document in enumerate(documents):
                    clicked = turn < round(each * chance(document, position))
                    time = (number + (TIMES if policy == later else 0)) * second
                    yield Row(
                        f"{policy}{query}{number}", query, policy, position + 1, document, clicked, time
                    )


def test_a_prediction_is_exact_where_clicks_are_as_frequent_as_they_are_likely(tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", exact_rows()))
    predictions = {one.policy: one for one in log.backtest(bias=BIAS).predictions}
    assert set(predictions) == set(LISTS)
    variant = predictions["variant"]
    assert variant.measured == pytest.approx(chance("c", 0) + chance("b", 1))
    assert variant.predicted == pytest.approx(variant.measured)
    assert variant.held
    assert (variant.impressions, variant.source_impressions, variant.queries) == (2 * TIMES, 2 * TIMES, 2)
    assert (variant.by, variant.positions, variant.unseen) == ("production", 2, 0.0)
    # The variant never shows a: its relevance counts as the mean of what the variant shows.
    production = predictions["production"]
    assert production.unseen > 0.2
    assert production.predicted < production.measured


def test_policies_that_served_one_after_the_other_are_refused(tmp_path: Path) -> None:
    log = open_log(write_rows(tmp_path / "log", exact_rows(later="variant")))
    with pytest.raises(DataError, match="served at the same time"):
        log.backtest(bias=BIAS)
    with pytest.raises(RankloopError, match="varient"):
        log.backtest(["varient"], bias=BIAS)


@pytest.fixture(scope="module")
def parallel(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Two policies without times that share the traffic; the clicks of each alone can teach the bias."""
    rng = np.random.default_rng(2)
    split = rankloop.synthetic(queries=60, features=3, seed=1).train
    relevance, parts = split.labels / 4.0, []
    for name, follows in (("production", 0.0), ("variant", 2.0)):
        scores = follows * relevance + rng.normal(size=split.n_documents)
        clicks = gather_log(scores, split.offsets, relevance, users("paper@3"), 4_000, rng)
        parts.append(PolicyTraffic(name, scores, clicks))
    folder = write_simulated(tmp_path_factory.mktemp("parallel") / "log", split, parts)
    path = folder / "impressions.parquet"
    (folder / "checksums.json").unlink()
    rows = pq.read_table(path)
    place, kind = rows.column_names.index("timestamp"), rows.schema.field("timestamp").type
    pq.write_table(rows.set_column(place, "timestamp", pa.nulls(len(rows), kind)), path)
    return open_log(folder)


def test_the_bias_comes_from_the_clicks_that_predict(parallel: Log) -> None:
    found = parallel.backtest(seed=1)
    assert len(found.predictions) == 2
    assert all(one.source_alone for one in found.predictions)
    for one in found.predictions:
        assert one.predicted == pytest.approx(one.measured, rel=0.1)
        assert one.low < one.predicted < one.high
    known = parallel.backtest(["variant", "production"], bias="paper@3")
    assert not any(one.source_alone for one in known.predictions)
    assert "not from the other policy's clicks alone" in " ".join(known.notes)


def test_terminal_page_and_json_say_the_same(parallel: Log, run: Run, tmp_path: Path) -> None:
    folder, page = str(parallel.folder), str(tmp_path / "page.html")
    code, out, _ = run("backtest", folder, "--bias", "paper@3", "--report", page)
    assert code == 0
    told = json.loads(run("backtest", folder, "--bias", "paper@3", "--json").out)
    found = parallel.backtest(bias="paper@3")
    assert told["predictions"][0]["held"] == found.predictions[0].held
    assert told["text"] in " ".join(out.split())
    assert Path(page).read_text() == html_page(backtest_document(found))
    for one in found.predictions:
        assert f"{one.predicted:.3f}" in out
        assert one.text in Path(page).read_text()
