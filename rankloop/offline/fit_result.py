"""A ranker that was fitted to a log, with everything that belongs to it: how it is stored and loaded.

A stored fit is a folder:

    model.rankloop   the model; LightGBM's opens in any LightGBM
    bias.json        the bias that was assumed, with its intervals if it was estimated
    fit.json         everything else: options, history, estimates, and the ids of the queries
    judged.parquet   scores by which its own log judges it: of each query, by a model that never saw the query
    report.html      the page, if one was written (`rankloop.write_report`)

It remembers the queries that it was fitted to: `judge_on` chooses those that it may be judged on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

from rankloop.bias.storage import bias_from_text, bias_to_text
from rankloop.errors import DataError, ModelFileError
from rankloop.evidence.self_test import SelfTest
from rankloop.exchange import Export, ExportFormat, PolicySource, write_model
from rankloop.model_files import load
from rankloop.models.storage import model_to_bytes
from rankloop.notebook import NotebookResult
from rankloop.relevance.click_model import Calibration
from rankloop.statistics import Counts
from rankloop.storage.files import check_folder, write_folder
from rankloop.storage.fingerprints import fingerprint
from rankloop.storage.plain import from_plain, to_json, to_plain
from rankloop.training import Epoch
from rankloop.types import Bias, Model

if TYPE_CHECKING:
    from rankloop.offline.comparison import Comparison
    from rankloop.offline.judged_scores import JudgedScores
    from rankloop.value.uncertainty import ValueInterval

FORMAT, VERSION = "rankloop-fit", 5
MODEL_FILE, BIAS_FILE, FIT_FILE, PAGE_FILE = "model.rankloop", "bias.json", "fit.json", "report.html"
SCORES_FILE = "judged.parquet"
# Where `rankloop pipeline` stores its fit, in its own folder.
PIPELINE_FIT = "policy"
FILES = (MODEL_FILE, BIAS_FILE, FIT_FILE, PAGE_FILE, SCORES_FILE)


@dataclass(frozen=True)
class PolicyEvidence:
    """What there was to learn from one policy of the log.

    Attributes:
        policy_id: the policy.
        impressions: the number of impressions.
        queries: the number of different queries.
        clicks: the number of clicks.
        below: by level, the share of the documents of these queries whose expected α is below it.
    """

    policy_id: str
    impressions: int
    queries: int
    clicks: int
    below: dict[float, float]


@dataclass(frozen=True)
class GuessReport:
    """What guessed the relevance of documents from their features, and how good the guesses are.

    Attributes:
        name: the name of the model that guesses.
        calibration: how well its guesses explain clicks that they did not see.
    """

    name: str
    calibration: Calibration


class ReportedEstimate(NamedTuple):
    """An estimate with its 90 % interval over queries."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, interval: ValueInterval) -> Self:
        """The interval that is reported."""
        return cls(float(interval.value), float(interval.low), float(interval.high))


@dataclass(frozen=True)
class HeldOutEstimate:
    """The values of a fit and of a policy of the log on held-out queries, as `rankloop.evaluate` gives them.

    Attributes:
        metric: what is estimated, per impression: ``dcg@5``.
        against: the policy of the log that the fit is compared with: the last one that logged.
        new: the value of documents sorted by the fitted model.
        old: the value of the policy of the log.
        gain: new − old.
        decision: the kind of the decision.
        text: the decision in sentences.
        queries: the number of held-out queries.
        impressions: the number of their impressions.
        guess_gain: what guesses of relevance add to them, in a sentence; empty if there are none.
        self_test: what the clicks of the log say about the assumptions; None if no row could be tested.
    """

    metric: str
    against: str
    new: ReportedEstimate
    old: ReportedEstimate
    gain: ReportedEstimate
    decision: str
    text: str
    queries: int
    impressions: int
    guess_gain: str = ""
    self_test: SelfTest | None = None

    @classmethod
    def of(cls, found: Comparison) -> Self:
        """Summarise a comparison."""
        return cls(
            metric=found.metric,
            against=found.against.name,
            new=ReportedEstimate.of(found.new.estimate),
            old=ReportedEstimate.of(found.against.estimate),
            gain=ReportedEstimate.of(found.difference.estimate),
            decision=str(found.decision.kind),
            text=found.conclusion,
            queries=found.queries,
            impressions=found.impressions,
            guess_gain=found.guesses.sentence(found.impressions),
            self_test=found.self_test,
        )


@dataclass(frozen=True, eq=False)
class Fit(NotebookResult):
    """A ranker that was fitted to a log, and what it was fitted with.

    Attributes:
        model: the ranker; it does not depend on the bias once it is trained.
        bias: how users click, as it was assumed.
        history: every epoch, or every tree, with the value of the training objective on held-out queries;
            its units are not those of `rankloop.evaluate`.
        held_out: what `rankloop.evaluate` says about it on the queries that judge it. None while it has not
            been evaluated.
        comparison: the whole evaluation that ``held_out`` summarises; not stored, so None after `load_fit`.
        spec: the name of the model that was trained.
        estimator: the name of the estimator that turned clicks into weights.
        metric: what a rank is worth: ``dcg`` or ``clicks``.
        seed: the random seed.
        policies: what there was to learn from, by policy.
        log: the fingerprint of the log.
        train_queries: ids of the queries that it was trained on.
        stop_queries: ids of the queries that decided when to stop.
        held_out_queries: ids of the queries that judge it; each is ranked by a model that never saw it.
        judged_scores: the scores of the documents of these queries, by models of several folds; None if the
            model itself never saw them.
        notes: caveats that every report must state.
        feature_names: the names of the features, if the log has them.
        fill_values: what replaces missing values of features, one per feature; None if nothing does.
        bias_details: how the bias was estimated, if it was (`rankloop.bias.storage.bias_details`).
        guess: what guessed relevance from features, and how well it explains clicks that it did not see; None
            if no such guess was used.
        name: the name of its folder if it was loaded from one, and else that of its model.
        target: what it was fitted to: ``clicks`` or ``amount``.
    """

    document: ClassVar[str] = "rankloop.reports.fit:fit_document"
    model: Model
    bias: Bias
    history: tuple[Epoch, ...] = field(repr=False)
    held_out: HeldOutEstimate | None
    spec: str
    estimator: str
    metric: str
    seed: int
    policies: tuple[PolicyEvidence, ...]
    log: str
    train_queries: tuple[str, ...] = field(repr=False)
    stop_queries: tuple[str, ...] = field(repr=False)
    held_out_queries: tuple[str, ...] = field(repr=False)
    judged_scores: JudgedScores | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    feature_names: tuple[str, ...] | None = None
    fill_values: tuple[float, ...] | None = None
    bias_details: Mapping[str, Any] | None = field(default=None, repr=False)
    guess: GuessReport | None = None
    name: str = ""
    target: str = "clicks"
    comparison: Comparison | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        learned = f"{len(self.train_queries):,} queries to learn and {len(self.stop_queries):,} to stop"
        judged = (
            "" if self.held_out is None else f", {self.held_out.decision} against {self.held_out.against}"
        )
        return f"Fit({self.spec!r}: {learned}{judged})"

    @property
    def best(self) -> Epoch:
        """The epoch whose model was kept."""
        return next(epoch for epoch in reversed(self.history) if epoch.best)

    def to_dict(self) -> dict[str, Any]:
        """A summary for JSON, with the numbers of queries rather than their ids."""
        content: dict[str, Any] = to_plain(
            {
                "model": self.spec,
                "kind": self.model.kind,
                "fingerprint": self.model.fingerprint,
                "features": self.model.n_features,
                "feature_names": self.feature_names,
                "fill_values": self.fill_values,
                "estimator": self.estimator,
                "metric": self.metric,
                "target": self.target,
                "seed": self.seed,
                "log": self.log,
                "train_queries": len(self.train_queries),
                "stop_queries": len(self.stop_queries),
                "held_out_queries": len(self.held_out_queries),
                "folds": None if self.judged_scores is None else self.judged_scores.folds,
                "epochs": self.history[-1].number,
                "best_epoch": self.best.number,
                "held_out": self.held_out,
                "guess": self.guess,
                "policies": self.policies,
                "bias": {name: getattr(self.bias, name) for name in ("alpha", "beta", "examination")},
                "notes": self.notes,
            }
        )
        return content

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Store the fit in a folder, whole or not at all; `load_fit` reads it back.

        An earlier fit in the same place is replaced; any other folder is left alone.

        Raises:
            RankloopError: the folder cannot be written, or `load_fit` could not read it.
        """
        content = {"format": FORMAT, "version": VERSION, **self.to_dict()}
        scores = None if self.judged_scores is None else self.judged_scores.to_bytes()
        content |= {
            "history": self.history,
            # JSON keeps any id as it is, line breaks included.
            "train_queries": self.train_queries,
            "stop_queries": self.stop_queries,
            "held_out_queries": self.held_out_queries,
            # Most damage to a Parquet file is read as other values.
            "judged_scores": None if scores is None else fingerprint(scores),
        }
        files = {
            MODEL_FILE: model_to_bytes(self.model),
            BIAS_FILE: bias_to_text(self.bias, self.bias_details).encode(),
            FIT_FILE: (to_json(content) + "\n").encode(),
            **({} if scores is None else {SCORES_FILE: scores}),
        }
        return write_folder(path, files, replaceable=FILES, read_back=load_fit)

    def has_seen(self, log: str, query_ids: Iterable[str]) -> int:
        """How many of these queries of a log the scores know by which it would be judged on that log.

        Args:
            log: the fingerprint of the log.
            query_ids: the queries.
        """
        if self.log != log or self.judged_scores is not None:
            return 0
        return len(set(query_ids).intersection((*self.train_queries, *self.stop_queries)))

    def export(self, to: str | ExportFormat, *, name: str = "rankloop") -> Export:
        """The ranker in the format of an engine; see `rankloop.export`."""
        return write_model(PolicySource(self.model, name, self.feature_names, self.fill_values), to)


def check_fit_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path at which `Fit.save` cannot write, before the work of fitting is done."""
    check_folder(path, replaceable=FILES)


def is_fit(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a stored fit, or of the folder of a pipeline that has one."""
    return any((folder / FIT_FILE).is_file() for folder in (Path(path), Path(path) / PIPELINE_FIT))


def load_fit(path: str | os.PathLike[str]) -> Fit:
    """Load the fit that `Fit.save` stored.

    Raises:
        ModelFileError: there is no fit at the path, or it is damaged.
    """
    folder = Path(path)
    if not is_fit(folder):
        raise ModelFileError(f"{folder} is not a fit: it is not a folder that contains {FIT_FILE}")
    if not (folder / FIT_FILE).is_file():
        folder /= PIPELINE_FIT
    model = load(folder / MODEL_FILE)
    try:
        content = json.loads((folder / FIT_FILE).read_text(encoding="utf-8"))
        bias_text = (folder / BIAS_FILE).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{folder}: the fit is damaged: {error}") from error
    if not isinstance(content, dict) or (content.get("format"), content.get("version")) != (FORMAT, VERSION):
        raise ModelFileError(f"{folder / FIT_FILE}: expected a file of format {FORMAT}, version {VERSION}")
    try:
        bias, details = bias_from_text(bias_text, str(folder / BIAS_FILE))
        fit = _from_dict(content, model, bias, details, folder.absolute().name)
        if content["judged_scores"] is not None:
            # Its tables need pyarrow, which models and exports do not.
            from rankloop.offline.judged_scores import JudgedScores

            scores = JudgedScores.read(folder / SCORES_FILE, content["judged_scores"])
            fit = replace(fit, judged_scores=scores)
    except (DataError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{folder / FIT_FILE}: the fit is damaged: {error!r}") from error
    if content["fingerprint"] != model.fingerprint:
        raise ModelFileError(
            f"{folder / MODEL_FILE}: this is not the model that was fitted (its fingerprint is "
            f"{model.fingerprint}, expected {content['fingerprint']}): copy the folder again"
        )
    return fit


def load_policy(path: str | os.PathLike[str]) -> Fit | Model:
    """Load a stored fit, or a stored model."""
    return load_fit(path) if is_fit(path) else load(path)


def _from_dict(
    content: Mapping[str, Any], model: Model, bias: Bias, details: Mapping[str, Any] | None, name: str
) -> Fit:
    names, fill, held_out = content["feature_names"], content["fill_values"], content["held_out"]
    guess = content["guess"]
    return Fit(
        model=model,
        bias=bias,
        history=from_plain(tuple[Epoch, ...], content["history"], "history"),
        held_out=None if held_out is None else from_plain(HeldOutEstimate, held_out, "held_out"),
        spec=content["model"],
        estimator=content["estimator"],
        metric=content["metric"],
        target=content["target"],
        seed=content["seed"],
        policies=from_plain(tuple[PolicyEvidence, ...], content["policies"], "policies"),
        log=content["log"],
        train_queries=tuple(content["train_queries"]),
        stop_queries=tuple(content["stop_queries"]),
        held_out_queries=tuple(content["held_out_queries"]),
        notes=tuple(content["notes"]),
        feature_names=None if names is None else tuple(names),
        fill_values=None if fill is None else tuple(fill),
        bias_details=details,
        guess=None if guess is None else from_plain(GuessReport, guess, "guess"),
        name=name,
    )


# None to leave out the queries that the policies were fitted to, "all" for all queries.
QueryChoice = Iterable[str] | Literal["all"] | None


class JudgedQueries(NamedTuple):
    """The queries of an evaluation.

    Attributes:
        ids: the ids of the queries; None for all queries of the log.
        notes: caveats that every report must state.
    """

    ids: tuple[str, ...] | None
    notes: tuple[str, ...]


def judge_on(queries: QueryChoice, policies: Iterable[object], counts: Counts) -> JudgedQueries:
    """The queries to judge policies on.

    Args:
        queries: the ids of the queries; ``all``; or None to choose the queries that were held out by policies
            that were fitted to this log, and all queries if there are no such policies.
        policies: what is judged; only those that are a `Fit` matter here.
        counts: the counts of the log.
    """
    fits = [policy for policy in policies if isinstance(policy, Fit)]
    own = [fit for fit in fits if fit.log == counts.fingerprint]
    notes = [_note_on_another_log(fit) for fit in fits if fit not in own and _may_contain(counts, fit)]
    if queries == "all":
        flattered = [fit for fit in own if fit.has_seen(counts.fingerprint, counts.query_ids.tolist())]
        return JudgedQueries(None, (*(_note_on_own_clicks(fit, "all queries") for fit in flattered), *notes))
    if queries is not None:
        ids = tuple(queries)
        seen = {fit: fit.has_seen(counts.fingerprint, ids) for fit in own}
        known = (_note_on_own_clicks(fit, f"{n:,} of the queries") for fit, n in seen.items() if n)
        return JudgedQueries(ids, (*known, *notes))
    if not own:
        return JudgedQueries(None, tuple(notes))
    for fit in own:
        if not fit.held_out_queries:
            raise DataError(
                f"{name_of(fit)} was fitted to all queries of this log, and none judges it: fit it with "
                f"judge='folds' or 'split' (`--judge folds`), or evaluate it on another log"
            )
    held_out = set(own[0].held_out_queries).intersection(*(fit.held_out_queries for fit in own[1:]))
    if not held_out:
        raise DataError(
            "both policies were fitted to this log, and no query was held out by both: fit them with the "
            "same seed and the same share of held-out queries, or evaluate on another log"
        )
    return JudgedQueries(tuple(sorted(held_out)), (*_how_judged(own, len(held_out)), *notes))


def _how_judged(fits: list[Fit], queries: int) -> list[str]:
    """What ranks the queries that judge each fit."""
    names = {fit: name_of(fit) for fit in fits}
    apart = " and ".join(dict.fromkeys(names[fit] for fit in fits if fit.judged_scores is None))
    notes = []
    if apart:
        notes.append(f"Estimated on the {queries:,} queries of this log that {apart} was not fitted to.")
    notes += [
        f"{names[fit]} was fitted to this log. Each of its {queries:,} queries is ranked by one of "
        f"{fit.judged_scores.folds} models that were trained in the same way and never saw it."
        for fit in fits
        if fit.judged_scores is not None
    ]
    return list(dict.fromkeys(notes))


def name_of(fit: Fit) -> str:
    """What reports call a fit."""
    return fit.name or fit.model.fingerprint


def _note_on_own_clicks(fit: Fit, which: str) -> str:
    return (
        f"{name_of(fit)} was fitted to clicks on {which} of this evaluation, so its estimate is too high: "
        f"leave out the choice of queries to use those that it held out."
    )


def _note_on_another_log(fit: Fit) -> str:
    return (
        f"{name_of(fit)} was fitted to another log. If the impressions of that log are part of this one, its "
        f"estimate is too high."
    )


def _may_contain(counts: Counts, fit: Fit) -> bool:
    """Whether a log has as many impressions of every policy as the log that a policy was fitted to."""
    impressions = dict(zip(counts.policy_ids, counts.impressions_by_policy.sum(axis=1).tolist(), strict=True))
    return all(impressions.get(part.policy_id, 0) >= part.impressions for part in fit.policies)
