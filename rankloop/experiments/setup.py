"""What a run stands on: its data, its users, its starting policy, and what is known of them beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, ConfigDict

from rankloop import online
from rankloop.data import dataset
from rankloop.estimators import estimator
from rankloop.evaluation import policy_metrics
from rankloop.experiments.baselines import oracle
from rankloop.experiments.spec import RunSpec
from rankloop.experiments.starting_policy import Peakedness, starting_policy
from rankloop.loop import Loop
from rankloop.loop.exploration import exploration
from rankloop.loop.simulated_users import SimulatedUsers
from rankloop.progress import Progress, Update
from rankloop.training import LEARNING, Epoch
from rankloop.types import Dataset, Model

# Told what is being trained, after every epoch.
Watch = Callable[[str, Epoch], None]

STARTING, FULL_INFORMATION = "starting policy", "full information"


class Facts(BaseModel):
    """What is known of a run before its first interaction; with its rows, all that a report needs.

    Attributes:
        dataset: what the data set is called.
        features: how many a document has.
        queries: how many each split has.
        documents: likewise.
        alpha: what relevance adds to the chance of a click, by rank.
        beta: the chance of a click that relevance has nothing to do with, by rank.
        examination: the chance that a rank is looked at, by rank.
        start_kind: which kind of model the starting policy is.
        start_fingerprint: exactly which.
        start: the true metric of the starting policy, on the test queries.
        peakedness: how sure of itself it is, on the training and the validation queries.
        random: the true metric of uniformly random rankings.
        full_information: that of the policy learned from the true relevance; None if it was not asked for.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
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
    full_information: float | None


@dataclass(frozen=True, eq=False)
class Setup:
    """What runs may share that differ in how they learn alone.

    Attributes:
        collection: the data.
        users: who clicks, and on what.
        start: the starting policy.
        facts: what is known of all these.
    """

    collection: Dataset
    users: SimulatedUsers
    start: Model
    facts: Facts

    def loop(self, spec: RunSpec) -> Loop:
        """The loop that a spec spells, on these setup."""
        learning = LEARNING[spec.learning]
        if spec.caution is not None:
            learning = replace(learning, settings=replace(learning.settings, caution=spec.caution))
        return Loop(
            self.collection,
            self.users,
            self.start,
            spec.horizon,
            spec.intervention_times,
            spec.evaluation_times,
            learning=learning,
            estimator=None if spec.estimator is None else estimator(spec.estimator),
            exploration=None if spec.exploration is None else exploration(spec.exploration),
            method=None if spec.method is None else online.method(spec.method),
            floor=spec.floor,
            metric=spec.metric,
            seed=spec.seed,
        )


def world(spec: RunSpec) -> tuple[Dataset, SimulatedUsers]:
    """The data and the users of a spec."""
    collection = dataset(spec.data, fold=spec.fold)
    return collection, SimulatedUsers.of(collection, spec.users, relevance=spec.relevance)


def build_setup(
    spec: RunSpec, watch: Watch | None = None, *, on: tuple[Dataset, SimulatedUsers] | None = None
) -> Setup:
    """Load the data, train what has to be trained, and measure it.

    Args:
        spec: the run.
        watch: told of every epoch that is trained.
        on: the data and the users, where they have been loaded for another run.
    """
    collection, users = world(spec) if on is None else on

    def told(name: str) -> Progress | None:
        if watch is None:
            return None

        def tell(update: Update) -> None:
            assert isinstance(update.detail, Epoch)  # training reports its epochs
            watch(name, update.detail)

        return tell

    def true_value(model: Model) -> float:
        return _metric(model.scores(collection.test.features), collection, spec.metric)

    start = starting_policy(
        spec.start,
        collection,
        production_queries=spec.production_queries,
        temperature=spec.temperature,
        seed=spec.seed,
        progress=told(STARTING),
    )
    bound = None
    if spec.full_information:
        learning = LEARNING[spec.learning]
        bound = oracle(
            start,
            collection,
            users.relevance,
            learning.rank_weights(users.bias),
            settings=learning.settings,
            rng=np.random.default_rng(spec.seed),
            progress=told(FULL_INFORMATION),
        )
    logged = (collection.train, collection.validation)
    scores = np.concatenate([start.scores(split.features) for split in logged])
    splits = {name: getattr(collection, name) for name in ("train", "validation", "test")}
    facts = Facts(
        dataset=collection.name,
        features=collection.n_features,
        queries={name: split.n_queries for name, split in splits.items()},
        documents={name: split.n_docs for name, split in splits.items()},
        alpha=tuple(users.bias.alpha.tolist()),
        beta=tuple(users.bias.beta.tolist()),
        examination=tuple(users.bias.examination.tolist()),
        start_kind=start.kind,
        start_fingerprint=start.fingerprint,
        start=true_value(start),
        peakedness=Peakedness.of(scores, users.offsets, users.bias.alpha),
        random=_metric(np.zeros(collection.test.n_docs), collection, spec.metric),
        full_information=None if bound is None else true_value(bound),
    )
    return Setup(collection, users, start, facts)


def _metric(scores: object, collection: Dataset, metric: str) -> float:
    return policy_metrics(scores, collection.test, [metric])[metric]  # type: ignore[arg-type]
