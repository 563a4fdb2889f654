"""What runs start from: built once, stored, and shared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rankloop
from rankloop.experiments.baselines import oracle as learn_oracle
from rankloop.experiments.baselines import production_ranker
from rankloop.experiments.setup import Environment, Setup, is_saved
from rankloop.experiments.spec import RunSpec
from rankloop.progress import Update
from rankloop.training import LEARNING

SPEC = RunSpec(data="synthetic(queries=60, features=5)", horizon=3000, interventions=3)


@pytest.fixture(scope="module")
def built() -> Setup:
    return Setup.build(SPEC)


def test_facts(built: Setup) -> None:
    facts, data = built.facts, built.environment.collection
    assert facts.queries == {"train": 40, "validation": 6, "test": 14}
    assert facts.documents["test"] == data.test.n_documents
    assert (facts.features, facts.dataset) == (5, "synthetic-yahoo")
    assert facts.alpha == tuple(built.environment.users.bias.alpha)
    assert facts.beta == tuple(built.environment.users.bias.beta)
    scores = built.start.scores(data.test.features)
    assert facts.start == rankloop.policy_metrics(scores, data.test, ["ndcg@5"])["ndcg@5"]
    uniform = rankloop.policy_metrics(np.zeros_like(scores), data.test, ["ndcg@5"])["ndcg@5"]
    assert facts.random == uniform < facts.start
    assert (facts.start_kind, facts.start_fingerprint) == ("mlp", built.start.fingerprint)
    learning = LEARNING[SPEC.learning]
    oracle = learn_oracle(
        built.start,
        data,
        built.environment.users.relevance,
        learning,
        built.environment.users.bias,
        rng=np.random.default_rng(SPEC.seed),
    )
    scores = oracle.scores(data.test.features)
    assert facts.oracle == rankloop.policy_metrics(scores, data.test, ["ndcg@5"])["ndcg@5"]
    assert built.baselines["oracle"].fingerprint == oracle.fingerprint
    assert facts.supervised is None


def test_the_loop_is_what_the_spec_says(built: Setup) -> None:
    spec = RunSpec(
        estimator="affine", learning="paper", exploration="as-learned", floor=0.25, horizon=500,
        interventions=(7, 50), metric="mrr", seed=9,
    )  # fmt: skip
    loop = built.loop(spec)
    assert (str(loop.estimator), str(loop.exploration)) == ("affine", "as-learned")
    assert loop.learning == LEARNING["paper"]
    careful = built.loop(spec.model_copy(update={"caution": 1.5})).learning.settings
    assert careful == replace(LEARNING["paper"].settings, caution=1.5)
    assert (loop.floor, loop.horizon, loop.interventions) == (0.25, 500, (7, 50))
    assert (loop.metric, loop.seed) == ("mrr", 9)
    assert (loop.dataset, loop.source, loop.start) == (
        built.environment.collection,
        built.environment.users,
        built.start,
    )


def test_baselines_may_be_left_out_and_the_metric_chosen() -> None:
    seen: list[Update] = []
    spec = SPEC.model_copy(update={"oracle": False, "metric": "mrr", "start": "random"})
    built = Setup.build(spec, progress=seen.append)
    assert (built.facts.oracle, built.facts.supervised, dict(built.baselines)) == (None, None, {})
    assert seen == []
    assert built.facts.start == pytest.approx(built.facts.random, abs=1e-12)
    assert built.facts.random != Setup.build(spec.model_copy(update={"metric": "ndcg@5"})).facts.random
    Setup.build(SPEC.model_copy(update={"supervised": True}), progress=seen.append)
    tasks = dict.fromkeys(update.task for update in seen)
    assert list(tasks) == ["starting policy", "oracle", "supervised"]


def test_supervised_is_the_production_ranker_of_all_labels(tmp_path: Path) -> None:
    spec = SPEC.model_copy(update={"supervised": True, "seed": 1})
    setup = Setup.build(spec)
    data = setup.environment.collection
    expected = production_ranker(data, n_queries=data.train.n_queries, seed=1)
    value = rankloop.policy_metrics(expected.scores(data.test.features), data.test, ["ndcg@5"])["ndcg@5"]
    assert setup.facts.supervised == value
    # The bounds are those of any seed; this data is generated, so the one without noise is known.
    other = Setup.build(spec.model_copy(update={"seed": 2}), setup.environment)
    bounds = setup.facts.best_supervised, setup.facts.noise_free
    assert None not in bounds
    assert bounds == (other.facts.best_supervised, other.facts.noise_free)
    setup.save(tmp_path)
    assert rankloop.load(tmp_path / "supervised.rankloop").fingerprint == expected.fingerprint


def test_seeds_share_the_environment_and_have_their_own_starts() -> None:
    environment = Environment.load(SPEC)
    first, second = (Setup.build(SPEC.model_copy(update={"seed": seed}), environment) for seed in (0, 1))
    assert first.environment is second.environment is environment
    assert first.start.fingerprint != second.start.fingerprint


def test_a_setup_is_read_from_its_folder_once_it_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = Environment.load(SPEC)
    assert not is_saved(tmp_path)
    first = Setup.read_or_build(SPEC, tmp_path, environment)
    assert is_saved(tmp_path)
    monkeypatch.setattr("rankloop.experiments.setup.starting_policy", None)
    again = Setup.read_or_build(SPEC, tmp_path, environment)
    assert (again.facts, again.start.fingerprint) == (first.facts, first.start.fingerprint)
    assert {name: model.fingerprint for name, model in again.baselines.items()} == {
        "oracle": first.baselines["oracle"].fingerprint
    }
