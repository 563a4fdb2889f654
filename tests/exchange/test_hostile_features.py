"""Trees on the features that real tables have: what is written is read back, exported, and scored equally."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rankloop.exchange import ExportError, PolicySource, read_model, write_model
from rankloop.models import LightGBMModel
from rankloop.models.lightgbm import boost
from rankloop.types import Float32, Float64
from tests.exchange.cases import LARGEST, SPECIAL, Case
from tests.exchange.test_routes import ENGINES, NAMES, numbered, written

WORLDS = 300
ROWS = 40

Column = Callable[[np.random.Generator, int], Float64]


def some_missing(column: Column) -> Column:
    def draw(rng: np.random.Generator, n: int) -> Float64:
        values = column(rng, n).astype(np.float64)
        values[rng.random(n) < rng.choice([0.1, 0.5, 0.9])] = np.nan
        return values

    return draw


WITHOUT_MISSING: dict[str, Column] = {
    "both signs": lambda rng, n: rng.normal(size=n),
    "positive": lambda rng, n: rng.exponential(size=n),
    "negative": lambda rng, n: -rng.exponential(size=n),
    "half zeros": lambda rng, n: rng.normal(size=n) * (rng.random(n) < 0.5),
    "zeros": lambda _, n: np.zeros(n),
    "constant": lambda _, n: np.full(n, 3.0),
    "few values": lambda rng, n: rng.integers(-1, 2, n),
    "tiny": lambda rng, n: rng.normal(size=n) * 10.0 ** rng.integers(-45, -30, n),
    "huge": lambda rng, n: rng.choice([-1.0, 1.0, 0.5, -0.25], n) * LARGEST,
}
COLUMNS = {
    **WITHOUT_MISSING,
    **{f"{name}, missing": some_missing(column) for name, column in WITHOUT_MISSING.items()},
    "all missing": lambda _, n: np.full(n, np.nan),
}
PARAMETERS: tuple[dict[str, Any], ...] = (
    {},
    {"zero_as_missing": True},
    {"use_missing": False},
    {"max_bin": 3, "min_data_in_bin": 1},
    {"min_data_in_bin": 1, "lambda_l2": 1.0, "extra_trees": True},
)


def world(number: int) -> tuple[Case, Float32]:
    """A small model of features that are missing, constant, tiny or huge, and rows to score."""
    rng = np.random.default_rng(number)
    n = int(rng.integers(6, ROWS))
    kinds = [COLUMNS[name] for name in rng.choice(sorted(COLUMNS), len(NAMES))]
    features = np.column_stack([column(rng, n) for column in kinds]).astype(np.float32)
    # What is missing tells something, as it does where a hotel has no reviews yet.
    target = rng.normal(size=n) + 3.0 * np.isnan(features) @ rng.normal(size=len(NAMES))
    parameters = {"min_data_in_leaf": 1, "num_leaves": 6, "learning_rate": 0.5, **rng.choice(PARAMETERS)}
    grown = boost(
        features, lambda scores: (target - scores, np.ones(n)), rounds=4, parameters=parameters, seed=number
    )
    model = Case(str(number), LightGBMModel(grown.text, NAMES))
    rows = np.concatenate([features, rng.choice(SPECIAL, (ROWS, len(NAMES)))])
    rows[rng.random(rows.shape) < 0.2] = np.nan
    return model, rows.astype(np.float32)


@pytest.mark.parametrize("worlds", [range(40), pytest.param(range(40, WORLDS), marks=pytest.mark.long)])
def test_what_is_written_is_read_back_and_scores_equally(worlds: range) -> None:
    infinite, reasons = 0, list[str]()
    for number in worlds:
        model, rows = world(number)
        infinite += any(np.isinf(threshold) for _, threshold in model.thresholds)
        with_infinities = np.concatenate([rows, model.vectors(ROWS, np.random.default_rng(number))])
        expected = model.model.scores(with_infinities)
        again = LightGBMModel.from_bytes(model.model.to_bytes())
        assert np.array_equal(again.scores(with_infinities), expected)
        assert np.array_equal(model.trees.scores(with_infinities), expected)
        # Its dump has 1e300 in place of infinity, which no finite value can tell from it.
        dumped = read_model(json.dumps(model.model.booster.dump_model()).encode())
        assert np.array_equal(dumped.scores(rows), model.model.scores(rows))
        for to, evaluate, knows_missing, _ in ENGINES.values():
            try:
                content = written(numbered(model.trees), to)
            except ExportError as error:
                reasons.append(str(error))
                continue
            assert knows_missing or not model.trees.learned_missing
            if model.trees.n_trees:
                assert np.array_equal(evaluate(content, rows), model.leaves(rows))
            else:
                assert not evaluate(content, rows).any()
    # The worlds have what they are for: splits of missing against present, in many of them.
    assert infinite > len(worlds) / 4
    expected_reasons = ("fitted to missing values", "Solr adds 1e-6 to every threshold")
    assert all(any(reason in text for reason in expected_reasons) for text in reasons)


@pytest.mark.parametrize("to", ["xgboost", "onnx"])
def test_the_libraries_score_equally(to: str) -> None:
    for module in {"xgboost": ["xgboost"], "onnx": ["onnx", "onnxruntime"]}[to]:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    for number in range(0, WORLDS, 10):
        model, rows = world(number)
        data = write_model(PolicySource(model.model), to).model
        expected = model.model.scores(rows)
        sizes = np.abs(model.trees.values)[model.leaves(rows)].sum(axis=1)
        if to == "xgboost":
            import xgboost

            matrix = xgboost.DMatrix(rows, feature_names=list(NAMES))
            found = xgboost.Booster(model_file=bytearray(data)).predict(matrix, output_margin=True)
        else:
            found = read_model(data).scores(rows)
        bound = sizes * np.finfo(np.float32).eps * max(model.trees.n_trees, 1)
        assert (np.abs(found - expected) <= bound).all()
