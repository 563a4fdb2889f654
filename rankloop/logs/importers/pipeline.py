"""The steps of every import: read the source into staged tables, clean them, and write the log.

A failed import leaves no files behind.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from rankloop.errors import DataError
from rankloop.logs.engines import engine, share_of_memory
from rankloop.logs.features import PathLike, as_feature_paths, copy_features
from rankloop.logs.importers.cleaning import Cleaning
from rankloop.logs.importers.files import ColumnReader, Paths, Record, SourceFiles
from rankloop.logs.importers.parsing import BadValueError, check_normalise
from rankloop.logs.importers.query_groups import QueryGroups
from rankloop.logs.importers.report import (
    ImportReport,
    Loss,
    check_losses,
    describe_ids,
    describe_source,
    measure_losses,
)
from rankloop.logs.importers.staging import EarlierLog, Staging
from rankloop.logs.problems import ProblemCounter
from rankloop.logs.schema import FEATURES, IMPRESSIONS, MAPPING_FILE, REPORT_FILE
from rankloop.logs.writer import LogWriter
from rankloop.progress import Progress, report
from rankloop.storage.locks import hold_folder, scratch_folder
from rankloop.storage.plain import to_json

# Number of records between two progress updates.
RECORDS_PER_UPDATE = 50_000
TASK = "import"
# The policy of a source that names none: whatever ranks in production.
UNNAMED_POLICY = "production"
BASES = (0, 1, None)
# The share of records that may be left out. One in ten is more than bots, late clicks and half-written lines
# cost; beyond that, the source is usually not what it was taken for.
MAX_LOSS = 0.1


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of all imports.

    Attributes:
        features: Parquet or CSV files of features to copy into the log: one with ``query_id``, ``doc_id`` and
            features, one with ``doc_id`` and features of documents, or both.
        position_base: whether positions in the source count from 0 or from 1; detected if None. For sources
            that list the shown documents in order, this applies to the positions of clicks.
        normalise: ``("query",)`` groups queries that differ by case, white space or forms of Unicode alone.
        strict: whether to fail on any problem instead of repairing it.
        max_loss: the share of records of any kind that may be left out; beyond it no log is written.
        randomised: the policies that show documents in random order.
        overwrite: whether to replace an existing log.
        append: whether to add to an existing log, if there is one.
        progress: receives the task ``import``, with the number of records so far in its notes.
        first: how many records of each file are read, for a look; all of them if None.
    """

    features: PathLike | Sequence[PathLike] | None = None
    position_base: int | None = None
    normalise: tuple[str, ...] = ()
    strict: bool = False
    max_loss: float = MAX_LOSS
    randomised: tuple[str, ...] = ()
    overwrite: bool = False
    append: bool = False
    progress: Progress | None = None
    first: int | None = None

    def __post_init__(self) -> None:
        if self.position_base not in BASES:
            raise DataError(f"position_base must be 0, 1 or None, got {self.position_base!r}")
        check_normalise(self.normalise, "")
        if not 0 <= self.max_loss <= 1:
            raise DataError(f"max_loss must be a share between 0 and 1, got {self.max_loss!r}")
        if self.append and self.overwrite:
            raise DataError("append adds to a log and overwrite replaces it: choose one of them")


DEFAULTS = ImportOptions()


class ImportSession:
    """The files that an importer reads, and the tables that it fills.

    Attributes:
        staging: the staged tables.
        files: the source files.
        aside: number of records by kind that are not part of a log and are ignored.
        hints: sentences for the report.
        randomised: policies that the source marks as randomised.
        features: if the source has features itself: yields tables with ``query_id``, ``doc_id`` and one
            column per feature, given the ids of all documents.
        feature_files: files of features that the importer has written.
        named: whether any record names its policy.
        unnamed: number of times that a policy was needed and none was named.
        amounts: whether the log has a column of amounts.
        records: number of records by kind.
        broken: number of broken records by kind.
    """

    def __init__(self, staging: Staging, options: ImportOptions) -> None:
        self.staging = staging
        self.options = options
        self.found = ProblemCounter()
        self.files = SourceFiles(self.found, options.first)
        self.aside: Counter[str] = Counter()
        self.hints: list[str] = []
        self.randomised: set[str] = set(options.randomised)
        self.features: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.Table]] | None = None
        self.feature_files: list[Path] = []
        self.named = False
        self.unnamed = 0
        self.amounts = False
        self.records: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self._read = 0

    def unnamed_policy(self) -> str:
        """The policy of a record that names none."""
        self.unnamed += 1
        return UNNAMED_POLICY

    def each(
        self,
        sources: Paths,
        what: str,
        take: Callable[[Record], None],
        *,
        command: str | None = None,
        kind: Callable[[Record], str] | None = None,
        reader: ColumnReader | None = None,
    ) -> None:
        """Process every record; a record with invalid values counts as a broken line.

        Args:
            sources: one path or several.
            what: the expected content, for messages.
            take: processes a record.
            command: the importer, to refuse files that are for another one.
            kind: the kind of a record, by which losses are measured.
            reader: takes whole columns, where a file has them.
        """
        for record in self.files.records(sources, what, command, reader):
            self.take(record, take, what if kind is None else kind(record))

    def take(self, record: Record, take: Callable[[Record], None], kind: str) -> None:
        """Process one record."""
        try:
            take(record)
        except BadValueError as error:
            self.files.add_broken(record.place, error)
            self.broken[kind] += 1
        self.count_records(kind)

    def count_records(self, kind: str, records: int = 1) -> None:
        """Count records, and report progress from time to time."""
        self.records[kind] += records
        before, self._read = self._read, self._read + records
        if self._read // RECORDS_PER_UPDATE > before // RECORDS_PER_UPDATE:
            report_records(self.options.progress, "reading", self._read)


def report_records(progress: Progress | None, step: str, records: int) -> None:
    """Report a step of the import and the number of records."""
    report(progress, TASK, note=f"{step}, {records:,} records")


def run(
    read: Callable[[ImportSession], None],
    out: str | os.PathLike[str],
    options: ImportOptions,
    *,
    counted: bool = False,
    mapping: Callable[[int | None, Sequence[str]], str] | None = None,
) -> ImportReport:
    """Run an import.

    Args:
        read: fills the staged tables.
        out: the folder of the log.
        options: options of all imports.
        counted: whether the importer counts positions itself, from 1.
        mapping: what is run as text, to be stored in the log, for the number of the first position and the
            sources.

    Raises:
        ImportLossError: more than ``options.max_loss`` of the source would be left out.
        DataError: the source cannot be read.
    """
    with hold_folder(out), scratch_folder() as scratch:
        earlier = EarlierLog.open(out) if options.append else None
        if earlier is not None:
            _check_normalised(earlier, options)
        writer = LogWriter(out, overwrite=options.overwrite or earlier is not None)
        with ExitStack() as stack:
            groups = None
            if options.normalise:
                groups = stack.enter_context(QueryGroups(scratch / "queries.parquet"))
            staging = stack.enter_context(Staging(scratch, queries=groups))
            session = ImportSession(staging, options)
            if earlier is not None:
                session.files.add_file(earlier.source, "row")
            read(session)
        session.hints += [] if groups is None else [groups.note()]
        sources = tuple(map(str, session.files.paths[earlier is not None :]))
        if not staging.rows[IMPRESSIONS] and earlier is None:
            raise _no_impressions("no impression could be read", sources, session)
        report_records(options.progress, "checking", staging.rows[IMPRESSIONS])
        with writer, engine(memory=share_of_memory()) as running:
            cleaning = Cleaning(session, running, earlier)
            cleaning.run(writer, options.position_base, counted=counted)
            if not cleaning.rows:
                session.hints += describe_ids(session.found, cleaning.new_impressions)
                raise _no_impressions("no impression is left", sources, session)
            if options.features is not None or session.features is not None:
                report_records(options.progress, "copying features", cleaning.rows)
            features = _write_features(session, writer, cleaning)
            if options.strict and session.found.problems():
                listed = "; ".join(map(str, session.found.problems()))
                raise DataError(f"{', '.join(sources)}: strict import failed: {listed}")
            writer.randomised = cleaning.randomised
            diagnoses = (
                *describe_ids(session.found, cleaning.new_impressions),
                *describe_source(session.found, cleaning.rows, cleaning.clicks),
            )
            result = ImportReport(
                log=writer.folder,
                sources=sources,
                read=dict(staging.rows),
                impressions=cleaning.impressions,
                rows=cleaning.rows,
                clicks=cleaning.clicks,
                candidates=cleaning.candidates,
                features=features,
                position_base=None if counted else cleaning.base,
                problems=session.found.problems(),
                aside=dict(session.aside),
                losses=_losses(session),
                hints=(*diagnoses, *session.files.notes, *session.hints, *_on_policy(session)),
                randomised=writer.randomised,
                normalise=options.normalise,
            )
            check_losses(result, options.max_loss, diagnoses)
            result = result.after(None if earlier is None else earlier.report)
            text = to_json(result)
            (writer.scratch / REPORT_FILE).write_text(text + "\n", encoding="utf-8")
            if mapping is not None:
                (writer.scratch / MAPPING_FILE).write_text(
                    mapping(result.position_base, sources), encoding="utf-8"
                )
        report_records(options.progress, "written", cleaning.rows)
    return result


def _check_normalised(earlier: EarlierLog, options: ImportOptions) -> None:
    """Refuse to add queries that are grouped to some that are not, and the other way round."""
    before = () if earlier.report is None else earlier.report.normalise
    if set(before) != set(options.normalise):
        are, how = ("not normalised", "without") if options.normalise else ("normalised", "with")
        raise DataError(
            f"{earlier.log.folder}: the queries of this log are {are}, so that they would not be those "
            f"that are added: import {how} --normalise query, or all files at once"
        )


def _on_policy(session: ImportSession) -> tuple[str, ...]:
    if not session.unnamed:
        return ()
    if session.named:
        return (
            f"{session.unnamed:,} records name no policy, although others do: {UNNAMED_POLICY!r} is taken "
            f"for theirs (--policy NAME names another).",
        )
    return (f"No policy is named: {UNNAMED_POLICY!r} is taken for it (--policy NAME names another).",)


def _losses(session: ImportSession) -> tuple[Loss, ...]:
    unreadable = session.files.unreadable
    everything = sum(session.records.values()) + unreadable
    records = {**session.records, "lines": everything}
    broken = {**session.broken, "lines": unreadable}
    return measure_losses(session.found, session.staging.rows, records, broken)


def _write_features(session: ImportSession, writer: LogWriter, cleaning: Cleaning) -> int:
    """Write the features of the import and those of the log that it is added to; return their number."""
    given = () if session.options.features is None else as_feature_paths(session.options.features)
    paths = (*session.feature_files, *given)
    written, new = 0, None
    with Staging(cleaning.staging.folder, (FEATURES,)) as ids:
        if paths:
            for batch in copy_features(paths, writer, cleaning.pairs()):
                ids.add_batch(FEATURES, batch)
        elif session.features is not None:
            for table in session.features(iter(cleaning.pairs())):
                writer.write(FEATURES, table)
                ids.add_batch(FEATURES, table)
    if ids.rows[FEATURES]:
        new, written = ids.path(FEATURES), ids.rows[FEATURES]
    if cleaning.earlier is not None:
        written += cleaning.earlier.copy_features(writer, cleaning.engine, new)
    if new is not None:
        cleaning.check_features(new, ", ".join(map(str, given)) or session.files.paths[-1])
    return written


def _no_impressions(what: str, sources: tuple[str, ...], session: ImportSession) -> DataError:
    reasons = [str(problem) for problem in session.found.problems()]
    reasons += [f"{count:,} {kind}: set aside" for kind, count in session.aside.items()]
    text = "; ".join(reasons) or "the files are empty"
    hints = [*describe_source(session.found, 0, 0), *session.hints]
    return DataError(f"{', '.join(sources)}: {' '.join([f'{what}: {text}.', *hints]).removesuffix('.')}")
