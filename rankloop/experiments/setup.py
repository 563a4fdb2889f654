"""The setup of runs: data, users, starting policy and baselines, built once and shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict

from rankloop import online
from rankloop.data import dataset
from rankloop.data.by_name import GENERATED_DATA, is_generated
from rankloop.data.summary import dataset_fingerprint
from rankloop.errors import RankloopError
from rankloop.estimators import estimator
from rankloop.evaluation import policy_metrics, ranking_metrics
from rankloop.evidence import evidence
from rankloop.experiments.baselines import (
    SHARED_SEED,
    Peakedness,
    best_supervised,
    full_information,
    oracle,
    production_ranker,
    starting_policy,
)
from rankloop.experiments.files import FACTS, START, read_model
from rankloop.experiments.spec import AUTHORS, RunSpec
from rankloop.loop import Loop
from rankloop.loop.deployment import Deployment
from rankloop.loop.exploration import exploration
from rankloop.loop.simulated_users import SimulatedUsers
from rankloop.model_files import load, save
from rankloop.objectives import training_objective
from rankloop.progress import Progress, rename_task
from rankloop.storage.files import write_whole
from rankloop.training import LEARNING, Learning
from rankloop.types import Dataset, Model

# The baselines that know the truth: their names in specs, facts, tables, reports and file names.
ORACLE, SUPERVISED = "oracle", "supervised"
# Bounds of any learner; they are the same for all seeds, and have no file.
BEST_SUPERVISED, NOISE_FREE = "best_supervised", "noise_free"


class SetupFacts(BaseModel):
    """Facts about a run before its first impression; with its rows, all that a report needs.

    Attributes:
        dataset: name of the data set.
        data_fingerprint: a name for its content.
        features: number of features per document.
        queries: number of queries per split.
        documents: number of documents per split.
        alpha: α by rank: what relevance adds to the probability of a click.
        beta: β by rank: the probability of a click that does not depend on relevance.
        examination: the probability that a rank is examined, by rank.
        start_kind: the kind of model of the starting policy.
        start_fingerprint: the fingerprint of that model.
        start: the true metric of the starting policy on the test queries.
        peakedness: how peaked the starting policy is on the training and validation queries.
        random: the true metric of uniformly random rankings.
        oracle: the true metric of the oracle: the same learner and start, trained on the true relevance;
            None if it was not trained.
        supervised: the true metric of supervised learning from the labels of all training queries; None if
            it was not trained.
        best_supervised: that of a competent learner from the same labels, the same for all seeds; None if it
            was not trained.
        noise_free: that of the scores that generated the labels, without their noise; None if unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    dataset: str
    data_fingerprint: str
    features: int
    queries: dict[str, int]
    documents: dict[str, int]
    alpha: tuple[float, ...]
    beta: tuple[float, ...]
    examination: tuple[float, ...]
    start_kind: str
    start_fingerprint: str
    start: float
    peakedness: Peakedness
    random: float
    oracle: float | None
    supervised: float | None
    best_supervised: float | None = None
    noise_free: float | None = None


@dataclass(frozen=True, eq=False)
class Environment:
    """The data and the simulated users: what setups of all seeds share.

    Attributes:
        collection: the data.
        users: who clicks, and on what.
    """

    collection: Dataset
    users: SimulatedUsers
    _shared: dict[str, Model] = field(default_factory=dict, init=False, repr=False)
    _bounds: dict[str, dict[str, float]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def load(cls, spec: RunSpec) -> Environment:
        """Read or generate the data of a spec."""
        collection = dataset(spec.data, fold=spec.fold)
        return cls(collection, SimulatedUsers.of(collection, spec.users, relevance=spec.relevance))

    @cached_property
    def fingerprint(self) -> str:
        """A name for the content of the data."""
        return dataset_fingerprint(self.collection)

    def shared_supervised(self, progress: Progress | None = None) -> Model:
        """The supervised baseline as the authors' programs train it: one for all seeds, trained once."""
        if SUPERVISED not in self._shared:
            self._shared[SUPERVISED] = full_information(
                self.collection,
                self.users.relevance,
                self.users.bias,
                seed=SHARED_SEED,
                progress=progress,
            )
        return self._shared[SUPERVISED]

    def bounds(self, name: str, metric: str, progress: Progress | None = None) -> dict[str, float]:
        """The bounds that no start and no seed changes, by name; noise_free only where it is known.

        Args:
            name: the name of the data, which says how it was generated.
            metric: what they are measured by, on the test queries.
            progress: called after every epoch of training.
        """
        if metric not in self._bounds:
            model = best_supervised(self.collection, seed=SHARED_SEED, progress=progress)
            found = {BEST_SUPERVISED: self.value(model.scores(self.collection.test.features), metric)}
            if is_generated(name):
                scores = GENERATED_DATA.parse(name).noise_free_scores(self.collection.test.features)
                if scores is not None:
                    found[NOISE_FREE] = ranking_metrics(scores, self.collection.test, [metric])[metric]
            self._bounds[metric] = found
        return self._bounds[metric]

    def value(self, scores: object, metric: str) -> float:
        """The true metric of the policy of these scores, on the test queries."""
        return policy_metrics(scores, self.collection.test, [metric])[metric]  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Setup:
    """The common part of runs that differ only in how they learn.

    Attributes:
        environment: the data and the users.
        start: the starting policy.
        baselines: the baselines that were trained, by their names: ``oracle``, ``supervised``.
        facts: what is known of all these, including the values of the baselines.
    """

    environment: Environment
    start: Model
    baselines: Mapping[str, Model]
    facts: SetupFacts

    @classmethod
    def build(
        cls, spec: RunSpec, environment: Environment | None = None, progress: Progress | None = None
    ) -> Setup:
        """Train the starting policy and the baselines of a spec, and evaluate them.

        Args:
            spec: the run.
            environment: its data and users, if they have been loaded before.
            progress: called after every epoch of training.
        """
        env = Environment.load(spec) if environment is None else environment
        start = starting_policy(
            spec.start,
            env.collection,
            production_queries=spec.production_queries,
            supervision=spec.supervision,
            temperature=spec.temperature,
            seed=spec.seed,
            progress=progress,
        )
        baselines: dict[str, Model] = {}
        if spec.oracle:
            baselines[ORACLE] = oracle(
                start,
                env.collection,
                env.users.relevance,
                _learning(spec),
                env.users.bias,
                rng=np.random.default_rng(spec.seed),
                progress=rename_task(progress, ORACLE),
            )
        if spec.supervised and spec.supervision == AUTHORS:
            baselines[SUPERVISED] = env.shared_supervised(rename_task(progress, SUPERVISED))
        elif spec.supervised:
            baselines[SUPERVISED] = production_ranker(
                env.collection,
                n_queries=env.collection.train.n_queries,
                seed=spec.seed,
                progress=rename_task(progress, SUPERVISED),
            )
        bounds = {}
        if spec.supervised:
            bounds = env.bounds(spec.data, spec.metric, rename_task(progress, SUPERVISED))
        facts = _facts(spec, env, start, baselines).model_copy(update=bounds)
        return cls(env, start, baselines, facts)

    @classmethod
    def read(cls, folder: Path, environment: Environment) -> Setup:
        """Read the setup that `save` wrote to a folder.

        Raises:
            RankloopError: a file is missing or damaged, or the data has changed since.
        """
        paths = {name: folder / f"{name}.rankloop" for name in (ORACLE, SUPERVISED)}
        baselines = {name: load(path) for name, path in paths.items() if path.exists()}
        facts, start = read_facts(folder), load(folder / START)
        if facts.data_fingerprint != environment.fingerprint:
            raise RankloopError(
                f"{folder}: the data {facts.dataset!r} has changed since this was begun (its fingerprint is "
                f"{environment.fingerprint}, and was {facts.data_fingerprint}): restore the data, or choose "
                f"another folder"
            )
        if facts.start_fingerprint != start.fingerprint:
            raise RankloopError(
                f"{folder / START} is not the starting policy that this was begun with (its fingerprint is "
                f"{start.fingerprint}, not {facts.start_fingerprint}): choose another folder, or remove this "
                f"one"
            )
        return cls(environment, start, baselines, facts)

    @classmethod
    def read_or_build(
        cls, spec: RunSpec, folder: Path, environment: Environment, progress: Progress | None = None
    ) -> Setup:
        """Read the setup from a folder; if it is not there yet, build it and save it there."""
        if is_saved(folder):
            return cls.read(folder, environment)
        setup = cls.build(spec, environment, progress)
        setup.save(folder)
        return setup

    def save(self, folder: Path) -> None:
        """Write everything but the data to a folder."""
        save(self.start, folder / START)
        for name, model in self.baselines.items():
            save(model, folder / f"{name}.rankloop")
        # Last: where there are facts, there is the whole setup.
        write_whole(
            folder / FACTS,
            self.facts.model_dump_json(indent=2).encode(),
            read_back=partial(read_model, SetupFacts),
        )

    def loop(self, spec: RunSpec) -> Loop:
        """The loop that a spec describes, with this setup."""
        return Loop(
            self.environment.collection,
            self.environment.users,
            self.start,
            spec.horizon,
            spec.intervention_times,
            spec.evaluation_times,
            learning=_learning(spec),
            estimator=None if spec.estimator is None else estimator(spec.estimator),
            exploration=None if spec.exploration is None else exploration(spec.exploration),
            deployment=None if spec.evidence is None else Deployment(evidence=evidence(spec.evidence)),
            method=None if spec.method is None else online.method(spec.method),
            floor=spec.floor,
            metric=spec.metric,
            seed=spec.seed,
        )


def _learning(spec: RunSpec) -> Learning:
    """The preset of a spec, with what the spec changes."""
    learning = LEARNING[spec.learning]
    if spec.objective is not None:
        learning = replace(learning, objective=training_objective(spec.objective))
    if spec.caution is not None:
        learning = replace(learning, settings=replace(learning.settings, caution=spec.caution))
    return learning


def is_saved(folder: Path) -> bool:
    """Return whether a folder contains a setup."""
    return (folder / FACTS).exists()


def read_facts(folder: Path) -> SetupFacts:
    """The facts of the setup, or of the run, in a folder."""
    return read_model(SetupFacts, folder / FACTS)


def _facts(spec: RunSpec, env: Environment, start: Model, baselines: Mapping[str, Model]) -> SetupFacts:
    collection, users = env.collection, env.users
    test = collection.test.features
    values = {name: env.value(model.scores(test), spec.metric) for name, model in baselines.items()}
    logged = (collection.train, collection.validation)
    scores = np.concatenate([start.scores(split.features) for split in logged])
    splits = {name: getattr(collection, name) for name in ("train", "validation", "test")}
    return SetupFacts(
        dataset=collection.name,
        data_fingerprint=env.fingerprint,
        features=collection.n_features,
        queries={name: split.n_queries for name, split in splits.items()},
        documents={name: split.n_documents for name, split in splits.items()},
        alpha=tuple(users.bias.alpha.tolist()),
        beta=tuple(users.bias.beta.tolist()),
        examination=tuple(users.bias.examination.tolist()),
        start_kind=start.kind,
        start_fingerprint=start.fingerprint,
        start=env.value(start.scores(test), spec.metric),
        peakedness=Peakedness.of(scores, users.offsets, users.bias.alpha),
        random=env.value(np.zeros(collection.test.n_documents), spec.metric),
        oracle=values.get(ORACLE),
        supervised=values.get(SUPERVISED),
    )
