"""A ranker that was fitted to a log, with everything that belongs to it: how it is stored and loaded.

A stored fit is a folder:

    model.rankloop   the model; LightGBM's opens in any LightGBM
    bias.json        the bias that was assumed, with its intervals if it was estimated
    fit.json         everything else: options, history, estimates, and the ids of the queries
    report.html      the page, if one was written (`rankloop.write_report`)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rankloop.bias.storage import bias_from_text, bias_to_text
from rankloop.errors import DataError, ModelFileError
from rankloop.exchange import Export, ExportFormat, PolicySource, write_model
from rankloop.model_files import load
from rankloop.models.storage import model_to_bytes
from rankloop.notebook import NotebookResult
from rankloop.offline.held_out_estimate import HeldOutEstimate
from rankloop.storage.folders import check_folder, write_folder
from rankloop.training import Calibration, Epoch
from rankloop.training.calibration import ReliabilityRow
from rankloop.types import Bias, Model

if TYPE_CHECKING:
    from rankloop.offline.comparison import Comparison

FORMAT, VERSION = "rankloop-fit", 3
MODEL_FILE, BIAS_FILE, FIT_FILE, PAGE_FILE = "model.rankloop", "bias.json", "fit.json", "report.html"
FILES = (MODEL_FILE, BIAS_FILE, FIT_FILE, PAGE_FILE)


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

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` gives, after JSON."""
        found = content["calibration"]
        rows = tuple(ReliabilityRow(**row) for row in found["rows"])
        return cls(content["name"], Calibration(**{**found, "rows": rows}))


@dataclass(frozen=True, eq=False)
class Fit(NotebookResult):
    """A ranker that was fitted to a log, and what it was fitted with.

    Attributes:
        model: the ranker; it does not depend on the bias once it is trained.
        bias: how users click, as it was assumed.
        history: every epoch, or every tree, with the value of the training objective on held-out queries;
            its units are not those of `rankloop.evaluate`.
        held_out: what `rankloop.evaluate` says about it on the held-out queries; the same clicks chose when
            to stop, so it is slightly optimistic. None while it has not been evaluated.
        comparison: the whole evaluation that ``held_out`` summarises; not stored, so None after `load_fit`.
        spec: the name of the model that was trained.
        estimator: the name of the estimator that turned clicks into weights.
        reward: what a rank is worth: ``dcg`` or ``clicks``.
        seed: the random seed.
        policies: what there was to learn from, by policy.
        log: the fingerprint of the log.
        train_queries: ids of the queries that it was fitted to.
        held_out_queries: ids of the queries that were held out.
        notes: caveats that every report must state.
        feature_names: the names of the features, if the log has them.
        fill_values: what replaces missing values of features, one per feature; None if nothing does.
        bias_details: how the bias was estimated, if it was (`rankloop.bias.storage.bias_details`).
        guess: what guessed relevance from features, and how well it explains clicks that it did not see; None
            if no such guess was used.
        name: the name of its folder if it was loaded from one, and else that of its model.
        target: what it was fitted to: ``clicks`` or ``signal``.
    """

    document: ClassVar[str] = "rankloop.reports.fit:fit_document"
    model: Model
    bias: Bias
    history: tuple[Epoch, ...] = field(repr=False)
    held_out: HeldOutEstimate | None
    spec: str
    estimator: str
    reward: str
    seed: int
    policies: tuple[PolicyEvidence, ...]
    log: str
    train_queries: tuple[str, ...] = field(repr=False)
    held_out_queries: tuple[str, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    feature_names: tuple[str, ...] | None = None
    fill_values: tuple[float, ...] | None = None
    bias_details: Mapping[str, Any] | None = field(default=None, repr=False)
    guess: GuessReport | None = None
    name: str = ""
    target: str = "clicks"
    comparison: Comparison | None = field(default=None, repr=False)

    @property
    def best(self) -> Epoch:
        """The epoch whose model was kept."""
        return next(epoch for epoch in reversed(self.history) if epoch.best)

    def to_dict(self) -> dict[str, Any]:
        """A summary for JSON, with the numbers of queries rather than their ids."""
        return {
            "model": self.spec,
            "kind": self.model.kind,
            "fingerprint": self.model.fingerprint,
            "features": self.model.n_features,
            "feature_names": None if self.feature_names is None else list(self.feature_names),
            "fill_values": None if self.fill_values is None else list(self.fill_values),
            "estimator": self.estimator,
            "reward": self.reward,
            "target": self.target,
            "seed": self.seed,
            "log": self.log,
            "train_queries": len(self.train_queries),
            "held_out_queries": len(self.held_out_queries),
            "epochs": self.history[-1].number,
            "best_epoch": self.best.number,
            "held_out": None if self.held_out is None else _plain(self.held_out),
            "guess": None if self.guess is None else asdict(self.guess),
            "policies": [
                {**asdict(part), "below": {f"{level:g}": share for level, share in part.below.items()}}
                for part in self.policies
            ],
            "bias": {name: getattr(self.bias, name).tolist() for name in ("alpha", "beta", "examination")},
            "notes": list(self.notes),
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Store the fit in a folder, whole or not at all; `load_fit` reads it back.

        An earlier fit in the same place is replaced; any other folder is left alone.
        """
        content = {"format": FORMAT, "version": VERSION, **self.to_dict()}
        content |= {
            "history": [asdict(epoch) for epoch in self.history],
            # JSON keeps any id as it is, line breaks included.
            "train_queries": list(self.train_queries),
            "held_out_queries": list(self.held_out_queries),
        }
        files = {
            MODEL_FILE: model_to_bytes(self.model),
            BIAS_FILE: bias_to_text(self.bias, self.bias_details).encode(),
            FIT_FILE: (json.dumps(content, indent=1) + "\n").encode(),
        }
        return write_folder(path, files, replaceable=FILES)

    def export(self, to: str | ExportFormat, *, name: str = "rankloop") -> Export:
        """The ranker in the format of an engine; see `rankloop.export`."""
        return write_model(PolicySource(self.model, name, self.feature_names, self.fill_values), to)


def check_fit_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path at which `Fit.save` cannot write, before the work of fitting is done."""
    check_folder(path, replaceable=FILES)


def is_fit(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a stored fit."""
    return (Path(path) / FIT_FILE).is_file()


def load_fit(path: str | os.PathLike[str]) -> Fit:
    """Load the fit that `Fit.save` stored.

    Raises:
        ModelFileError: there is no fit at the path, or it is damaged.
    """
    folder = Path(path)
    if not is_fit(folder):
        raise ModelFileError(f"{folder} is not a fit: it is not a folder that contains {FIT_FILE}")
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
    policies = (
        PolicyEvidence(**{**part, "below": {float(level): share for level, share in part["below"].items()}})
        for part in content["policies"]
    )
    names, fill, held_out = content["feature_names"], content["fill_values"], content["held_out"]
    return Fit(
        model=model,
        bias=bias,
        history=tuple(Epoch(**epoch) for epoch in content["history"]),
        held_out=None if held_out is None else HeldOutEstimate.from_dict(held_out),
        spec=content["model"],
        estimator=content["estimator"],
        reward=content["reward"],
        target=content["target"],
        seed=content["seed"],
        policies=tuple(policies),
        log=content["log"],
        train_queries=tuple(content["train_queries"]),
        held_out_queries=tuple(content["held_out_queries"]),
        notes=tuple(content["notes"]),
        feature_names=None if names is None else tuple(names),
        fill_values=None if fill is None else tuple(fill),
        bias_details=details,
        guess=None if content["guess"] is None else GuessReport.from_dict(content["guess"]),
        name=name,
    )


def _plain(held_out: HeldOutEstimate) -> dict[str, Any]:
    return {**asdict(held_out), **{name: list(getattr(held_out, name)) for name in ("new", "old", "gain")}}
