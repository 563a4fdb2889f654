"""From a log to a ranker: counts, exposures, weights, training, in one call."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rankloop.data.prepare import counts_by_share
from rankloop.errors import DataError, RankloopError
from rankloop.estimators import Estimator
from rankloop.estimators import estimator as estimator_named
from rankloop.logs import Log, LogCounts, LogStatistics, split_of_log, statistics_of_log
from rankloop.logs.log_statistics import Source
from rankloop.models.specs import ModelSpec, model_spec
from rankloop.offline.policy_rankings import sorted_rank_weights
from rankloop.progress import Progress
from rankloop.ragged import segment_sum
from rankloop.statistics import Statistics
from rankloop.training import ROBUST, Epoch, Learning, Task, learn
from rankloop.types import Bias, Float64, Int64, Model

# Expected α below which a document's clicks say ever less of it.
SUPPORT_LEVELS = (1e-2, 1e-4, 1e-6)
# If more than this share of the documents was never shown, it is worth a note.
MANY_DOCUMENTS = 0.5


@dataclass(frozen=True)
class HeldOutEstimate:
    """What held-out clicks say of ways to rank the held-out queries: the estimated reward a query.

    Attributes:
        sorted: of documents sorted by the fitted model's scores.
        drawn: of rankings drawn from these scores, which is what training maximises.
        logged: of the rankings that the log shows.
        equal: of rankings in random order.
        gain: sorted − logged.
        gain_error: the standard error of the gain, over queries.
    """

    sorted: float
    drawn: float
    logged: float
    equal: float
    gain: float
    gain_error: float


@dataclass(frozen=True)
class Learned:
    """What one policy of the log gave to learn from.

    Attributes:
        policy_id: the policy.
        impressions: how many.
        queries: how many different queries came.
        clicks: how many.
        below: by level, the share of the documents of these queries whose expected α is below it.
    """

    policy_id: str
    impressions: int
    queries: int
    clicks: int
    below: dict[float, float]


@dataclass(frozen=True, eq=False)
class Fit:
    """A ranker that was fitted to a log, and what it was fitted with.

    Attributes:
        model: the ranker; it holds nothing of the bias.
        bias: how users click, as it was believed.
        history: every epoch, or every tree, with its held-out estimate.
        held_out: what the held-out clicks say in the end; the epoch was chosen by them, so that they flatter
            the model a little.
        spec: the name of what was trained.
        estimator: how clicks became weights.
        reward: what a rank is worth: ``dcg`` or ``clicks``.
        seed: of everything random.
        policies: what there was to learn from.
        train_queries: ids of the queries that it was fitted to.
        held_out_queries: ids of those that were held out.
        notes: what every report on it must say.
    """

    model: Model
    bias: Bias
    history: tuple[Epoch, ...]
    held_out: HeldOutEstimate
    spec: str
    estimator: str
    reward: str
    seed: int
    policies: tuple[Learned, ...]
    train_queries: tuple[str, ...]
    held_out_queries: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> Epoch:
        """The epoch whose model was kept."""
        return next(epoch for epoch in reversed(self.history) if epoch.best)

    def to_dict(self) -> dict[str, Any]:
        """The same for JSON, but for the queries, of which only the numbers are told."""
        return {
            "model": self.spec,
            "kind": self.model.kind,
            "fingerprint": self.model.fingerprint,
            "features": self.model.n_features,
            "estimator": self.estimator,
            "reward": self.reward,
            "seed": self.seed,
            "train_queries": len(self.train_queries),
            "held_out_queries": len(self.held_out_queries),
            "epochs": self.history[-1].number,
            "best_epoch": self.best.number,
            "held_out": asdict(self.held_out),
            "policies": [
                {**asdict(part), "below": {f"{level:g}": share for level, share in part.below.items()}}
                for part in self.policies
            ],
            "bias": {name: getattr(self.bias, name).tolist() for name in ("alpha", "beta", "examination")},
            "notes": list(self.notes),
        }


def fit(
    log: Log,
    bias: Bias,
    *,
    model: str | ModelSpec = "lightgbm",
    estimator: str | Estimator | None = None,
    validation: float = 0.2,
    learning: Learning = ROBUST,
    seed: int = 0,
    exposure: Source = "candidates",
    counts: LogCounts | None = None,
    engine: str = "duckdb",
    master: str | None = None,
    progress: Progress | None = None,
) -> Fit:
    """Fit a ranker to the clicks of a log.

    The log becomes statistics, a share of its queries is held out, the estimator turns clicks into one weight
    a document, and the model is trained on the exact expected reward:

        1/n Σ_q Σ_d w_d · E[θ_rank(d)]

    Trees grow from nothing and networks from their first parameters: no ranker is needed to begin with.

    Args:
        log: what `rankloop.logs.open_log` gives, with features.
        bias: how users click.
        model: ``lightgbm``, ``mlp`` or ``linear``, with options as in ``mlp(hidden=64-32)``.
        estimator: how clicks become weights; None: as `learning` says.
        validation: the share of the queries that is held out, to stop on.
        learning: optimiser, stopping and what a rank is worth. Its caution is left out: there is no policy to
            be cautious for.
        seed: of everything random: what is held out, first parameters, the order of queries.
        exposure: ``displays`` for policies that do not draw rankings from their scores.
        counts: what `rankloop.logs.count` gave with as many ranks as the bias has, if it was called before.
        engine: ``duckdb`` or ``spark``.
        master: where Spark runs.
        progress: told of every epoch, or of every tree.

    Raises:
        DataError: no features, features that are missing or not finite, an empty log, too few queries.
    """
    spec = model_spec(model) if isinstance(model, str) else model
    if estimator is not None:
        chosen = estimator_named(estimator) if isinstance(estimator, str) else estimator
        learning = replace(learning, estimator=chosen)
    if not 0.0 < validation < 1.0:
        raise RankloopError(f"validation is the share of the queries held out, between 0 and 1: {validation}")
    found = statistics_of_log(log, bias, exposure=exposure, counts=counts, engine=engine, master=master)
    split = split_of_log(log, found)
    rng = np.random.default_rng(seed)
    parts = _dealt(found.statistics, validation, rng)
    train, held_out = (found.statistics.select(part) for part in parts)
    problem = learning.problem((split.select(parts[0]), split.select(parts[1])), (train, held_out), bias)
    # Caution protects a policy that users already see; there is none here.
    settings = learning.settings.without_caution()
    training = learn(spec, problem, settings=settings, rng=rng, progress=progress)
    assert problem.held_out is not None  # clicks are always split in two
    return Fit(
        model=training.model,
        bias=bias,
        history=training.history,
        held_out=_held_out(training.model, problem.held_out, held_out),
        spec=str(spec),
        estimator=str(learning.estimator),
        reward=learning.reward,
        seed=seed,
        policies=tuple(_learned(found.statistics)),
        train_queries=tuple(found.query_ids[parts[0]].tolist()),
        held_out_queries=tuple(found.query_ids[parts[1]].tolist()),
        notes=(*found.notes, *_warnings(found)),
    )


def _dealt(statistics: Statistics, validation: float, rng: np.random.Generator) -> tuple[Int64, Int64]:
    """The numbers of the queries to train on and of those held out, of the queries that came at all."""
    came = np.flatnonzero(statistics.query_counts > 0)
    if len(came) < 2:
        raise DataError(
            f"only {len(came)} queries of the log ever came: one to learn from and one to hold out are the "
            f"least, and some hundreds are needed to learn anything"
        )
    first, _ = counts_by_share(len(came), (1.0 - validation, validation))
    order = rng.permutation(came)
    return np.sort(order[:first]), np.sort(order[first:])


def _held_out(model: Model, task: Task, statistics: Statistics) -> HeldOutEstimate:
    scores = model.scores(task.features)
    came = statistics.per_item(np.maximum(statistics.query_counts, 1))

    def values(earned: Float64) -> Float64:
        result: Float64 = segment_sum(task.doc_weights * earned, task.offsets)
        return result

    by_score = values(sorted_rank_weights(scores, task.offsets, task.rank_weights))
    logged = values(statistics.displays_by_rank @ task.rank_weights / came)
    gain = by_score - logged
    return HeldOutEstimate(
        sorted=float(by_score.mean()),
        drawn=task.value(scores),
        logged=float(logged.mean()),
        equal=task.value(np.zeros(len(scores))),
        gain=float(gain.mean()),
        gain_error=float(gain.std() / np.sqrt(len(gain))),
    )


def _learned(statistics: Statistics) -> list[Learned]:
    result = []
    for policy_id, policy in statistics.policies.items():
        alpha = policy.exposure.alpha[statistics.per_item(policy.query_counts) > 0]
        result.append(
            Learned(
                policy_id,
                policy.timesteps,
                int((policy.query_counts > 0).sum()),
                int(policy.clicks.sum()),
                {level: float((alpha < level).mean()) if len(alpha) else 0.0 for level in SUPPORT_LEVELS},
            )
        )
    return result


def _warnings(found: LogStatistics) -> list[str]:
    """What the log cannot teach."""
    statistics = found.statistics
    said = []
    places = np.add.reduceat(statistics.displays_by_rank > 0, statistics.offsets[:-1], dtype=np.int64)
    again = statistics.query_counts > 1
    if again.any() and not (places[again] > 1).any():
        said.append(
            "The log never explores: every query that came again had the same ranking, under every policy. "
            "Nothing is known of documents that were not shown, and the bias cannot be checked against the "
            "log: let a policy that varies its rankings log for a while."
        )
    displays = statistics.displays_by_rank[statistics.per_item(statistics.query_counts) > 0].sum(axis=1)
    never = float((displays == 0).mean())
    if never > MANY_DOCUMENTS:
        said.append(f"{never:.0%} of the documents of queries that came were never shown.")
    return said
