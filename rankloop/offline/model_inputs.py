"""What a model is given: features by name, missing values filled in, documents without features left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankloop.errors import DataError, RankloopError
from rankloop.logs import LogCounts, LogFolder, LogReader, LogStatistics
from rankloop.logs.feature_names import Names, match_features
from rankloop.logs.feature_tables import feature_name
from rankloop.logs.features import LogFeatures, read_features
from rankloop.logs.grading import CLICKS, Grading
from rankloop.logs.item_selection import keep_items
from rankloop.models.feature_names import names_of_model, scaling_of_model, takes_missing
from rankloop.models.lightgbm_text import spellable
from rankloop.offline.fit_result import Fit
from rankloop.types import Bias, Float32, Float64, Int64, Model, Split

Missing = Literal["error", "zero", "mean"]
MISSING = ("error", "zero", "mean")
# Documents without features rank below all others: their scores are this much lower, which no draw makes up.
BELOW_ALL = 100.0


@dataclass(frozen=True, eq=False)
class LearningInput:
    """The documents of a log that a model can be fitted to.

    Attributes:
        found: the statistics of these documents.
        split: their features, in the same order.
        names: the names of the features, if the log has them.
        fill_values: what replaces missing values, one per feature; None if the model takes them as they are,
            or if they are refused.
        notes: caveats that every report must state.
    """

    found: LogStatistics
    split: Split
    names: Names | None
    fill_values: tuple[float, ...] | None
    notes: tuple[str, ...]


def learning_input(
    log: LogReader, bias: Bias, *, trees: bool, missing: Missing = "error", grading: Grading = CLICKS
) -> LearningInput:
    """The statistics and features of a log's documents; those without features are left out.

    Args:
        log: a log with features.
        bias: how displays gain their worth: how users click, if displays are worth their clicks.
        trees: whether the model takes missing values as they are.
        missing: what happens to missing values otherwise: refuse them, or replace them by zero, or by the
            feature's mean over the log's documents.
        grading: what displays are worth.
    """
    if missing not in MISSING:
        raise RankloopError(f"missing must be {', '.join(MISSING[:-1])} or {MISSING[-1]}, not {missing!r}")
    found = grading.statistics(log, bias)
    features = read_features(log, found)
    fill = None if trees else _fill_values(features, found, missing)
    notes = []
    if not features.known.all():
        without, queries = int((~features.known).sum()), len(found.query_ids)
        found = keep_items(found, features.known)
        left = queries - len(found.query_ids)
        notes.append(
            f"{without:,} of {len(features.known):,} documents have no features and are left out"
            + (f", and with them {left:,} queries, all of whose documents have none." if left else ".")
        )
    values = features.values[features.known]
    if features.n_missing:
        notes.append(_missing_note(features, fill, missing))
        if fill is not None:
            values = np.where(np.isnan(values), np.asarray(fill, np.float32), values)
    split = Split(
        features=np.ascontiguousarray(values),
        labels=np.zeros(len(values)),
        offsets=found.offsets,
        query_ids=found.query_ids,
        doc_ids=found.doc_ids,
        missing=fill is None,
    )
    return LearningInput(found, split, features.names, fill, tuple(notes))


def _missing_note(features: LogFeatures, fill: tuple[float, ...] | None, missing: Missing) -> str:
    share = features.n_missing / features.values[features.known].size
    how = "trees take them as they are" if fill is None else f"they are replaced by the feature's {missing}"
    how = how.replace("the feature's zero", "zero")
    return f"{features.n_missing:,} values of features ({share:.1%}) are missing: {how}."


def _fill_values(features: LogFeatures, named: LogStatistics, missing: Missing) -> tuple[float, ...] | None:
    if missing == "error":
        if features.n_missing:
            raise DataError(
                f"{features.name_missing(named)} ({features.n_missing:,} values are): fit trees "
                f"(model='lightgbm'), which take missing values, or replace them (missing='zero' or 'mean', "
                f"`--missing mean`)"
            )
        return None
    width = int(features.values.shape[1])
    if missing == "zero":
        return (0.0,) * width
    known = features.values[features.known].astype(np.float64)
    present = ~np.isnan(known)
    sums = np.where(present, known, 0.0).sum(axis=0)
    means: Float32 = (sums / np.maximum(present.sum(axis=0), 1)).astype(np.float32)
    return tuple([float(mean) for mean in means])


class FeatureMatcher:
    """Gives a policy the features that it was fitted to: by name, in its order, missing values filled in.

    Args:
        policy: a fit or a model.
        name: the policy, for messages.

    Attributes:
        notes: caveats, such as that features had to be matched by their order.
    """

    def __init__(self, policy: Fit | Model, name: str) -> None:
        fit = policy if isinstance(policy, Fit) else None
        self.model: Model = policy.model if isinstance(policy, Fit) else policy
        self.wanted = names_of_model(self.model) if fit is None else fit.feature_names
        # A model that was not fitted here may use fewer features, and spell them in its own way.
        self._alone = fit is None
        fill_values = None if fit is None else fit.fill_values
        self._fill = None if fill_values is None else np.array(fill_values, np.float32)
        self._names: Names | None = None
        self.name, self.notes = name, dict[str, None]()
        if scaling_of_model(self.model) == "query":
            self.notes[
                f"{name} was trained on features that are scaled to [0, 1] within each query, but the "
                f"features of this table are used as they are."
            ] = None

    def match(self, names: Names | None, width: int, where: object) -> Int64 | None:
        """Where the policy's features are among those of a table; None if they are in its order.

        Raises:
            DataError: a feature is missing or unknown, or their number is wrong where they have no names.
        """
        self._names = names if self.wanted is None else self.wanted
        if names is not None and self.wanted is not None:
            given, wanted = names, {*self.wanted}
            if self._alone and not wanted <= {*given} and wanted <= {*spellable(given)}:
                # LightGBM's own files have `list_price` for `list price`.
                given = spellable(given)
            order = match_features(given, self.wanted, where=where, who=self.name, spare=self._alone)
            if len(given) > len(wanted):
                self.notes[
                    f"{len(given) - len(wanted):,} of {len(given):,} features are not used by {self.name}."
                ] = None
            return order
        if width != self.model.n_features:
            raise DataError(
                f"{where}: {width} features, but {self.name} takes {self.model.n_features}: give the "
                f"features that it was fitted to"
            )
        if names is not None or self.wanted is not None:
            who = "the table" if names is None else self.name
            self.notes[
                f"Features are matched by their order, not by name, because {who} has no names of features: "
                f"make sure that they are in the order that {self.name} was fitted to."
            ] = None
        return None

    def scores(self, matrix: Float32, order: Int64 | None, where: object) -> Float64:
        """One score per row of a table's features."""
        given = matrix if order is None else np.ascontiguousarray(matrix[:, order])
        if not takes_missing(self.model) and np.isnan(given).any():
            if self._fill is None:
                column = int(np.argwhere(np.isnan(given))[0, 1])
                which, rows = feature_name(self._names, column), int(np.isnan(given[:, column]).sum())
                raise DataError(
                    f"{where}: feature {which} is missing in {rows:,} rows, "
                    f"and {self.name} ({self.model.kind}) cannot take missing values: fill them in, or fit "
                    f"with `--missing zero` or `--missing mean`"
                )
            given = np.where(np.isnan(given), self._fill, given)
        return self.model.scores(given)


@dataclass(frozen=True, eq=False)
class ItemScores:
    """The scores that a policy gives to a log's documents.

    Attributes:
        scores: float64, items; documents without features are below all others of their query.
        known: bool, queries; whether any document of the query has features.
        notes: caveats that every report must state.
    """

    scores: Float64
    known: NDArray[np.bool_]
    notes: tuple[str, ...]


def score_items(
    policy: Fit | Model,
    name: str,
    log: LogFolder,
    counts: LogCounts,
    queries: NDArray[np.bool_] | None = None,
) -> ItemScores:
    """Score a log's documents by their features, matched by name.

    Args:
        policy: what scores.
        name: the policy, for messages.
        log: the log.
        counts: its counts.
        queries: bool, queries; those whose scores are needed. Documents of others all get 0.
    """
    features = read_features(log, counts)
    matcher = FeatureMatcher(policy, name)
    order = matcher.match(features.names, features.values.shape[1], features.source)
    sizes, has_features = np.diff(counts.offsets), features.known
    needed = np.ones(len(has_features), np.bool_) if queries is None else np.repeat(queries, sizes)
    scored, without = needed & has_features, needed & ~has_features
    scores = np.zeros(len(has_features))
    if scored.any():
        scores[scored] = matcher.scores(features.values[scored], order, features.source)
    known = np.logical_or.reduceat(has_features, counts.offsets[:-1])
    notes = tuple(matcher.notes)
    if without.any():
        lowest = np.minimum.reduceat(np.where(scored, scores, np.inf), counts.offsets[:-1])
        below = np.where(np.isfinite(lowest), lowest, 0.0) - BELOW_ALL
        scores = np.where(without, np.repeat(below, sizes), scores)
        lost = int((~known if queries is None else queries & ~known).sum())
        left = f"; {lost:,} queries have no others and are left out" if lost else ""
        notes += (
            f"{int(without.sum()):,} of {int(needed.sum()):,} documents have no features: {name} "
            f"ranks them last{left}.",
        )
    return ItemScores(scores, known, notes)
