"""The steps of every import: read the source into staged tables, clean them, and write the log.

A failed import leaves no files behind.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankloop.errors import DataError
from rankloop.logs.engines import engine
from rankloop.logs.feature_join import copy_features
from rankloop.logs.features import PathLike, as_feature_paths
from rankloop.logs.importers.cleaning import Cleaning
from rankloop.logs.importers.files import Paths, Record, SourceFiles
from rankloop.logs.importers.parsing import BadValueError
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import Staging
from rankloop.logs.problems import ProblemCounter
from rankloop.logs.schema import FEATURES, IMPRESSIONS, REPORT_FILE
from rankloop.logs.writer import LogWriter
from rankloop.progress import Progress, report

# Number of records between two progress updates.
RECORDS_PER_UPDATE = 50_000
TASK = "import"
BASES = (0, 1, None)


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Options of all imports.

    Attributes:
        features: Parquet or CSV files of features to copy into the log: one with ``query_id``, ``doc_id`` and
            features, one with ``doc_id`` and features of documents, or both.
        position_base: whether positions in the source count from 0 or from 1; detected if None. For sources
            that list the shown documents in order, this applies to the positions of clicks.
        strict: whether to fail on any problem instead of repairing it.
        overwrite: whether to replace an existing log.
        progress: receives the task ``import``, with the number of records so far in its notes.
    """

    features: PathLike | Sequence[PathLike] | None = None
    position_base: int | None = None
    strict: bool = False
    overwrite: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.position_base not in BASES:
            raise DataError(f"position_base must be 0, 1 or None, got {self.position_base!r}")


DEFAULTS = ImportOptions()


class ImportSession:
    """The files that an importer reads, and the tables that it fills.

    Attributes:
        staging: the staged tables.
        files: the source files.
        aside: number of records by kind that are not part of a log and are ignored.
    """

    def __init__(self, staging: Staging, progress: Progress | None) -> None:
        self.staging = staging
        self.found = ProblemCounter()
        self.files = SourceFiles(self.found)
        self.aside: Counter[str] = Counter()
        self._progress = progress
        self._records = 0

    def each(self, sources: Paths, what: str, take: Callable[[Record], None]) -> None:
        """Process every record; a record with invalid values counts as a broken line."""
        for record in self.files.records(sources, what):
            self.take(record, take)

    def take(self, record: Record, take: Callable[[Record], None]) -> None:
        """Process one record."""
        try:
            take(record)
        except BadValueError as error:
            self.files.add_broken(record.place, error)
        self.count_records()

    def count_records(self, records: int = 1) -> None:
        """Count records, and report progress from time to time."""
        before, self._records = self._records, self._records + records
        if self._records // RECORDS_PER_UPDATE > before // RECORDS_PER_UPDATE:
            report_records(self._progress, "reading", self._records)


def report_records(progress: Progress | None, step: str, records: int) -> None:
    """Report a step of the import and the number of records."""
    report(progress, TASK, note=f"{step}, {records:,} records")


def run(
    read: Callable[[ImportSession], None],
    out: str | os.PathLike[str],
    options: ImportOptions,
    *,
    counted: bool = False,
) -> ImportReport:
    """Run an import.

    Args:
        read: fills the staged tables.
        out: the folder of the log.
        options: options of all imports.
        counted: whether the importer counts positions itself, from 1.
    """
    writer = LogWriter(out, overwrite=options.overwrite)
    with tempfile.TemporaryDirectory(prefix="rankloop-import-") as scratch:
        with Staging(Path(scratch)) as staging:
            session = ImportSession(staging, options.progress)
            read(session)
        sources = tuple(map(str, session.files.paths))
        if not staging.rows[IMPRESSIONS]:
            raise _no_impressions("no impression could be read", sources, session)
        report_records(options.progress, "checking", staging.rows[IMPRESSIONS])
        with writer, engine() as running:
            cleaning = Cleaning(staging, session.files, running)
            cleaning.run(writer, options.position_base, counted=counted)
            if not cleaning.rows:
                raise _no_impressions("no impression is left", sources, session)
            features = 0
            if options.features is not None and as_feature_paths(options.features):
                report_records(options.progress, "copying features", cleaning.rows)
                features = _copy_features(options.features, writer, cleaning)
            if options.strict and session.found.problems():
                listed = "; ".join(map(str, session.found.problems()))
                raise DataError(f"{', '.join(sources)}: strict import failed: {listed}")
            result = ImportReport(
                writer.folder,
                sources,
                dict(staging.rows),
                cleaning.impressions,
                cleaning.rows,
                cleaning.clicks,
                cleaning.candidates,
                features,
                None if counted else cleaning.base,
                session.found.problems(),
                dict(session.aside),
            )
            text = json.dumps(result.to_dict(), indent=2, ensure_ascii=False)
            (writer.scratch / REPORT_FILE).write_text(text + "\n", encoding="utf-8")
        report_records(options.progress, "written", cleaning.rows)
    return result


def _copy_features(paths: PathLike | Sequence[PathLike], writer: LogWriter, cleaning: Cleaning) -> int:
    with Staging(cleaning.staging.folder, (FEATURES,)) as ids:
        for batch in copy_features(paths, writer, cleaning.pairs()):
            ids.add_batch(FEATURES, batch)
    cleaning.check_features(ids.path(FEATURES), ", ".join(map(str, as_feature_paths(paths))))
    return ids.rows[FEATURES]


def _no_impressions(what: str, sources: tuple[str, ...], session: ImportSession) -> DataError:
    reasons = [str(problem) for problem in session.found.problems()]
    reasons += [f"{count:,} {kind}: set aside" for kind, count in session.aside.items()]
    return DataError(f"{', '.join(sources)}: {what}: {'; '.join(reasons) or 'the files are empty'}")
