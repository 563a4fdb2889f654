"""A log from a frame is the log that the command line imports from the same rows in a file."""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import rankloop
from rankloop.cli import app
from rankloop.errors import DataError
from rankloop.frames import arrow_table
from rankloop.models import Linear
from rankloop.offline import Log

SEARCHES, SHOWN = 300, 4
NAMES = {
    "impression": "search",
    "query": "text",
    "document": "sku",
    "position": "rank",
    "clicked": "click",
    "time": "at",
    "policy": "variant",
}
AS_TYPED = (
    "impression_id=search, query_id=text, doc_id=sku, position=rank, clicked=click, timestamp=at, "
    "policy_id=variant"
)


def rows() -> pa.Table:
    rng = np.random.default_rng(0)
    query = rng.integers(0, 12, SEARCHES)
    shown = np.argsort(rng.random((SEARCHES, 6)), axis=1)[:, :SHOWN]
    quality = rng.random((12, 6))
    chance = np.take_along_axis(quality[query], shown, axis=1) * 0.9 ** np.arange(SHOWN)
    start = np.datetime64("2026-01-01T00:00:00", "us")
    return pa.table(
        {
            "search": np.repeat(np.arange(SEARCHES), SHOWN),
            "text": [f"shoes {number}" for number in np.repeat(query, SHOWN)],
            "sku": [f"sku {number}" for number in shown.ravel()],
            "rank": np.tile(np.arange(SHOWN), SEARCHES),
            "click": (rng.random(chance.shape) < chance).ravel(),
            "at": start + np.repeat(np.arange(SEARCHES), SHOWN) * np.timedelta64(60, "s"),
            "variant": np.repeat(np.where(np.arange(SEARCHES) < SEARCHES // 2, "old", "new"), SHOWN),
            "price": np.round(quality[np.repeat(query, SHOWN), shown.ravel()], 2),
            "stock": np.repeat(query, SHOWN),
        }
    )


def of_duckdb(table: pa.Table) -> Any:
    return duckdb.from_arrow(table)


def with_categories(table: pa.Table) -> pd.DataFrame:
    frame = table.to_pandas()
    return frame.astype({name: "category" for name in ("sku", "doc_id") if name in frame})


class OnlyStream:
    """What gives its rows to Arrow, and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "pandas with categories": lambda table: table.to_pandas().astype(
        {"sku" if "sku" in table.column_names else "doc_id": "category"}
    ),
    "polars": pl.from_arrow,
    "lazy polars": lambda table: pl.from_arrow(table).lazy(),
    "pyarrow": lambda table: table,
    "DuckDB": of_duckdb,
    "Arrow's interface": OnlyStream,
    "columns": lambda table: table.to_pydict(),
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Log, dict[str, Any]]:
    """What the command line makes of a CSV file: the log, and how a policy compares."""
    folder = tmp_path_factory.mktemp("typed")
    pyarrow.csv.write_csv(rows(), folder / "clicks.csv")
    scores_of(rows()).to_csv(folder / "new.csv", index=False)
    answers = [
        CliRunner().invoke(app, list(map(str, words)))
        for words in (
            ["import", "columns", folder / "clicks.csv", "--columns", AS_TYPED, "--feature-columns", "price",
             "--feature-columns", "stock", "-o", folder / "log"],
            ["evaluate", folder / "log", "--policy", folder / "new.csv", "--against", "old", "--bias",
             "paper@4", "--json", "-o", folder / "page.html"],
        )
    ]  # fmt: skip
    assert [answer.exit_code for answer in answers] == [0, 0]
    return rankloop.open_log(folder / "log"), json.loads(answers[-1].stdout)


def scores_of(table: pa.Table) -> pd.DataFrame:
    frame = table.to_pandas().rename(columns={"text": "query_id", "sku": "doc_id", "price": "score"})
    return frame[["query_id", "doc_id", "score"]].drop_duplicates(["query_id", "doc_id"])


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_gives_the_numbers_of_the_command_line(kind: str, typed: tuple[Log, dict[str, Any]]) -> None:
    of_file, compared = typed
    log = rankloop.log(FRAMES[kind](rows()), **NAMES, features=["price", "stock"])
    assert log.fingerprint == of_file.fingerprint
    assert log.tables == of_file.tables
    counts, expected = log.count(), of_file.count()
    np.testing.assert_array_equal(counts.query_ids, expected.query_ids)
    np.testing.assert_array_equal(counts.clicks_by_position, expected.clicks_by_position)
    assert log.policy_ids == ("old", "new")
    assert log.imported is not None
    assert (log.imported.impressions, log.imported.position_base) == (SEARCHES, 0)
    scores = FRAMES[kind](pa.Table.from_pandas(scores_of(rows()), preserve_index=False))
    found = log.evaluate(scores, against="old", bias="paper@4").to_dict()
    assert found["difference"] == compared["difference"]
    assert found["decision"]["kind"] == compared["decision"]["kind"]


def test_columns_that_are_not_named_are_guessed_and_wrong_names_are_refused() -> None:
    table = rows().rename_columns(
        ["impression_id", "query", "sku", "position", "clicked", "timestamp", "variant", "price", "stock"]
    )
    with pytest.raises(
        DataError, match=r"policy_id could be variant or -.*columns=\{'policy_id': 'variant'\}$"
    ):
        rankloop.log(table)
    log = rankloop.log(table, policy="variant")
    assert log.imported is not None
    assert (log.imported.impressions, log.policy_ids) == (SEARCHES, ("old", "new"))
    with pytest.raises(DataError, match=r"the frame has no column 'score'; its columns are 'impression_id'"):
        rankloop.log(table, position="score")
    with pytest.raises(DataError, match=r"the frame has no column 'prize'"):
        rankloop.log(table, features=["prize", "stock"])
    with pytest.raises(DataError, match=r"expected a frame of pandas, polars or pyarrow"):
        rankloop.log([1, 2, 3])
    with pytest.raises(DataError, match=r"columns names 'colour', and its keys are impression_id"):
        rankloop.log(table, columns={"colour": "sku"})


def test_features_come_from_a_frame_of_their_own() -> None:
    features = rows().to_pandas()[["text", "sku", "price"]].drop_duplicates(["text", "sku"])
    own = rankloop.log(rows(), **NAMES, features="price")
    for other in (features, pl.from_pandas(features), features.rename(columns={"text": "query_id"})):
        log = rankloop.log(rows(), **NAMES, features=other)
        first, second = (pa.table(each.rank(model()).to_arrow()) for each in (own, log))
        assert first.equals(second)
        assert pa.table(rankloop.rank(model(), named(other)).to_arrow()).equals(first)
    with pytest.raises(DataError, match=r"the frame of features has no column 'sku'"):
        rankloop.log(rows(), **NAMES, features=features[["text", "price"]])


def named(frame: Any) -> pa.Table:
    """With the names of ids that tables of features have."""
    table = arrow_table(frame)
    return table.rename_columns(["query_id", "doc_id", "price"])


def model() -> Linear:
    return Linear(1, np.ones(2), feature_names=("price",))


def test_defects_are_counted_as_they_are_in_files() -> None:
    broken = rows().to_pandas()
    broken = pd.concat([broken, broken.iloc[:3]], ignore_index=True)  # repeated rows
    log = rankloop.log(broken, **NAMES)
    assert log.imported is not None
    assert [(problem.name, problem.count) for problem in log.imported.problems] == [("duplicate_rows", 3)]
    with pytest.raises(DataError, match=r"the frame: strict import failed"):
        rankloop.log(broken, **NAMES, options=rankloop.logs.ImportOptions(strict=True))


def test_a_log_is_temporary_unless_it_is_kept(tmp_path: Path) -> None:
    log = rankloop.log(rows(), **NAMES)
    folder, counts = log.folder, log.count().fingerprint
    assert pickle.loads(pickle.dumps(log)).count().fingerprint == counts
    assert {path.name for path in folder.parent.iterdir()} == {"log"}
    del log
    gc.collect()
    assert not folder.exists()
    kept = rankloop.log(rows(), **NAMES, out=tmp_path / "log")
    del kept
    assert rankloop.open_log(tmp_path / "log").count().fingerprint == counts
