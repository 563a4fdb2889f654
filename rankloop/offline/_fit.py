"""From a log to a ranker: counts, exposures, weights, training."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import numpy as np

from rankloop import extras
from rankloop.errors import RankloopError
from rankloop.estimators import InterventionAware
from rankloop.logs import LogReader
from rankloop.logs.sanity import read_graded_clicks
from rankloop.models import LightGBMModel
from rankloop.models.feature_names import with_names
from rankloop.models.specs import (
    ON_CLICKS,
    LightGBMSpec,
    LinearSpec,
    MLPSpec,
    ModelSpec,
    TreeObjective,
    TwoTowerSpec,
    model_spec,
)
from rankloop.offline._evaluate import evaluate
from rankloop.offline.assumptions import BiasSource, assume_bias
from rankloop.offline.division import Division, Judge, Missing, Part, Turn, divide, parse_time
from rankloop.offline.fit_result import Fit, GuessReport, HeldOutEstimate, PolicyEvidence
from rankloop.offline.judged_scores import JudgedScores
from rankloop.progress import Progress, Update, report
from rankloop.relevance import ClickTask, train_network_on_clicks, train_trees_on_clicks
from rankloop.relevance.baselines import train_trees_on_rates, train_two_towers
from rankloop.relevance.click_model import QUERY_VARIANCE, calibrate_with_effects
from rankloop.relevance.cross_fit import TASK as GUESSING
from rankloop.relevance.guesses import TreeGuess
from rankloop.relevance.logged_order import CombinedTrees, LoggedOrder, combine_trees, imitate_order
from rankloop.statistics import Counts, Statistics
from rankloop.statistics.counts import EXPLORES
from rankloop.training import (
    DOUBLY_ROBUST,
    Epoch,
    Learning,
    Training,
    learn,
    learning_named,
)
from rankloop.types import Bias, Float64, Int64

# Levels of the expected α; clicks say less about a document the lower it is.
SUPPORT_LEVELS = (1e-2, 1e-4, 1e-6)
# From this many impressions per query on, what its own clicks say about a document outweighs what features
# say: the estimator's guess is worth half as many.
DENSE = 20
# Of networks on clicks: the optimiser and the patience of the default learning.
ON_CLICKS_SETTINGS = DOUBLY_ROBUST.settings.without_caution()
TWO_TOWER_NOTE = (
    "A two-tower model knows no bias: it learns an effect per position beside scores, and what the ranker "
    "that logged knew is confounded with it. Compare it with a fit that corrects clicks (mlp, lightgbm)."
)
# A larger share of documents that were never shown is worth a note.
MANY_DOCUMENTS = 0.5


def fit(
    log: LogReader,
    model: str | ModelSpec = "lightgbm",
    *,
    bias: BiasSource = None,
    learning: str | Learning = "doubly-robust",
    held_out: float | str | datetime = 0.2,
    judge: Judge = "folds",
    missing: Missing = "error",
    seed: int = 0,
    progress: Progress | None = None,
) -> Fit:
    """Fit a ranker to the clicks of a log.

    The log becomes statistics, the estimator turns clicks into one weight per document, and the model is
    trained to rank documents by these weights: trees on pairs of documents (`rankloop.objectives.metrics`),
    networks on the exact expected metric. Some queries decide when to stop.

    The model is judged as `rankloop.evaluate` does it, by clicks that it never saw. With ``folds``, each
    query is ranked by a model that was trained and stopped on other queries, in the same way as the model
    that is kept, which uses all queries.

    If displays have an amount, it takes the place of clicks (`rankloop.open_log` can choose otherwise); the
    bias is that of clicks all the same.

    Trees are grown from scratch and networks start from random parameters: no initial ranker is needed.
    Ctrl-C ends training, and the best model so far that some queries can judge is the result.

    Args:
        log: a log with features, as `rankloop.open_log` opens it.
        model: ``lightgbm``, ``mlp`` or ``linear``, with options as in ``mlp(hidden=64-32)``.
        bias: how users click: a bias, the path of a stored one, the name of simulated users, or None to
            estimate it from the log.
        learning: estimator, optimiser, stopping and metric: ``doubly-robust``, ``robust``, ``paper``,
            ``click-likelihood`` (of the clicks themselves) or a `Learning`. Its caution is not used: there is
            no deployed policy to be cautious about.
        held_out: what a model never sees: a share of the queries; or a time, to judge by the queries that
            first came then or later, and to train on the impressions before it (a date or a time, in UTC
            unless it says otherwise).
        judge: ``folds``: as many folds as the share fits into the queries, five for 0.2; takes as long as
            four to five such trainings. ``split``: the model that is kept never sees the share, for large
            logs. ``none``: it is not judged, and uses all queries. With a time, queries since then judge.
        missing: what happens to missing values of features in a model that cannot take them, which is every
            model but ``lightgbm``: ``error``, or replaced by ``zero`` or by the feature's ``mean``.
        seed: the random seed of the held-out queries, the initial parameters and the order of queries.
        progress: called after every epoch, with the `Epoch` as ``detail``, and while the bias is estimated.

    Raises:
        DataError: there are no features or they cannot be used, the log is empty, or it has too few queries.
    """
    spec = model_spec(model) if isinstance(model, str) else model
    chosen = learning_named(learning) if isinstance(learning, str) else learning
    guided = isinstance(chosen.estimator, InterventionAware) and chosen.estimator.guess == "model"
    if isinstance(spec, LightGBMSpec) or (guided and isinstance(chosen.guess, TreeGuess)):
        extras.require("trees")
    apart = held_out if isinstance(held_out, int | float) else parse_time(held_out)
    if isinstance(apart, int | float) and not 0.0 < apart < 1.0:
        raise RankloopError(f"the share of the queries to hold out is between 0 and 1, got {apart}")
    if isinstance(apart, datetime) and log.engine == "postgres":
        raise RankloopError(
            "a log whose impressions are in PostgreSQL cannot be divided by time: hold out a share of the "
            "queries instead, or write the impressions into the folder of the log and use another engine"
        )
    assumed = assume_bias(log, bias, seed=seed, progress=progress)
    report(progress, "fit", note="counting")
    grading, graded_bias, counts = read_graded_clicks(log, assumed.bias)
    rng, is_tree = np.random.default_rng(seed), isinstance(spec, LightGBMSpec)
    divided = divide(
        log, graded_bias, apart, rng, judge=judge, trees=is_tree, missing=missing, grading=grading
    )
    trained = _train_all(spec, chosen, divided, graded_bias, rng=rng, progress=progress)
    training, turn = trained.kept.training, trained.turn
    notes = (
        *grading.notes,
        *assumed.notes,
        *divided.found.notes,
        *divided.notes,
        *_warnings(divided.found.statistics, counts),
        *trained.kept.notes,
        *_describe_no_trees(training, trained.documents),
    )
    if trained.interrupted:
        notes = (*notes, _describe_interruption(trained, divided))
    result = Fit(
        model=with_names(training.model, divided.names, divided.whole.categories),
        bias=assumed.bias,
        history=training.history,
        held_out=None,
        spec=str(spec),
        estimator=str(chosen.estimator),
        metric=chosen.metric,
        seed=seed,
        policies=tuple(_evidence(divided.found.statistics, counts)),
        log=log.fingerprint,
        train_queries=tuple(divided.learned.query_ids[turn.train].tolist()),
        stop_queries=tuple(divided.learned.query_ids[turn.stop].tolist()),
        held_out_queries=tuple(divided.whole.query_ids[trained.judged].tolist()),
        judged_scores=trained.scores,
        notes=notes,
        feature_names=divided.names,
        fill_values=divided.fill_values,
        bias_details=assumed.details,
        guess=trained.kept.guess,
        name=str(spec),
        target=grading.target,
    )
    if not len(trained.judged):
        return result
    # The policy that logged last is the one that a new ranker would replace.
    against = _latest_policy(divided.whole.statistics.select(trained.judged), log.policy_ids)
    compared = evaluate(log, result, against, progress=progress)
    return replace(result, held_out=HeldOutEstimate.of(compared), comparison=compared)


class _Outcome(NamedTuple):
    """The model that is kept, and what judges it.

    Attributes:
        kept: its training.
        turn: the queries of its training.
        documents: how many documents it was trained on.
        judged: the numbers of the queries that judge it.
        scores: those of the models of the folds, if they judge it.
        interrupted: whether Ctrl-C ended the training.
    """

    kept: _Trained
    turn: Turn
    documents: int
    judged: Int64
    scores: JudgedScores | None = None
    interrupted: bool = False


def _train_all(
    spec: ModelSpec,
    learning: Learning,
    divided: Division,
    bias: Bias,
    *,
    rng: np.random.Generator,
    progress: Progress | None,
) -> _Outcome:
    """Train the models of the folds, whose scores judge, and then the model that is kept.

    Ctrl-C ends it with the best model so far that some queries can judge: that of the first fold.
    """
    watched = _describe_epochs(progress, f"fit {spec}", len(divided.folds) + 1)
    first: _Outcome | None = None
    scores = np.zeros(divided.whole.split.n_documents)
    generators = rng.spawn(len(divided.folds))

    def train(turn: Turn, generator: np.random.Generator, *, keep: bool) -> _Outcome:
        parts = divided.learned.select(turn.train), divided.learned.select(turn.stop)
        found = _train(spec, learning, parts, bias, rng=generator, keep=keep, progress=watched)
        stopped = found.training.interrupted
        return _Outcome(found, turn, parts[0].split.n_documents, turn.judged, interrupted=stopped)

    try:
        for turn, generator in zip(divided.folds, generators, strict=True):
            one = train(turn, generator, keep=first is None)
            if one.interrupted:
                return one
            first = first or one
            own = divided.whole.documents_of(turn.judged)
            scores[own] = one.kept.training.model.scores(divided.whole.split.features[own])
        kept = train(divided.kept, rng, keep=first is None)
    except KeyboardInterrupt:
        if first is None:
            raise
        return first._replace(interrupted=True)
    if not divided.folds:
        return kept
    judged = np.sort(np.concatenate([turn.judged for turn in divided.folds]))
    return kept._replace(judged=judged, scores=_judged_scores(divided, judged, scores))


def _judged_scores(divided: Division, judged: Int64, scores: Float64) -> JudgedScores:
    part, documents = divided.whole, divided.whole.documents_of(judged)
    return JudgedScores(
        np.repeat(part.query_ids, np.diff(part.split.offsets))[documents],
        divided.found.doc_ids[documents],
        scores[documents],
        len(divided.folds),
    )


def _describe_interruption(found: _Outcome, divided: Division) -> str:
    if not divided.folds:
        return f"Training was interrupted: the best model of {len(found.kept.training.history) - 1} rounds."
    return (
        f"Training was interrupted: the model is that of the first of {len(divided.folds)} folds, of "
        f"{len(found.kept.training.history) - 1} rounds, which was trained on {len(found.turn.train):,} "
        f"queries, stopped on {len(found.turn.stop):,}, and is judged on {len(found.judged):,} others."
    )


class _Trained(NamedTuple):
    training: Training
    guess: GuessReport | None
    notes: tuple[str, ...] = ()


def _train(
    spec: ModelSpec,
    learning: Learning,
    parts: tuple[Part, Part],
    bias: Bias,
    *,
    rng: np.random.Generator,
    keep: bool,
    progress: Progress | None,
) -> _Trained:
    """Train one model.

    Args:
        spec: the model.
        learning: estimator, optimiser, stopping and metric.
        parts: what to train on, and what to stop by.
        bias: how displays gain their worth.
        rng: draws whatever is random.
        keep: whether Ctrl-C ends training with the best model so far.
        progress: called after every epoch.
    """
    if learning.cross_fitted and isinstance(spec, MLPSpec | LinearSpec | LightGBMSpec):
        spec = replace(spec, objective="click-likelihood") if spec.objective == "auto" else spec
    if isinstance(spec, LightGBMSpec) and spec.objective == "auto":
        spec = replace(spec, objective=_choose_objective(parts[0].statistics, learning))
    if isinstance(spec, TwoTowerSpec) or getattr(spec, "objective", None) in ON_CLICKS:
        return _train_on_clicks(spec, parts, bias, rng=rng, keep=keep, progress=progress)
    splits, statistics = (parts[0].split, parts[1].split), (parts[0].statistics, parts[1].statistics)
    problem = learning.problem(splits, statistics, bias, progress=progress)
    # Caution protects a deployed policy; there is none here.
    settings = learning.settings.without_caution()
    training = learn(spec, problem, settings=settings, rng=rng, progress=progress, keep_if_interrupted=keep)
    guess = problem.guess
    found = None if guess is None or guess.calibration is None else GuessReport(guess.spec, guess.calibration)
    return _Trained(training, found)


def _train_on_clicks(
    spec: ModelSpec,
    parts: tuple[Part, Part],
    bias: Bias,
    *,
    rng: np.random.Generator,
    keep: bool,
    progress: Progress | None,
) -> _Trained:
    """Train on the clicks by rank instead of on weights of documents."""
    train, held_out = (
        ClickTask.of(
            part.split.features,
            part.statistics,
            bias,
            variance=QUERY_VARIANCE,
            categorical=part.split.categorical,
        )
        for part in parts
    )
    if isinstance(spec, LightGBMSpec):
        if spec.objective == "click-likelihood":
            return _grow_on_clicks(spec, parts, (train, held_out), rng=rng, keep=keep, progress=progress)
        rated = train_trees_on_rates(
            train, held_out, spec, rng=rng, progress=progress, keep_if_interrupted=keep
        )
        return _Trained(rated, None)
    start = spec.initialise(train.features.shape[1], rng)
    if isinstance(spec, TwoTowerSpec):
        towers = train_two_towers(
            start,
            train,
            held_out=held_out,
            settings=ON_CLICKS_SETTINGS,
            rng=rng,
            progress=progress,
            keep_if_interrupted=keep,
        )
        return _Trained(towers, None, (TWO_TOWER_NOTE,))
    training = train_network_on_clicks(
        start,
        train,
        held_out=held_out,
        settings=ON_CLICKS_SETTINGS,
        rng=rng,
        progress=progress,
        keep_if_interrupted=keep,
        keep_start=False,
    )
    quality = calibrate_with_effects(training.model.scores(held_out.features), held_out.model)
    return _Trained(training, GuessReport(str(spec), quality))


def _grow_on_clicks(
    spec: LightGBMSpec,
    parts: tuple[Part, Part],
    tasks: tuple[ClickTask, ClickTask],
    *,
    rng: np.random.Generator,
    keep: bool,
    progress: Progress | None,
) -> _Trained:
    """Grow trees on the likelihood of clicks, and add what the logging policies know if clicks support it."""
    train, held_out = tasks
    training = train_trees_on_clicks(
        train, held_out, spec, rng=rng, progress=progress, keep_if_interrupted=keep
    )
    grown, start = training.model, train.model.mean_score
    notes: tuple[str, ...] = ()
    assert isinstance(grown, LightGBMModel)
    if spec.imitate and not training.interrupted:
        try:
            orders = [LoggedOrder.of(part.split, part.statistics, rng) for part in parts]
            on_order = imitate_order((orders[0], orders[1]), rng, progress=progress)
            found = combine_trees(grown, on_order, held_out, start=start)
        except KeyboardInterrupt:
            if not keep:
                raise
            # The trees on clicks are complete: they are the best model so far.
            training = replace(training, interrupted=True)
        else:
            training, start = replace(training, model=found.model), found.offset
            notes = _describe_combination(found)
    # Trees on the likelihood of clicks guess relevance themselves.
    quality = calibrate_with_effects(training.model.scores(held_out.features) + start, held_out.model)
    return _Trained(training, GuessReport(str(spec), quality), notes)


def _describe_combination(found: CombinedTrees) -> tuple[str, ...]:
    if not found.order:
        return ()
    share = "alone" if not found.clicks else "in addition to what clicks say"
    return (
        f"The order in which documents were logged helps {share}: trees that imitate it are a part of the "
        f"model, which makes the held-out clicks more likely by {found.gain:.1f} nats.",
    )


def _describe_no_trees(training: Training, documents: int) -> tuple[str, ...]:
    if not isinstance(training.model, LightGBMModel) or training.model.n_trees or training.interrupted:
        return ()
    grown = len(training.history) > 1
    reason = (
        "no tree ranks the held-out queries better than equal scores do"
        if grown
        else f"the {documents:,} documents of the training queries are too few, or too much alike, to be "
        "divided into leaves"
    )
    return (
        f"The model has no trees, so all its scores are equal and it does not rank: {reason}. Use another "
        "model (linear), or collect more data.",
    )


def _choose_objective(statistics: Statistics, learning: Learning) -> TreeObjective:
    """What trees are grown on, by how often queries came; docs/results/fit.md has measurements."""
    if learning.name != DOUBLY_ROBUST.name:
        return "lambdarank"
    came = int((statistics.impressions_by_query > 0).sum())
    sparse = statistics.impressions < DENSE * came
    return "click-likelihood" if sparse else "lambdarank"


def _describe_epochs(progress: Progress | None, task: str, models: int) -> Progress | None:
    """Say which model is trained, and the share of all of them that is done.

    The value of the training objective, which is not in the units of `evaluate`, is left out of every note.
    """
    if progress is None:
        return None
    listener, best, model, last = progress, 0, 0, 0.0

    def describe(update: Update) -> None:
        nonlocal best, model, last
        if update.task == GUESSING:
            listener(update)
            return
        if isinstance(update.detail, Epoch):
            if update.detail.number == 0:
                model, best = model + 1, 0
            best = update.detail.number if update.detail.best else best
            which = "" if models == 1 else f"model {model} of {models}, "
            unit = update.note.split()[0]
            update = replace(update, note=f"{which}{unit} {update.detail.number}, best {best}")
        if update.share is not None:
            # Training may end early, and what follows it starts anew: the bar never goes back.
            last = max(last, (max(model - 1, 0) + update.share) / models)
            update = replace(update, share=last)
        listener(replace(update, task=task))

    return describe


def _latest_policy(statistics: Statistics, policy_ids: tuple[str, ...]) -> str:
    """The last policy, in the order of first impressions, that served some of these queries."""
    served = [policy for policy in policy_ids if statistics.policies[policy].impressions]
    return served[-1]


def _evidence(statistics: Statistics, counts: Counts) -> list[PolicyEvidence]:
    result = []
    for policy_id, policy in statistics.policies.items():
        alpha = policy.exposure.alpha[statistics.per_document(policy.impressions_by_query) > 0]
        result.append(
            PolicyEvidence(
                policy_id,
                policy.impressions,
                int((policy.impressions_by_query > 0).sum()),
                int(counts.clicks_of(counts.policy_ids.index(policy_id)).sum()),
                {level: float((alpha < level).mean()) if len(alpha) else 0.0 for level in SUPPORT_LEVELS},
            )
        )
    return result


def _warnings(statistics: Statistics, counts: Counts) -> list[str]:
    """What cannot be learned from the log."""
    warnings = []
    if not counts.explores():
        warnings.append(
            f"The log does not explore: of the queries that came again, fewer than {EXPLORES:.0%} ever had "
            "another ranking. Nothing is known about documents that were not shown, and the bias cannot be "
            "checked against the log: deploy a policy that varies its rankings for a while."
        )
    displays = statistics.displays_by_position[
        statistics.per_document(statistics.impressions_by_query) > 0
    ].sum(axis=1)
    never = float((displays == 0).mean())
    if never > MANY_DOCUMENTS:
        warnings.append(f"{never:.0%} of the documents of queries with impressions were never shown.")
    return warnings
