"""From a log to a ranker: counts, exposures, weights, training."""

from __future__ import annotations

import numpy as np

from rankloop.data.prepare import counts_by_share
from rankloop.errors import DataError, RankloopError
from rankloop.logs import LogReader, LogStatistics
from rankloop.models.feature_names import with_names
from rankloop.models.specs import LightGBMSpec, ModelSpec, model_spec
from rankloop.offline.assumed_bias import BiasSource, assume_bias
from rankloop.offline.earned_weights import sorted_rank_weights
from rankloop.offline.fit_result import Fit, HeldOutEstimate, PolicyEvidence
from rankloop.offline.model_inputs import Missing, learning_input
from rankloop.progress import Progress, rename_task, report
from rankloop.ragged import segment_sum
from rankloop.statistics import Statistics
from rankloop.training import Learning, Task, learn, learning_named
from rankloop.types import Float64, Int64, Model

# Levels of the expected α; clicks say less about a document the lower it is.
SUPPORT_LEVELS = (1e-2, 1e-4, 1e-6)
# A larger share of documents that were never shown is worth a note.
MANY_DOCUMENTS = 0.5


def fit(
    log: LogReader,
    model: str | ModelSpec = "lightgbm",
    *,
    bias: BiasSource = None,
    learning: str | Learning = "robust",
    validation: float = 0.2,
    missing: Missing = "error",
    seed: int = 0,
    progress: Progress | None = None,
) -> Fit:
    """Fit a ranker to the clicks of a log.

    The log becomes statistics, a share of its queries is held out, the estimator turns clicks into one weight
    per document, and the model is trained on the exact expected reward:

        1/n Σ_q Σ_d w_d · E[θ_rank(d)]

    Trees are grown from scratch and networks start from random parameters: no initial ranker is needed.

    Args:
        log: a log with features, as `rankloop.open_log` opens it.
        model: ``lightgbm``, ``mlp`` or ``linear``, with options as in ``mlp(hidden=64-32)``.
        bias: how users click: a bias, the path of a stored one, the name of simulated users, or None to
            estimate it from the log.
        learning: estimator, optimiser, stopping and reward: ``robust``, ``paper`` or a `Learning`. Its
            caution is not used: there is no deployed policy to be cautious about.
        validation: the share of the queries that is held out for early stopping.
        missing: what happens to missing values of features in a model that cannot take them, which is every
            model but ``lightgbm``: ``error``, or replaced by ``zero`` or by the feature's ``mean``.
        seed: the random seed of the held-out queries, the initial parameters and the order of queries.
        progress: called after every epoch, with the `Epoch` as ``detail``, and while the bias is estimated.

    Raises:
        DataError: there are no features or they cannot be used, the log is empty, or it has too few queries.
    """
    spec = model_spec(model) if isinstance(model, str) else model
    chosen = learning_named(learning) if isinstance(learning, str) else learning
    if not 0.0 < validation < 1.0:
        raise RankloopError(
            f"validation is the share of the queries to hold out, between 0 and 1, got {validation}"
        )
    assumed = assume_bias(log, bias, seed=seed, progress=progress)
    report(progress, "fit", note="counting")
    given = learning_input(log, assumed.bias, trees=isinstance(spec, LightGBMSpec), missing=missing)
    found, split = given.found, given.split
    rng = np.random.default_rng(seed)
    parts = _split_queries(found.statistics, validation, rng)
    train, held_out = (found.statistics.select(part) for part in parts)
    splits = (split.select(parts[0]), split.select(parts[1]))
    problem = chosen.problem(splits, (train, held_out), assumed.bias)
    # Caution protects a deployed policy; there is none here.
    settings = chosen.settings.without_caution()
    training = learn(spec, problem, settings=settings, rng=rng, progress=rename_task(progress, f"fit {spec}"))
    assert problem.held_out is not None  # clicks are always split in two
    named = with_names(training.model, given.names)
    return Fit(
        model=named,
        bias=assumed.bias,
        history=training.history,
        held_out=_estimate_held_out(named, problem.held_out, held_out),
        spec=str(spec),
        estimator=str(chosen.estimator),
        reward=chosen.reward,
        seed=seed,
        policies=tuple(_evidence(found.statistics)),
        log=log.fingerprint,
        train_queries=tuple(found.query_ids[parts[0]].tolist()),
        held_out_queries=tuple(found.query_ids[parts[1]].tolist()),
        notes=(*assumed.notes, *found.notes, *given.notes, *_warnings(found)),
        feature_names=given.names,
        fill_values=given.fill_values,
        bias_details=assumed.details,
    )


def _split_queries(
    statistics: Statistics, validation: float, rng: np.random.Generator
) -> tuple[Int64, Int64]:
    """The numbers of the queries to train on and to hold out, of those that have impressions."""
    came = np.flatnonzero(statistics.query_counts > 0)
    if len(came) < 2:
        raise DataError(
            f"only {len(came)} queries of the log have impressions: at least one to learn from and one to "
            f"hold out are required, and learning anything takes some hundreds"
        )
    first, _ = counts_by_share(len(came), (1.0 - validation, validation))
    order = rng.permutation(came)
    return np.sort(order[:first]), np.sort(order[first:])


def _estimate_held_out(model: Model, task: Task, statistics: Statistics) -> HeldOutEstimate:
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


def _evidence(statistics: Statistics) -> list[PolicyEvidence]:
    result = []
    for policy_id, policy in statistics.policies.items():
        alpha = policy.exposure.alpha[statistics.per_item(policy.query_counts) > 0]
        result.append(
            PolicyEvidence(
                policy_id,
                policy.timesteps,
                int((policy.query_counts > 0).sum()),
                int(policy.clicks.sum()),
                {level: float((alpha < level).mean()) if len(alpha) else 0.0 for level in SUPPORT_LEVELS},
            )
        )
    return result


def _warnings(found: LogStatistics) -> list[str]:
    """What cannot be learned from the log."""
    statistics = found.statistics
    warnings = []
    places = np.add.reduceat(statistics.displays_by_rank > 0, statistics.offsets[:-1], dtype=np.int64)
    again = statistics.query_counts > 1
    if again.any() and not (places[again] > 1).any():
        warnings.append(
            "The log never explores: every repeated query had the same ranking, under every policy. Nothing "
            "is known about documents that were not shown, and the bias cannot be checked against the log: "
            "deploy a policy that varies its rankings for a while."
        )
    displays = statistics.displays_by_rank[statistics.per_item(statistics.query_counts) > 0].sum(axis=1)
    never = float((displays == 0).mean())
    if never > MANY_DOCUMENTS:
        warnings.append(f"{never:.0%} of the documents of queries with impressions were never shown.")
    return warnings
