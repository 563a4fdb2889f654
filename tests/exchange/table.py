"""The table of docs/export.md: which engine takes which model, measured.

    python -m tests.exchange.table docs/export.md [VECTORS]

A cell is measured: trees are exported, evaluated by the engine's rules (`engines.py`; onnxruntime and xgboost
are the real programs) on adversarial vectors, and compared leaf by leaf with the program that trained them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xgboost

from rankloop.exchange import ExportError, OnnxModel, PolicySource, read_model, write_model
from rankloop.models import MLP, Linear, TreeEnsemble
from rankloop.storage.files import write_whole
from rankloop.types import Float32, Float64, Int64
from tests.exchange import engines
from tests.exchange.cases import NAMES, Case, case, training_data

VECTORS = 1_000_000
# How many vectors are evaluated at once.
TOGETHER = 50_000
START, END = "<!-- export table: python -m tests.exchange.table docs/export.md -->\n", "<!-- end -->\n"
# Differences of scores of about ten, in float32.
ROUNDING = 1e-4
Content = Any
Evaluate = Callable[[Content, Float32], Float32]


class Engine(NamedTuple):
    """A format, and what the program that reads it computes.

    Attributes:
        to: the format.
        evaluate: from the file and documents to the outputs of all trees, documents × trees.
        infinite: whether features may be infinite there.
    """

    to: str
    evaluate: Evaluate
    infinite: bool = True


def _json(function: Callable[[Any, Float32], Float32]) -> Evaluate:
    return lambda data, rows: function(json.loads(data), rows)


def _ranklib(data: bytes, rows: Float32) -> Float32:
    return engines.ranklib(json.loads(data), rows, NAMES)


def _vespa(data: bytes, rows: Float32) -> Float32:
    content = json.loads(data)
    double, single = (engines.vespa(content, rows, kind) for kind in (np.float64, np.float32))
    assert np.array_equal(double, single)
    return double


def _xgboost(data: bytes, rows: Float32) -> Float32:
    booster = xgboost.Booster(model_file=bytearray(data))
    matrix = xgboost.DMatrix(rows, feature_names=list(NAMES))
    trees = range(booster.num_boosted_rounds())
    return np.stack([booster[i : i + 1].predict(matrix, output_margin=True) for i in trees], axis=1)


ENGINES = (
    Engine("opensearch", _json(lambda c, x: engines.opensearch(c, x, NAMES))),
    Engine("opensearch(format=ranklib)", _ranklib),
    Engine("elasticsearch", _json(lambda c, x: engines.elasticsearch(c, x, NAMES))),
    Engine("elasticsearch(format=ranklib)", _ranklib),
    Engine("solr", _json(lambda c, x: engines.solr(c, x, NAMES)), infinite=False),
    Engine("vespa", _vespa),
    Engine("onnx", lambda data, rows: OnnxModel.from_bytes(data).scores(rows)[:, None].astype(np.float32)),
    Engine("xgboost", _xgboost, infinite=False),
)


class Trees(NamedTuple):
    """Trees with the program that trained them.

    Attributes:
        trees: the plain form; the value of each leaf is its number.
        vectors: adversarial documents, from their number, a generator, and whether they may be infinite.
        leaves: the leaves that the program finds, as outputs of each tree.
    """

    trees: TreeEnsemble
    vectors: Callable[[int, np.random.Generator, bool], Float32]
    leaves: Callable[[Float32], Int64]


def _lightgbm(training: str) -> Trees:
    model: Case = case(training)
    numbered = model.trees.with_values(np.arange(len(model.trees.values), dtype=np.float64))
    return Trees(numbered, lambda n, rng, infinite: model.vectors(n, rng, infinite=infinite), model.leaves)


@cache
def _trained_by_xgboost() -> Trees:
    """Leaves are compared by the values that XGBoost gives them, which are made different first."""
    data, target = training_data(np.random.default_rng(3), missing=True)
    matrix = xgboost.DMatrix(data, target, feature_names=list(NAMES))
    booster = xgboost.train({"max_depth": 5, "nthread": 1, "base_score": 0.0}, matrix, 12)
    content = json.loads(bytes(booster.save_raw("json")))
    number = 0
    for tree in content["learner"]["gradient_booster"]["model"]["trees"]:
        for node, left in enumerate(tree["left_children"]):
            if left < 0:
                tree["split_conditions"][node], number = float(number), number + 1
    numbered = json.dumps(content).encode()
    trees = read_model(numbered)
    assert isinstance(trees, TreeEnsemble)

    def vectors(n: int, rng: np.random.Generator, infinite: bool) -> Float32:
        rows = np.empty((n, trees.n_features), np.float32)
        extremes = np.array([0, -0.0, 1e-45, -1e-45, np.nan, *([np.inf, -np.inf] * infinite)], np.float32)
        for feature in range(trees.n_features):
            bounds = np.unique(trees.bound[trees.feature == feature])
            near = [bounds, *(np.nextafter(bounds, np.float32(side)) for side in (np.inf, -np.inf))]
            rows[:, feature] = rng.choice(np.concatenate([*near, extremes]), n)
        return rows

    def leaves(rows: Float32) -> Int64:
        # XGBoost takes no infinities; every finite value past the last threshold goes where they go.
        largest = np.finfo(np.float32).max
        finite = np.where(np.isinf(rows), np.copysign(largest, rows), rows)
        return _xgboost(numbered, finite.astype(np.float32)).astype(np.int64)

    return Trees(trees, vectors, leaves)


TREES: dict[str, Callable[[], Trees]] = {
    "LightGBM": lambda: _lightgbm("plain"),
    "LightGBM, `zero_as_missing`": lambda: _lightgbm("zero_as_missing"),
    "LightGBM, missing values": lambda: _lightgbm("missing values"),
    "XGBoost, missing values": _trained_by_xgboost,
}


def tree_cell(engine: Engine, source: Trees, n: int, rng: np.random.Generator) -> str:
    """``exact`` and the number of vectors, ``refused``, or how many leaves are wrong."""
    parts = [source.trees]
    if engine.to == "onnx":  # onnxruntime gives sums, so each tree is a model
        parts = [_one(source.trees, tree) for tree in range(source.trees.n_trees)]
    try:
        files = [write_model(PolicySource(part, feature_names=NAMES), engine.to).model for part in parts]
    except ExportError:
        return "refused"
    wrong = done = 0
    while done < n:
        rows = source.vectors(min(TOGETHER, n - done), rng, engine.infinite)
        found = np.concatenate([engine.evaluate(file, rows) for file in files], axis=1)
        wrong += int((found != source.leaves(rows)).any(axis=1).sum())
        done += len(rows)
    return f"exact ({done:,})" if not wrong else f"**{wrong:,} of {done:,} wrong**"


def _one(trees: TreeEnsemble, number: int) -> TreeEnsemble:
    arrays = {
        name: getattr(trees, name) for name in ("feature", "bound", "nan_left", "left", "right", "values")
    }
    return TreeEnsemble.of_nodes(trees.n_features, roots=trees.roots[[number]], **arrays)


def score_cell(engine: Engine, model: Linear | MLP, rng: np.random.Generator) -> str:
    """Whether scores are the same up to float32 rounding, perhaps without the intercept, or ``refused``."""
    rows = rng.normal(size=(10_000, 5)).astype(np.float32)
    try:
        file = write_model(PolicySource(model, feature_names=NAMES), engine.to).model
    except ExportError:
        return "refused"
    difference = _scores(engine, model, file, rows) - model.scores(rows)
    whole, shifted = np.abs(difference).max() < ROUNDING, np.ptp(difference) < ROUNDING
    return "same scores" if whole else "same scores, no intercept" if shifted else "**wrong**"


def _scores(engine: Engine, model: Linear | MLP, file: bytes, rows: Float32) -> Float64:
    if not file.startswith(b"{"):
        return OnnxModel.from_bytes(file).scores(rows)
    content = json.loads(file)
    if engine.to == "solr" and isinstance(model, MLP):
        return engines.solr_network(content, rows).astype(np.float64)
    weights = content["params"]["weights"] if engine.to == "solr" else json.loads(_definition(content))
    return engines.linear([weights[name] for name in NAMES], rows).astype(np.float64)


def _definition(content: Content) -> str:
    assert content["model"]["model"]["type"] == "model/linear"
    definition: str = content["model"]["model"]["definition"]
    return definition


def table(n: int = VECTORS) -> str:
    """The whole table, in Markdown."""
    rng = np.random.default_rng(17)
    linear = Linear(5, np.array([1, -2, 0.5, 3, 0.1, 10], np.float32))
    network = MLP.initialise(5, np.random.default_rng(2), hidden=(16, 8))
    heads = ["`--to`", *TREES, "linear", "network"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for engine in ENGINES:
        cells = [tree_cell(engine, trees(), n, rng) for trees in TREES.values()]
        cells += [score_cell(engine, model, rng) for model in (linear, network)]
        lines.append("| " + " | ".join([f"`{engine.to}`", *cells]) + " |")
    return "\n".join(lines) + "\n"


def on_page(page: str) -> str:
    """The table as a page has it."""
    return page.partition(START)[2].partition(END)[0].strip() + "\n"


def without_numbers(text: str) -> str:
    """The same cells, whatever the number of vectors."""
    return re.sub(r"exact \([\d,]+\)", "exact", text)


def main(arguments: Sequence[str]) -> None:
    """Bring the table of a page up to date."""
    path, *numbers = arguments
    new = table(*map(int, numbers))
    page = Path(path).read_text(encoding="utf-8")
    before, after = page.partition(START)[0], page.partition(END)[2]
    write_whole(path, f"{before}{START}\n{new}\n{END}{after}".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
