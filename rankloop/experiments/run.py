"""One run of the loop, as a spec and a folder: every event is written down, a run that was cut goes on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from rankloop._version import __version__
from rankloop.data import dataset
from rankloop.errors import RankloopError
from rankloop.estimators import estimator
from rankloop.experiments.figures import loop_curves
from rankloop.experiments.ladder import production_data, production_queries
from rankloop.exploration import exploration
from rankloop.files import load, write_whole
from rankloop.loop import LEARNING, Evaluated, Event, Loop, State, exponential_times
from rankloop.simulated import SimulatedUsers
from rankloop.training import train
from rankloop.types import Dataset, Model

SPEC, RESULTS, CHECKPOINT, FIGURE = "spec.json", "results.jsonl", "checkpoint.rankloop", "curves"
FIRST_INTERVENTION = 100


class RunSpec(BaseModel):
    """What a run is: with the same spec and version, the same results.

    Attributes:
        data: a path, or ``synthetic(…)``.
        fold: which fold, where the folder has several.
        users: who clicks, such as ``paper@5``.
        relevance: how a label becomes a chance, such as ``linear``.
        estimator: how clicks become weights.
        learning: ``robust`` or ``paper``.
        exploration: how soft the learned policy becomes when it logs.
        floor: the share of interactions that the starting policy goes on to serve.
        horizon: how many interactions there are in the end.
        interventions: how many new policies are deployed, at times on an exponential scale.
        production_queries: labelled queries that the starting policy is trained on; 0 for 1 % of them.
        start: the path of a stored model to start from instead.
        seed: of everything random.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str = "synthetic(queries=2000, features=100)"
    fold: int = 1
    users: str = "paper@5"
    relevance: str = "linear"
    estimator: str = "intervention-aware"
    learning: Literal["robust", "paper"] = "robust"
    exploration: str = "soft(by=0.1)"
    floor: float = Field(default=0.0, ge=0.0, lt=1.0)
    horizon: int = Field(default=1_000_000, ge=1)
    interventions: int = Field(default=20, ge=0)
    production_queries: int = Field(default=0, ge=0)
    start: str | None = None
    seed: int = Field(default=0, ge=0)

    def loop(self) -> Loop:
        """The loop that this spec spells, with its data loaded and its starting policy trained."""
        collection = dataset(self.data, fold=self.fold)
        first = min(FIRST_INTERVENTION, self.horizon)
        return Loop(
            collection,
            SimulatedUsers.of(collection, self.users, relevance=self.relevance),
            self._starting_policy(collection),
            self.horizon,
            exponential_times(first, self.horizon, self.interventions),
            estimator=estimator(self.estimator),
            learning=LEARNING[self.learning],
            exploration=exploration(self.exploration),
            floor=self.floor,
            seed=self.seed,
        )

    def _starting_policy(self, collection: Dataset) -> Model:
        if self.start is not None:
            return load(self.start)
        few = self.production_queries or production_queries(collection.train.n_queries)
        labelled = production_data(collection, few, np.random.default_rng(self.seed))
        return train(labelled, "mlp", seed=self.seed).model


def run(spec: RunSpec, folder: Path, watch: Callable[[Event], None] | None = None) -> list[dict[str, Any]]:
    """Run to the end, going on where an earlier call was cut; the measurements, one row an evaluation.

    The folder gets the spec, the rows as they come, a checkpoint after every event, and the curves.
    """
    text = json.dumps({"version": __version__, **spec.model_dump()}, indent=2)
    kept = folder / SPEC
    if kept.exists() and kept.read_text() != text:
        raise RankloopError(
            f"{folder} holds another run ({kept} differs): choose another folder, or remove it"
        )
    loop = spec.loop()
    write_whole(kept, text.encode())
    checkpoint, state, rows = folder / CHECKPOINT, None, []
    if checkpoint.exists():
        state = State.from_bytes(checkpoint.read_bytes())
        rows = _rows_until(folder / RESULTS, state)
    for event in loop.run(state):
        if isinstance(event, Evaluated):
            rows.append(_row(event))
            # Before the checkpoint: a row too many is cut off on the way back, one too few would be missing.
            write_whole(folder / RESULTS, "".join(json.dumps(row) + "\n" for row in rows).encode())
        write_whole(checkpoint, event.state.to_bytes())
        if watch is not None:
            watch(event)
    loop_curves(rows, str(loop.metric), folder / FIGURE)
    return rows


def _row(event: Evaluated) -> dict[str, Any]:
    return {
        "timesteps": event.timesteps,
        "learned": event.learned,
        "logging": event.logging,
        "estimate": event.estimate,
        "estimate_error": event.estimate_error,
        "scale": event.state.scale,
        "support": {f"{level:g}": share for level, share in event.support.items()},
    }


def _rows_until(path: Path, state: State) -> list[dict[str, Any]]:
    """The rows of the evaluations that this state has behind it."""
    behind = state.phase + (state.stage == "evaluated")
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines[:behind]]
