"""What a ranker is fitted to: documents of a log with features, in queries that train, stop and judge."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankloop.errors import DataError, RankloopError
from rankloop.frames import listed
from rankloop.logs import LogReader, LogStatistics
from rankloop.logs.feature_tables import Categories, Names
from rankloop.logs.features import LogFeatures, read_features
from rankloop.logs.folder import open_folder
from rankloop.logs.grading import CLICKS, Grading
from rankloop.logs.schema import CANDIDATES, FEATURES, IMPRESSIONS
from rankloop.ragged import counts_by_share
from rankloop.relevance.cross_fit import each_fold, folds
from rankloop.statistics import Statistics
from rankloop.storage.locks import scratch_folder
from rankloop.types import Bias, Float32, Int64, Split, Str

Missing = Literal["error", "zero", "mean"]
MISSING = ("error", "zero", "mean")
Judge = Literal["folds", "split", "none"]
JUDGES = ("folds", "split", "none")
# One fold judges, one stops training, and the others are trained on.
LEAST_FOLDS = 3
# The share of the queries before a time that decide when to stop.
STOP_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Part:
    """Some queries of a log, with their documents and clicks.

    Attributes:
        query_ids: the ids of the queries.
        split: their documents with features.
        statistics: what was shown and clicked.
        categories: of features that are text, the values that their numbers stand for.
    """

    query_ids: Str
    split: Split
    statistics: Statistics
    categories: Categories = field(default_factory=dict)

    def select(self, queries: Int64) -> Part:
        """The part of these queries."""
        return Part(
            self.query_ids[queries],
            self.split.select(queries),
            self.statistics.select(queries),
            self.categories,
        )

    def documents_of(self, queries: Int64) -> Int64:
        """The documents of these queries."""
        mask = np.zeros(self.statistics.n_queries, np.bool_)
        mask[queries] = True
        result: Int64 = np.flatnonzero(self.statistics.per_document(mask))
        return result

    @property
    def came(self) -> Int64:
        """The queries that have impressions."""
        return np.flatnonzero(self.statistics.impressions_by_query > 0)


class Turn(NamedTuple):
    """One training: the numbers of the queries of each part.

    Attributes:
        train: what a model is trained on; numbers of ``Division.learned``.
        stop: what decides when training stops and which models are blended; numbers of ``Division.learned``.
        judged: what the model is judged by, which it never sees; numbers of ``Division.whole``.
    """

    train: Int64
    stop: Int64
    judged: Int64


@dataclass(frozen=True, eq=False)
class Division:
    """A log that is divided into queries to train on, to stop training by, and to judge by.

    Attributes:
        found: the statistics of the whole log, of its documents with features.
        learned: what models are trained and stopped on: the whole log, or what came before a time.
        whole: the whole log.
        kept: the training of the model that is kept.
        folds: the trainings of models that only judge, so that each query is ranked by a model that never saw
            it; empty if queries are held out of the model that is kept.
        names: the names of the features, if the log has them.
        fill_values: what replaces missing values, one per feature, as ``learned`` gives it; None if the model
            takes them as they are, or if they are refused.
        notes: caveats that every report must state.
    """

    found: LogStatistics
    learned: Part
    whole: Part
    kept: Turn
    folds: tuple[Turn, ...]
    names: Names | None
    fill_values: tuple[float, ...] | None
    notes: tuple[str, ...]


def divide(
    log: LogReader,
    bias: Bias,
    held_out: float | datetime,
    rng: np.random.Generator,
    *,
    judge: Judge = "folds",
    trees: bool,
    missing: Missing = "error",
    grading: Grading = CLICKS,
) -> Division:
    """Divide the queries of a log.

    Documents without features are left out. With a time, queries that first came then or later judge, and
    models are trained on impressions before it. Impressions since then of queries that had come before are
    used for nothing: a model that is trained on them would know the future, and a model that is judged on
    them would know the queries.

    Args:
        log: a log with features.
        bias: how displays gain their worth: how users click, if displays are worth their clicks.
        held_out: the share of the queries that a model never sees, or the time.
        rng: draws the parts.
        judge: ``folds``, ``split`` or ``none``, as `rankloop.fit` takes it.
        trees: whether the model takes missing values as they are.
        missing: what happens to missing values otherwise: refuse them, or replace them by zero, or by the
            feature's mean over the documents to train on.
        grading: what displays are worth.
    """
    if missing not in MISSING:
        raise RankloopError(f"missing must be {', '.join(MISSING[:-1])} or {MISSING[-1]}, not {missing!r}")
    if judge not in JUDGES:
        raise RankloopError(f"a fit is judged by {', '.join(JUDGES[:-1])} or {JUDGES[-1]}, not {judge!r}")

    def read(source: LogReader) -> Documents:
        return read_documents(source, bias, trees=trees, missing=missing, grading=grading)

    whole = read(log)
    if isinstance(held_out, datetime):
        return _divide_by_time(log, whole, held_out, rng, read)
    came, notes = whole.queries_to_divide(), whole.notes
    nobody = came[:0]
    first, last = _cut(came, held_out, rng)
    kept = Turn(first, last, nobody)
    turns: tuple[Turn, ...] = ()
    if judge == "split":
        kept = Turn(*_cut(first, held_out, rng), last)
    elif judge == "folds":
        turns = _folds(came, held_out, rng.spawn(1)[0])
    part = whole.part
    return Division(whole.found, part, part, kept, turns, whole.names, whole.fill_values, notes)


def _cut(queries: Int64, share: float, rng: np.random.Generator) -> tuple[Int64, Int64]:
    """A random share of the queries apart from the others, and in their order."""
    first, _ = counts_by_share(len(queries), (1.0 - share, share))
    order = rng.permutation(queries)
    return np.sort(order[:first]), np.sort(order[first:])


def _folds(came: Int64, share: float, rng: np.random.Generator) -> tuple[Turn, ...]:
    """Each query judges once, stops training once, and is trained on otherwise."""
    count = min(max(round(1.0 / share), LEAST_FOLDS), len(came))
    fold = folds(len(came), count, rng)
    return tuple(Turn(came[one.grown], came[one.stopped], came[one.own]) for one in each_fold(fold, count))


def _divide_by_time(
    log: LogReader,
    whole: Documents,
    start: datetime,
    rng: np.random.Generator,
    read: Callable[[LogReader], Documents],
) -> Division:
    with _earlier(log, start) as earlier:
        past = read(earlier)
    learned, statistics = past.part, whole.part.statistics
    if len(learned.came) < 2:
        raise DataError(
            f"only {len(learned.came)} query came before {start.isoformat()}: a ranker is trained on some "
            f"queries and stopped on others; choose a later time"
        )
    train, stop = _cut(learned.came, STOP_SHARE, rng)
    seen = learned.query_ids[learned.came]
    new = np.flatnonzero((statistics.impressions_by_query > 0) & ~np.isin(whole.part.query_ids, seen))
    if not len(new):
        raise DataError(
            f"no query came for the first time at {start.isoformat()} or later: choose an earlier time, or "
            f"hold out a share of the queries instead"
        )
    before = learned.statistics.impressions
    since = int(statistics.impressions_by_query[new].sum())
    unused = statistics.impressions - before - since
    sentence = (
        f"Fitted to the {before:,} impressions before {start.isoformat()}; held out: {since:,} impressions "
        f"of queries that first came since then."
    )
    if unused:
        sentence += f" {unused:,} later impressions of earlier queries are used for neither."
    notes = (*whole.notes, sentence)
    kept = Turn(train, stop, new)
    return Division(whole.found, learned, whole.part, kept, (), whole.names, past.fill_values, notes)


class Documents(NamedTuple):
    """The documents of a log that a model can be fitted to; the fields are those of `Division`."""

    found: LogStatistics
    part: Part
    names: Names | None
    fill_values: tuple[float, ...] | None
    notes: tuple[str, ...]

    def queries_to_divide(self) -> Int64:
        """The numbers of the queries with impressions.

        Raises:
            DataError: there are fewer than three: to train on, to stop by and to judge by.
        """
        came = self.part.came
        if len(came) < LEAST_FOLDS:
            number = "1 query of the log has" if len(came) == 1 else f"{len(came)} queries of the log have"
            raise DataError(
                f"only {number} impressions: a ranker is trained on some queries, stopped on "
                "others and judged on others again, and needs hundreds of them. `rankloop relevance` "
                "estimates the relevance of documents of single queries, without features"
            )
        return came


def read_documents(
    log: LogReader, bias: Bias, *, trees: bool, missing: Missing = "error", grading: Grading = CLICKS
) -> Documents:
    """The statistics and features of a log's documents; those without features are left out."""
    found = grading.statistics(log, bias)
    features = read_features(log, found)
    fill = None if trees else _fill_values(features, found, missing)
    notes = []
    if not features.known.all():
        without, queries = int((~features.known).sum()), len(found.query_ids)
        found = found.keep(features.known)
        left = queries - len(found.query_ids)
        notes.append(
            f"{without:,} of {len(features.known):,} documents have no features and are left out"
            + (f", and with them {left:,} queries, all of whose documents have none." if left else ".")
        )
    values = features.values[features.known]
    if features.categories and not trees:
        raise DataError(
            f"{features.source}: {listed([*features.categories])}: text is a category, which trees take "
            f"(model='lightgbm', `--model lightgbm`) and other models do not: give numbers instead, or leave "
            f"the column out"
        )
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
        categorical=features.categorical,
    )
    part = Part(found.query_ids, split, found.statistics, features.categories)
    return Documents(found, part, features.names, fill, tuple(notes))


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


def parse_time(time: str | datetime) -> datetime:
    """A point in time; without a time zone it is in UTC, as the times of logs are.

    >>> parse_time("2024-05-01").isoformat()
    '2024-05-01T00:00:00+00:00'
    """
    try:
        found = datetime.fromisoformat(time) if isinstance(time, str) else time
    except ValueError as error:
        raise RankloopError(
            f"{time!r} is not a time: expected a date such as 2024-05-01, or a time such as 2024-05-01T12:00"
        ) from error
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


@contextmanager
def _earlier(log: LogReader, start: datetime) -> Iterator[LogReader]:
    """The log until a point in time, as a temporary log of its own."""
    with scratch_folder() as scratch:
        folder = scratch / "log"
        (folder / f"{IMPRESSIONS}.parquet").mkdir(parents=True)
        rows = 0
        for number, path in enumerate(log.files(IMPRESSIONS)):
            table = pq.read_table(path.absolute(), partitioning=None)
            kept = table.filter(_is_before(table.column("timestamp"), start, path))
            rows += len(kept)
            pq.write_table(kept, folder / f"{IMPRESSIONS}.parquet" / f"{number:06d}.parquet")
        if not rows:
            raise DataError(f"the log has no impressions before {start.isoformat()}: choose a later time")
        for other in (CANDIDATES, FEATURES):
            if log.has(other):
                source = log.folder / f"{other}.parquet"
                _link(source.resolve(), folder / source.name)
        found = open_folder(folder)
        yield replace(log, folder=found.folder, tables=found.tables, starts=False)


def _is_before(times: pa.ChunkedArray, start: datetime, path: Path) -> Any:
    if pa.types.is_null(times.type) or times.null_count:
        raise DataError(
            f"{path}: some impressions have no timestamp, so the log cannot be divided by time: hold out a "
            f"share of the queries instead"
        )
    at = pa.scalar(start if times.type.tz else start.astimezone(UTC).replace(tzinfo=None))
    return pc.less(times, at.cast(times.type, safe=False))


def _link(source: Path, target: Path) -> None:
    try:
        target.symlink_to(source, target_is_directory=source.is_dir())
    except OSError:  # not every file system has links
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
