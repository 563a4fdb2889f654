"""What runs stand on, and what measuring takes."""

from __future__ import annotations

from pathlib import Path

import pytest

import rankloop
from rankloop.experiments.baselines import production_ranker
from rankloop.experiments.reproduce.costs import QUERIES, measure
from rankloop.experiments.reproduce.schedule import jobs
from rankloop.experiments.reproduce.seed_setups import SeedSetups, read_bounds
from rankloop.experiments.setup import build_setup, world
from tests.experiments.reproduce.small import CURVES, TINY


def test_seeds_share_the_data_and_have_starts_of_their_own(tmp_path: Path) -> None:
    seed_setups = SeedSetups(TINY, tmp_path)
    first, second = seed_setups(0), seed_setups(1)
    assert first.collection is second.collection
    assert first.users is second.users
    assert first.start.fingerprint != second.start.fingerprint
    assert seed_setups(0) is first
    # As a run by itself would have it.
    alone = build_setup(TINY.ground(1))
    assert (second.facts, second.start.fingerprint) == (alone.facts, alone.start.fingerprint)
    again = SeedSetups(TINY, tmp_path, world(TINY.ground(0)))
    assert again.is_laid(1)
    assert (again(1).facts, again(1).start.fingerprint) == (alone.facts, alone.start.fingerprint)


def test_bounds_are_what_they_are_called(tmp_path: Path) -> None:
    seed_setups = SeedSetups(TINY, tmp_path)
    bounds, data = seed_setups.bounds(1), seed_setups.world[0]
    assert bounds == read_bounds(tmp_path / "seed-1")
    facts = seed_setups(1).facts
    assert (bounds.random, bounds.production) == (facts.random, facts.start)
    assert bounds.same_optimiser == facts.full_information
    full = production_ranker(data, n_queries=data.train.n_queries, seed=1)
    scores = full.scores(data.test.features)
    assert bounds.full_information == rankloop.policy_metrics(scores, data.test, ["ndcg@5"])["ndcg@5"]
    stored = rankloop.load(tmp_path / "seed-1" / "full-information.rankloop")
    assert stored.fingerprint == full.fingerprint


@pytest.mark.parametrize("queries", [30, 2 * QUERIES])
def test_costs_are_measured_on_data_of_any_size(queries: int) -> None:
    preset = TINY.model_copy(update={"data": f"synthetic(queries={queries}, features=4)"})
    wanted = jobs([CURVES], preset)
    costs = measure(*world(preset.ground(0)), wanted)
    assert set(costs.interaction) == {"pdgd"}
    assert min(costs.epoch, costs.phase, costs.impression, costs.interaction["pdgd"]) > 0.0
    assert all(costs.run(job) > 0.0 for job in wanted)
