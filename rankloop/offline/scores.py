"""Scores of documents: from a model and their features, matched by name, or from a table of scores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
from numpy.typing import NDArray

from rankloop.errors import DataError
from rankloop.frames import ArrowRows, Tabular, arrow_table
from rankloop.kernels.expectations import LARGEST_SCORE
from rankloop.logs import LogFolder
from rankloop.logs.feature_tables import Categories, Names, feature_name, match_features
from rankloop.logs.features import DocumentNames, read_features
from rankloop.logs.schema import (
    CANDIDATES,
    COLUMNS,
    PARQUET_ERRORS,
    QUERY_DOCUMENT,
    check_columns,
    checked_batches,
    document_keys,
    parquet_footer,
)
from rankloop.models.feature_names import categories_of_model, names_of_model, scaling_of_model, takes_missing
from rankloop.models.lightgbm_text import spellable
from rankloop.offline.fit_result import Fit
from rankloop.offline.judged_scores import JudgedScores
from rankloop.statistics import Counts
from rankloop.types import Float32, Float64, Int64, Model

POLICY, SCORE = "policy_id", "score"
# The key of a Parquet file of scores under which the fingerprint of their log stands.
LOG_KEY = b"rankloop.log"
ROWS_PER_BATCH = 1_000_000
# What every Parquet file starts with.
PARQUET = b"PAR1"
# The formats that rankings are written in.
RANKING_TEXTS = ("tsv", "jsonl", "trec")
RANKING_FORMATS = (*RANKING_TEXTS, "parquet")
# How the file name of a table ends.
TABLE_ENDINGS = (".parquet", ".csv", ".csv.gz")
# A table of scores may also be a file of rankings.
TREC_ENDINGS = (".trec", ".run")
SCORE_ENDINGS = (*TABLE_ENDINGS, ".tsv", ".jsonl", *TREC_ENDINGS)
FRAME = "the frame of scores"
# A line of a TREC run: query, Q0, document, rank, score, tag.
TREC_COLUMNS = 6


class DocumentScores(NamedTuple):
    """Scores of documents; all arrays have the same length.

    Attributes:
        query_ids: text.
        doc_ids: text.
        scores: float64.
    """

    query_ids: pa.Array
    doc_ids: pa.Array
    scores: Float64


class DocumentIndex:
    """Finds the numbers of a log's documents and queries by their ids.

    Example:
        >>> class DocumentNames:
        ...     query_ids, doc_ids = np.array(["cat", "dog"]), np.array(["x", "y", "x"])
        ...     offsets = np.array([0, 2, 3])
        >>> index = DocumentIndex(DocumentNames())
        >>> index.documents(pa.array(["dog", "cat", "cat"]), pa.array(["x", "y", "z"]))
        array([ 2,  1, -1])
        >>> index.queries(pa.array(["dog", "bird"]))
        array([ 1, -1])
    """

    def __init__(self, named: DocumentNames) -> None:
        queries = np.repeat(named.query_ids, np.diff(named.offsets))
        self._documents = document_keys(pa.array(queries.tolist()), pa.array(named.doc_ids.tolist()))
        self._queries = pa.array(named.query_ids.tolist())

    def documents(self, query_ids: pa.Array, doc_ids: pa.Array) -> Int64:
        """The number in the log of each pair of query and document; -1 for one that is not in the log."""
        return _numbers(pc.index_in(document_keys(query_ids, doc_ids), value_set=self._documents))

    def queries(self, query_ids: pa.Array) -> Int64:
        """The number of each query; -1 for one that is not in the log."""
        return _numbers(pc.index_in(query_ids, value_set=self._queries))


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a table, by the end of its name.

    >>> is_table("scores.csv.gz"), is_table("new.rankloop")
    (True, False)
    """
    return Path(path).name.endswith(TABLE_ENDINGS)


def is_scores(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a table of scores or of a TREC run, by the end of its name."""
    return Path(path).name.endswith(SCORE_ENDINGS)


def read_scores(path: str | os.PathLike[str]) -> DocumentScores:
    """Read a table of scores: query_id, doc_id, score; or a TREC run, whose ranks are not used."""
    place = Path(path)
    return _check(_to_scores(place, [_read(place)]), str(place))


def scores_of_frame(frame: Tabular | ArrowRows) -> tuple[DocumentScores, str | None]:
    """A frame of scores, and the fingerprint of the log that it was computed from, if it is known."""
    table = arrow_table(frame)
    source = (table.schema.metadata or {}).get(LOG_KEY)
    scored = _to_scores(FRAME, [text_ids(table)])
    return _check(scored, FRAME), None if source is None else source.decode(errors="replace")


def text_ids(table: pa.Table) -> pa.Table:
    """The same table with ids as text, whatever a frame made of them.

    >>> text_ids(pa.table({"doc_id": [7], "price": [1.5]})).to_pydict()
    {'doc_id': ['7'], 'price': [1.5]}
    """
    columns = [
        column.cast(pa.string()) if name in QUERY_DOCUMENT else column
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(columns, names=table.column_names, metadata=table.schema.metadata)


def source_of_scores(path: str | os.PathLike[str]) -> str | None:
    """The fingerprint of the log that a table of scores was computed from; None if it is not known."""
    if not Path(path).name.endswith(".parquet"):
        return None
    try:
        found = parquet_footer(Path(path))[1].get(LOG_KEY)
    except PARQUET_ERRORS as error:
        raise DataError(f"{path}: the scores cannot be read ({error})") from error
    return None if found is None else found.decode(errors="replace")


def read_candidates(parts: Sequence[Path], policy: str) -> DocumentScores:
    """Read the scores that one policy of a log gave to its candidates."""
    tables = []
    for part in parts:
        table = _read(part)
        ids = table[POLICY].cast(pa.string())
        tables.append(table.filter(pc.equal(ids, policy)))
    return _check(_to_scores(parts[0], tables), f"{CANDIDATES} of policy {policy!r}")


def _read(path: Path) -> pa.Table:
    try:
        if _is_parquet(path):
            schema, _, _ = parquet_footer(path)
            kept = pa.schema([field for field in schema if field.name in COLUMNS[CANDIDATES]])
            return pa.Table.from_batches(checked_batches(path, ROWS_PER_BATCH, kept.names), kept)
        if path.name.endswith(TREC_ENDINGS):
            return _read_trec(path)
        # Ids are text: 007 is not 7.
        types = dict.fromkeys(QUERY_DOCUMENT, pa.string())
        if path.name.endswith(".jsonl"):
            wanted = pa.schema([*types.items(), (SCORE, pa.float64())])
            return pyarrow.json.read_json(
                path.absolute(), parse_options=pyarrow.json.ParseOptions(explicit_schema=wanted)
            )
        table = pyarrow.csv.read_csv(
            path.absolute(),
            parse_options=pyarrow.csv.ParseOptions(delimiter="\t" if path.name.endswith(".tsv") else ","),
            convert_options=pyarrow.csv.ConvertOptions(column_types=types),
        )
        # Arrow decodes the names of columns when they are asked for.
        return table.rename_columns(table.column_names)
    except PARQUET_ERRORS as error:
        raise DataError(f"{path}: the scores cannot be read ({error})") from error


def _read_trec(path: Path) -> pa.Table:
    rows: list[list[str]] = []
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            row = line.split()
            if not row:
                continue
            try:
                if len(row) != TREC_COLUMNS:
                    raise ValueError
                float(row[4])
            except ValueError:
                raise DataError(
                    f"{path}, line {number}: a line of a TREC run is 'query Q0 document rank score tag', got "
                    f"{line.strip()[:100]!r}"
                ) from None
            rows.append(row)
    query, _, document, _, score, _ = zip(*rows, strict=True) if rows else [()] * TREC_COLUMNS
    columns = {"query_id": query, "doc_id": document}
    table = pa.table({name: pa.array(ids, pa.string()) for name, ids in columns.items()})
    return table.append_column(SCORE, pa.array(map(float, score), pa.float64()))


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return path.name.endswith(".parquet") or file.read(len(PARQUET)) == PARQUET


def _to_scores(where: object, tables: list[pa.Table]) -> DocumentScores:
    for table in tables:
        # A table of scores is a table of candidates of a single policy, which needs no name.
        schema = table.schema
        if POLICY not in schema.names:
            schema = schema.append(pa.field(POLICY, pa.string()))
        check_columns(schema, CANDIDATES, str(where))
    columns = [
        pa.concat_tables([t.select([name]) for t in tables])[name] for name in (*QUERY_DOCUMENT, SCORE)
    ]
    query_ids, doc_ids = (column.cast(pa.string()).combine_chunks() for column in columns[:2])
    scores = columns[2].cast(pa.float64()).to_numpy().astype(np.float64)
    return DocumentScores(query_ids, doc_ids, scores)


def _check(scored: DocumentScores, where: str) -> DocumentScores:
    if scored.query_ids.null_count or scored.doc_ids.null_count:
        raise DataError(f"{where}: a row has no query_id or no doc_id; every row needs both")
    # Written so that NaN counts as bad.
    bad = np.flatnonzero(~((np.abs(scored.scores) <= LARGEST_SCORE) | (scored.scores == -np.inf)))
    if len(bad):
        raise DataError(
            f"{where}: {_pair(scored, bad[0])}: the score is {scored.scores[bad[0]]}; scores are finite and "
            f"within ±{LARGEST_SCORE:g}, or -inf for documents that are never shown ({len(bad)} bad scores "
            f"in total)"
        )
    repeated = find_repeated(scored.query_ids, scored.doc_ids)
    if repeated is not None:
        raise DataError(f"{where}: {_pair(scored, repeated)}: it has more than one score")
    return scored


def find_repeated(query_ids: pa.Array, doc_ids: pa.Array) -> int | None:
    """The first row whose query and document are those of an earlier row; None if all differ."""
    codes = document_keys(query_ids, doc_ids).dictionary_encode().indices.to_numpy()
    seen, first = np.unique(codes, return_index=True)
    if len(seen) == len(codes):
        return None
    again = np.ones(len(codes), np.bool_)
    again[first] = False
    return int(np.flatnonzero(again)[0])


def _pair(scored: DocumentScores, row: int) -> str:
    return f"query {scored.query_ids[int(row)].as_py()!r}, document {scored.doc_ids[int(row)].as_py()!r}"


def _numbers(found: pa.Array) -> Int64:
    return pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


# Documents without features rank below all others: their scores are this much lower, which no draw makes up.
BELOW_ALL = 100.0


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
        self._categories = categories_of_model(self.model)
        # By the place of a category in a table, its place in the model's list; by feature of the model.
        self._places: dict[int, Float32] = {}
        self.name, self.notes = name, dict[str, None]()
        if scaling_of_model(self.model) == "query":
            self.notes[
                f"{name} was trained on features that are scaled to [0, 1] within each query, but the "
                f"features of this table are used as they are."
            ] = None

    def match(
        self, names: Names | None, width: int, where: object, categories: Categories | None = None
    ) -> Int64 | None:
        """Where the policy's features are among those of a table; None if they are in its order.

        Args:
            names: the features of the table.
            width: their number.
            where: the table, for messages.
            categories: of features of the table that are text, the values that their numbers stand for.

        Raises:
            DataError: a feature is missing or unknown, their number is wrong where they have no names, or the
                policy takes text where the table has numbers, or the other way round.
        """
        self._names = names if self.wanted is None else self.wanted
        self._match_categories(categories or {}, where)
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

    def _match_categories(self, given: Categories, where: object) -> None:
        self._places = {}
        for place, name in enumerate(self._names or ()):
            if name in given and name not in self._categories:
                raise DataError(
                    f"{where}: the feature {name!r} is text, but {self.name} takes numbers there: give it as "
                    f"it was when the policy was fitted"
                )
            if name in given:
                known = {value: float(number) for number, value in enumerate(self._categories[name])}
                places = [known.get(value, np.nan) for value in given[name]]
                self._places[place] = np.array(places, np.float32)

    def _with_own_places(self, given: Float32, where: object) -> Float32:
        """The same with categories numbered as the policy numbers them; NaN for those it does not know."""
        if not self._categories:
            return given
        result = given.copy()
        for place, name in enumerate(self._names or ()):
            missing = np.isnan(given[:, place])
            if place in self._places:
                numbers = np.where(missing, 0, given[:, place]).astype(np.int64)
                own = self._places[place]
                result[:, place] = np.where(missing, np.nan, own[numbers] if len(own) else np.nan)
            elif name in self._categories and not missing.all():
                raise DataError(
                    f"{where}: the feature {name!r} holds numbers, but {self.name} takes text there, such as "
                    f"{next(iter(self._categories[name]), '')!r}: give it as it was when it was fitted"
                )
        return result

    def scores(self, matrix: Float32, order: Int64 | None, where: object) -> Float64:
        """One score per row of a table's features."""
        given = matrix if order is None else np.ascontiguousarray(matrix[:, order])
        given = self._with_own_places(given, where)
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
class LogScores:
    """The scores that a policy gives to a log's documents.

    Attributes:
        scores: float64, documents; documents without features are below all others of their query.
        known: bool, queries; whether any document of the query has features.
        notes: caveats that every report must state.
    """

    scores: Float64
    known: NDArray[np.bool_]
    notes: tuple[str, ...]


def score_documents(
    policy: Fit | Model,
    name: str,
    log: LogFolder,
    counts: Counts,
    queries: NDArray[np.bool_] | None = None,
) -> LogScores:
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
    order = matcher.match(features.names, features.values.shape[1], features.source, features.categories)
    has_features = features.known
    scores = np.zeros(len(has_features))
    scored = has_features if queries is None else np.repeat(queries, np.diff(counts.offsets)) & has_features
    if scored.any():
        scores[scored] = matcher.scores(features.values[scored], order, features.source)
    return _with_others_last(scores, has_features, name, counts, queries, tuple(matcher.notes))


def judged_scores(
    scores: JudgedScores, name: str, counts: Counts, queries: NDArray[np.bool_] | None = None
) -> LogScores:
    """The scores by which a fit is judged, for a log's documents; see `score_documents`."""
    index = DocumentIndex(counts)
    documents = index.documents(pa.array(scores.query_ids.tolist()), pa.array(scores.doc_ids.tolist()))
    inside, result = documents >= 0, np.zeros(counts.n_documents)
    has_score = np.zeros(counts.n_documents, np.bool_)
    result[documents[inside]], has_score[documents[inside]] = scores.scores[inside], True
    return _with_others_last(result, has_score, name, counts, queries, ())


def _with_others_last(
    scores: Float64,
    has_features: NDArray[np.bool_],
    name: str,
    counts: Counts,
    queries: NDArray[np.bool_] | None,
    notes: tuple[str, ...],
) -> LogScores:
    """Documents without features rank below all others of their query."""
    sizes = np.diff(counts.offsets)
    needed = np.ones(len(scores), np.bool_) if queries is None else np.repeat(queries, sizes)
    scored, without = needed & has_features, needed & ~has_features
    known = np.logical_or.reduceat(has_features, counts.offsets[:-1])
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
    return LogScores(scores, known, notes)
