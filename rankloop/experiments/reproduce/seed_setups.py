"""What the runs of a reproduction stand on: one copy of the data, and for each seed its starting policy.

Two policies know the truth. *Full information* is the paper's: supervised learning from all labels, as the
production ranker is made from few. *Same optimiser* starts where the loop starts and is trained as the loop
trains, on the true relevance: what the loop would learn if clicks told the whole truth.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from rankloop.evaluation import policy_metrics
from rankloop.experiments.baselines import production_ranker
from rankloop.experiments.reproduce.presets import Preset
from rankloop.experiments.results import FACTS, START, read_facts, read_model
from rankloop.experiments.setup import Setup, build_setup, world
from rankloop.loop.simulated_users import SimulatedUsers
from rankloop.model_files import load, save
from rankloop.storage.files import write_whole
from rankloop.types import Dataset

BOUNDS, FULL = "bounds.json", "full-information.rankloop"


class Bounds(BaseModel):
    """The true metric of what runs are compared with, on the test queries, for one seed.

    Attributes:
        random: of uniformly random rankings.
        production: of the starting policy.
        full_information: of supervised learning from all labels.
        same_optimiser: of the loop's own training on the true relevance.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    random: float
    production: float
    full_information: float
    same_optimiser: float


class SeedSetups:
    """The setup of every seed, built when they are first asked for, or read where they were built before.

    Args:
        preset: what is reproduced.
        folder: gets one folder a seed.
        shared: the data and the users, where they have been loaded before.
    """

    def __init__(
        self, preset: Preset, folder: Path, shared: tuple[Dataset, SimulatedUsers] | None = None
    ) -> None:
        self.preset = preset
        self.world = world(preset.ground(0)) if shared is None else shared
        self._folder = folder
        self._laid: dict[int, Setup] = {}
        self._locks = {seed: threading.Lock() for seed in preset.seeds}

    def __call__(self, seed: int) -> Setup:
        """The setup of a seed."""
        with self._locks[seed]:
            if seed not in self._laid:
                self._laid[seed] = self._read_or_lay(seed)
            return self._laid[seed]

    def is_laid(self, seed: int) -> bool:
        """Whether an earlier call has done the work."""
        return (self._folder / f"seed-{seed}" / BOUNDS).exists()

    def bounds(self, seed: int) -> Bounds:
        """What the runs of a seed are compared with."""
        self(seed)
        return read_bounds(self._folder / f"seed-{seed}")

    def _read_or_lay(self, seed: int) -> Setup:
        folder, (collection, users) = self._folder / f"seed-{seed}", self.world
        if self.is_laid(seed):
            return Setup(collection, users, load(folder / START), read_facts(folder))
        spec = self.preset.ground(seed)
        setup = build_setup(spec, on=self.world)
        full = production_ranker(collection, n_queries=collection.train.n_queries, seed=seed)
        test = collection.test
        assert setup.facts.full_information is not None  # specs ask for it unless told otherwise
        bounds = Bounds(
            random=setup.facts.random,
            production=setup.facts.start,
            full_information=policy_metrics(full.scores(test.features), test, [spec.metric])[spec.metric],
            same_optimiser=setup.facts.full_information,
        )
        save(setup.start, folder / START)
        save(full, folder / FULL)
        write_whole(folder / FACTS, setup.facts.model_dump_json(indent=2).encode())
        # Last: where there are bounds, there is everything.
        write_whole(folder / BOUNDS, bounds.model_dump_json(indent=2).encode())
        return setup


def read_bounds(folder: Path) -> Bounds:
    """What the runs of a seed are compared with, from its folder."""
    return read_model(Bounds, folder / BOUNDS)


Laying = Callable[[int], Setup]
