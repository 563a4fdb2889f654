"""Every document takes the same route in every engine as in LightGBM, and gets the same score in float32."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rankloop.exchange import ExportError, PolicySource, write_model
from rankloop.models import TreeEnsemble
from rankloop.types import Float32
from tests.exchange import engines
from tests.exchange.cases import NAMES, TRAININGS, Case, case

VECTORS = 3_000
LEARNED = "missing values"
Evaluate = Callable[[Any, Float32], Float32]

# The format, what the engine computes from its file, whether it knows where missing values go, and whether
# features may be infinite there.
ENGINES: dict[str, tuple[str, Evaluate, bool, bool]] = {
    "opensearch": ("opensearch", lambda c, x: engines.opensearch(c, x, NAMES), True, True),
    "opensearch, RankLib": (
        "opensearch(format=ranklib)",
        lambda c, x: engines.ranklib(c, x, NAMES),
        False,
        True,
    ),
    "elasticsearch": ("elasticsearch", lambda c, x: engines.elasticsearch(c, x, NAMES), False, True),
    "elasticsearch, RankLib": (
        "elasticsearch(format=ranklib)",
        lambda c, x: engines.ranklib(c, x, NAMES),
        False,
        True,
    ),
    "solr": ("solr", lambda c, x: engines.solr(c, x, NAMES), True, False),
    "vespa, double": ("vespa", lambda c, x: engines.vespa(c, x, np.float64), True, True),
    "vespa, float": ("vespa", lambda c, x: engines.vespa(c, x, np.float32), True, True),
}


def written(trees: TreeEnsemble, to: str) -> Any:
    return json.loads(write_model(PolicySource(trees, feature_names=NAMES), to).model)


def numbered(trees: TreeEnsemble) -> TreeEnsemble:
    """The same trees, in which the value of each leaf is its number."""
    return trees.with_values(np.arange(len(trees.values), dtype=np.float64))


def check_routes(model: Case, engine: str, n: int, rng: np.random.Generator) -> None:
    to, evaluate, _, infinite = ENGINES[engine]
    vectors = model.vectors(n, rng, infinite=infinite)
    leaves = model.leaves(vectors)
    found = evaluate(written(numbered(model.trees), to), vectors)
    assert np.array_equal(found, leaves)
    # The score is the sum of the same leaves, in float32: one rounding per leaf and per addition.
    exact = model.model.scores(vectors)
    sizes = np.abs(model.trees.values)[leaves].sum(axis=1)
    score = engines.sums(evaluate(written(model.trees, to), vectors))
    assert (np.abs(score - exact) <= sizes * np.finfo(np.float32).eps * model.trees.n_trees).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("training", TRAININGS)
def test_no_document_takes_another_route(training: str, engine: str, rng: np.random.Generator) -> None:
    if training == LEARNED and not ENGINES[engine][2]:
        with pytest.raises(ExportError, match="fitted to missing values"):
            written(case(training).trees, ENGINES[engine][0])
        return
    check_routes(case(training), engine, VECTORS, rng)


@pytest.mark.parametrize("training", TRAININGS)
def test_plain_trees_are_lightgbm(training: str, rng: np.random.Generator) -> None:
    """The form from which all others are written scores to the bit as LightGBM does."""
    model = case(training)
    vectors = model.vectors(VECTORS, rng)
    assert np.array_equal(model.trees.leaves(vectors), model.leaves(vectors))
    assert np.array_equal(model.trees.scores(vectors), model.model.scores(vectors))


def test_the_vectors_tell_wrong_thresholds_from_right_ones(rng: np.random.Generator) -> None:
    """LightGBM's thresholds, copied or rounded as a careless export would, send documents astray."""
    model = case("plain")
    vectors = model.vectors(VECTORS, rng, infinite=False, missing=False)
    leaves, trees = model.leaves(vectors), numbered(model.trees)
    copied = np.array([threshold for _, threshold in model.thresholds], np.float32)
    assert not np.array_equal(replace(trees, bound=copied).leaves(vectors), leaves)
    for engine in ("opensearch", "solr", "vespa, double"):
        to, evaluate = ENGINES[engine][:2]
        for side in (-np.inf, np.inf):
            one_off = replace(trees, bound=np.nextafter(trees.bound, np.float32(side)))
            assert not np.array_equal(evaluate(written(one_off, to), vectors), leaves)
