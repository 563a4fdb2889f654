"""How every import runs: read into staged tables, look, write what is left; or leave nothing behind."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rankloop.errors import DataError
from rankloop.logs.engines import engine
from rankloop.logs.features import copy_features
from rankloop.logs.importers.cleaning import Cleaning
from rankloop.logs.importers.files import Paths, Record, SourceFiles
from rankloop.logs.importers.parsing import BadValueError
from rankloop.logs.importers.report import ImportReport
from rankloop.logs.importers.staging import Staging
from rankloop.logs.problems import ProblemCounter
from rankloop.logs.schema import FEATURES, IMPRESSIONS, REPORT_FILE
from rankloop.logs.writer import LogWriter
from rankloop.progress import Progress, report

# How many records are read between two reports of progress.
RECORDS_PER_REPORT = 50_000

BASES = (0, 1, None)


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """What every import can be told.

    Attributes:
        features: a Parquet or CSV file with ``query_id``, ``doc_id`` and features, for the log's own table.
        position_base: whether positions in the source count from 0 or from 1; None: find out. Where the
            source lists what was shown in its order, it is the positions of clicks that are meant.
        strict: refuse a log with any problem, rather than repair it.
        overwrite: whether a log that is there may be replaced.
        progress: called now and then with what is being done; ``detail`` is the number of records.
    """

    features: str | os.PathLike[str] | None = None
    position_base: int | None = None
    strict: bool = False
    overwrite: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        if self.position_base not in BASES:
            raise DataError(f"positions count from 0 or from 1, not from {self.position_base!r}")


DEFAULTS = ImportOptions()


class ImportSession:
    """What an importer reads with, and puts its rows into.

    Attributes:
        staging: where rows go.
        files: the files that are read.
        aside: records that have no place in a log, by kind.
    """

    def __init__(self, staging: Staging, progress: Progress | None) -> None:
        self.staging = staging
        self.found = ProblemCounter()
        self.files = SourceFiles(self.found)
        self.aside: Counter[str] = Counter()
        self._progress = progress
        self._records = 0

    def each(self, sources: Paths, what: str, take: Callable[[Record], None]) -> None:
        """Hand over every record; one whose values cannot be read is a broken line."""
        for record in self.files.records(sources, what):
            self.take(record, take)

    def take(self, record: Record, take: Callable[[Record], None]) -> None:
        """Hand over one record."""
        try:
            take(record)
        except BadValueError as error:
            self.files.broken(record.place, error)
        self.tell()

    def tell(self, records: int = 1) -> None:
        """Count records, and say so now and then."""
        before, self._records = self._records, self._records + records
        if self._records // RECORDS_PER_REPORT > before // RECORDS_PER_REPORT:
            _report(self._progress, "reading", self._records)


def run(
    read: Callable[[ImportSession], None],
    out: str | os.PathLike[str],
    options: ImportOptions,
    *,
    counted: bool = False,
) -> ImportReport:
    """Import.

    Args:
        read: fills the staged tables.
        out: the folder of the log.
        options: what the user wants.
        counted: whether the importer itself counts positions, from 1.
    """
    writer = LogWriter(out, overwrite=options.overwrite)
    with tempfile.TemporaryDirectory(prefix="rankloop-import-") as scratch:
        with Staging(Path(scratch)) as staging:
            reading = ImportSession(staging, options.progress)
            read(reading)
        sources = tuple(map(str, reading.files.paths))
        if not staging.rows[IMPRESSIONS]:
            raise _nothing("no impression could be read", sources, reading)
        _report(options.progress, "checking", staging.rows[IMPRESSIONS])
        with writer, engine() as running:
            cleaning = Cleaning(staging, reading.files, running)
            cleaning.run(writer, options.position_base, counted=counted)
            if not cleaning.rows:
                raise _nothing("no impression is left", sources, reading)
            features = 0
            if options.features is not None:
                _report(options.progress, "copying features", cleaning.rows)
                features = _copy_features(options.features, writer, cleaning)
            if options.strict and reading.found.problems():
                listed = "; ".join(map(str, reading.found.problems()))
                raise DataError(f"{', '.join(sources)}: refused, because strict: {listed}")
            done = ImportReport(
                writer.folder,
                sources,
                dict(staging.rows),
                cleaning.impressions,
                cleaning.rows,
                cleaning.clicks,
                cleaning.candidates,
                features,
                None if counted else cleaning.base,
                reading.found.problems(),
                dict(reading.aside),
            )
            text = json.dumps(done.to_dict(), indent=2, ensure_ascii=False)
            (writer.scratch / REPORT_FILE).write_text(text + "\n", encoding="utf-8")
        _report(options.progress, "written", cleaning.rows)
    return done


def _report(progress: Progress | None, what: str, records: int) -> None:
    report(progress, "import", note=f"{what}, {records:,} records", detail=records)


def _copy_features(path: str | os.PathLike[str], writer: LogWriter, cleaning: Cleaning) -> int:
    with Staging(cleaning.staging.folder, (FEATURES,)) as ids:
        for batch in copy_features(path, writer):
            ids.add_batch(FEATURES, batch)
    cleaning.look_at_features(ids.path(FEATURES), path)
    return ids.rows[FEATURES]


def _nothing(what: str, sources: tuple[str, ...], reading: ImportSession) -> DataError:
    reasons = [str(problem) for problem in reading.found.problems()]
    reasons += [f"{count:,} {kind}: set aside" for kind, count in reading.aside.items()]
    return DataError(f"{', '.join(sources)}: {what}: {'; '.join(reasons) or 'the files are empty'}")
