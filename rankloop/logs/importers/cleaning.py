"""Clean the staged tables: count and repair problems as `KINDS` describes, and write the log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import ibis
import pyarrow as pa
import pyarrow.compute as pc
from ibis import _

from rankloop.errors import DataError
from rankloop.logs.defects import IMPRESSION, DefectFinder
from rankloop.logs.engines import Batches, Engine, Expression
from rankloop.logs.importers.files import LINE_BITS, place_of
from rankloop.logs.importers.staging import CLICKS, SCORES, EarlierLog
from rankloop.logs.schema import CANDIDATES, COLUMNS, FEATURES, IMPRESSIONS, QUERY_DOCUMENT
from rankloop.logs.writer import AMOUNT, LogWriter

if TYPE_CHECKING:
    from rankloop.logs.importers.pipeline import ImportSession

# The clocks of servers whose logs were merged differ by minutes. A larger jump means that a clock was set, or
# that files are out of order.
JUMP_HOURS = 1

DOCUMENT = ("impression_id", "doc_id")
# Share of the clicks that may be earlier than their impression, whatever else may be lost; how many clicks it
# takes to speak of clocks; and the seconds by multiples of which time zones differ.
EARLY, ENOUGH, QUARTER = 0.2, 20, 900


class Cleaning:
    """Turns the staged tables into a log on an engine.

    Attributes:
        base: the number of the first position in the source.
        new_impressions: number of impressions in the source.
        impressions: number of impressions written.
        rows: number of rows of impressions written.
        clicks: number of clicked rows written.
        candidates: number of rows of candidates written.
    """

    def __init__(self, session: ImportSession, engine: Engine, earlier: EarlierLog | None = None) -> None:
        self.session, self.staging, self.files = session, session.staging, session.files
        self.engine, self.earlier = engine, earlier
        self.finder = DefectFinder(engine, self.files.found, self.files.place_name)
        self.base = 1
        self.click_base: int | None = None
        self.amounts = session.amounts or (earlier is not None and earlier.has_amounts)
        self.new_impressions = self.impressions = self.rows = self.clicks = self.candidates = 0
        # The log that the import is added to is the first file.
        self._first_place = 0 if earlier is None else place_of(1, 0)
        self._policies: set[str] = set()

    def run(self, writer: LogWriter, position_base: int | None, *, counted: bool) -> None:
        """Check all rows, and write the valid ones.

        Args:
            writer: the writer of the log.
            position_base: the number of the first position in the source; detected if None.
            counted: whether the importer has counted positions, from 1. The position base then applies to the
                positions of clicks.
        """
        shown = self.engine.table([self.staging.path(IMPRESSIONS)])
        self.click_base = position_base
        if not counted and self.staging.rows[IMPRESSIONS]:
            self.base = self._detect_base(shown) if position_base is None else position_base
        shown = shown.mutate(position=_.position - self.base + 1)
        self.new_impressions = self.finder.size(shown.select(*IMPRESSION).distinct())
        if self.earlier is not None:
            shown = self._with_earlier(shown)
        rows = self.finder.distinct_rows(shown)
        impressions = self.finder.impressions(rows)
        self._check_times(impressions.filter(_.kept & (_.place >= self._first_place)))
        rows = self._with_clicks(self._kept(rows, impressions), impressions)
        if self.amounts:
            rows = self._with_amounts(rows, shown)
        self.documents = rows.select(*QUERY_DOCUMENT, "place")
        self._write(writer, rows)
        self._write_candidates(writer)

    @property
    def randomised(self) -> tuple[str, ...]:
        """The policies that are declared to be randomised."""
        declared = set(self.session.randomised)
        unknown = declared - self._policies
        if unknown:
            raise DataError(
                f"{', '.join(map(repr, sorted(unknown)))} cannot be randomised: the policies of the log are "
                f"{', '.join(map(repr, sorted(self._policies)))}"
            )
        return tuple(sorted(declared | set(() if self.earlier is None else self.earlier.log.randomised)))

    def pairs(self) -> Batches:
        """The ids of all queries and documents that were shown or are candidates, in order."""
        return self.engine.batches(
            self.documents.select(*QUERY_DOCUMENT).distinct().order_by(*QUERY_DOCUMENT)
        )

    def check_features(self, featured: Path, source: object) -> None:
        """Count the documents without features; raise an error for duplicate features.

        Args:
            featured: a Parquet file with the ids of all documents that have features.
            source: the file of the features, for messages.
        """
        given = self.engine.table([featured])
        if self.earlier is not None and self.earlier.log.has(FEATURES):
            known = self.engine.table(self.earlier.log.files(FEATURES)).select(*QUERY_DOCUMENT)
            given = given.union(known.anti_join(given, QUERY_DOCUMENT))
        given = given.group_by(*QUERY_DOCUMENT).agg(times=_.count())
        for row in self.finder.fetch(given.filter(_.times > 1).order_by(*QUERY_DOCUMENT).limit(1)):
            raise DataError(
                f"{source}: {row['times']} rows for query {row['query_id']!r}, document {row['doc_id']!r}: "
                f"expected one row of features per document"
            )
        documents = self.documents.group_by(*QUERY_DOCUMENT).agg(place=_.place.min())
        self.finder.add("missing_features", documents.anti_join(given, QUERY_DOCUMENT), left_out=0)

    def _detect_base(self, shown: Expression) -> int:
        lowest = shown.group_by(*IMPRESSION).agg(low=_.position.min(), place=_.place.min())
        by_low = lowest.group_by("low").agg(impressions=_.count(), place=_.place.min())
        begins = {
            row["low"]: f"{row['impressions']:,} impressions (such as {self.files.place_name(row['place'])})"
            for row in self.finder.fetch(by_low)
        }
        if 0 in begins and 1 in begins:
            raise DataError(
                f"positions seem to count from 0 in {begins[0]} and from 1 in {begins[1]}: say which "
                f"is right (--position-base 0 or --position-base 1), or import the two kinds separately"
            )
        least = min(begins)
        if least not in (0, 1):
            raise DataError(
                f"positions begin at {least} in {begins[least]}: say from where they count "
                f"(--position-base 0 or --position-base 1)"
            )
        return int(least)

    def _with_earlier(self, new: Expression) -> Expression:
        """Add the rows of the log that the import is added to; it keeps what the new rows contradict."""
        assert self.earlier is not None
        earlier = self.engine.table([self.earlier.stage_impressions(self.staging.folder)])
        new = self.engine.stored(new.select(earlier.columns))
        both = new.semi_join(earlier, IMPRESSION).union(earlier.semi_join(new, IMPRESSION))
        places = both.select("impression_id", "query_id", "policy_id", "position", "doc_id").distinct()
        conflicts = (
            places.group_by(*IMPRESSION)
            .agg(
                rows=_.count(),
                queries=_.query_id.nunique(),
                policies=_.policy_id.nunique(),
                positions=_.position.nunique(),
            )
            .filter((_.queries > 1) | (_.policies > 1) | (_.positions < _.rows))
        )
        conflicts = self.engine.stored(conflicts.select(*IMPRESSION))
        left_out = new.semi_join(conflicts, IMPRESSION)
        ids = left_out.group_by(*IMPRESSION).agg(place=_.place.min())
        self.finder.add("conflicting_impressions", ids, left_out=self.finder.size(left_out))
        return earlier.union(new.anti_join(conflicts, IMPRESSION))

    def _with_amounts(self, rows: Expression, shown: Expression) -> Expression:
        """Add what each document was worth: the highest weight of the actions on it."""
        own = ibis.coalesce(_.amount, _.clicked.cast("float64"))
        amount = shown.group_by(*DOCUMENT).agg(own=own.max())
        rows = _left_join(rows, amount)
        if "value" not in rows.columns:
            return rows.mutate(amount=_.own)
        return rows.mutate(amount=ibis.greatest(_.own, ibis.coalesce(_.value, ibis.literal(0.0))))

    def _check_times(self, kept: Expression) -> None:
        file = (_.place / 2**LINE_BITS).floor()
        before = _.timestamp.lag().over(ibis.window(group_by=file, order_by="place"))
        timed = kept.filter(_.timestamp.notnull()).mutate(before=before)
        jumps = timed.filter(_.timestamp < _.before - ibis.interval(hours=JUMP_HOURS))
        self.finder.add("clock_jumps", jumps, left_out=0)

    def _kept(self, rows: Expression, impressions: Expression) -> Expression:
        kept = impressions.filter(_.kept)
        # Keeps the order of the source, which the engine may have changed.
        rows = rows.join(kept.select(*IMPRESSION, order=_.place, at=_.timestamp), IMPRESSION)
        if self.finder.found.count("repeated_documents"):
            nth = ibis.row_number().over(ibis.window(group_by=DOCUMENT, order_by="position"))
            clicked = _.clicked.any().over(ibis.window(group_by=DOCUMENT))
            rows = rows.mutate(clicked=clicked, nth=nth).filter(_.nth == 0)
        return rows

    def _with_clicks(self, rows: Expression, impressions: Expression) -> Expression:
        if not self.staging.rows[CLICKS]:
            return rows
        rows, finder = self.engine.stored(rows), self.finder
        clicks = self.engine.table([self.staging.path(CLICKS)])
        known, kept = (some.select(*IMPRESSION) for some in (impressions, impressions.filter(_.kept)))
        finder.add("clicks_without_impression", clicks.anti_join(known, IMPRESSION))
        finder.add("clicks_on_left_out", clicks.semi_join(known, IMPRESSION).anti_join(kept, IMPRESSION))
        clicks = clicks.semi_join(kept, IMPRESSION)
        shown = rows.select(*DOCUMENT, "at", shown_at="position")
        finder.add("clicks_not_shown", clicks.anti_join(shown, DOCUMENT))
        hits = self.engine.stored(clicks.join(shown, DOCUMENT))
        early = hits.filter(_.timestamp < _.at)
        finder.add("early_clicks", early, left_out=0)
        self._check_clocks(early, finder.size(hits))
        self._compare_positions(hits)
        actions = hits.group_by(*DOCUMENT, "action").agg(
            times=_.count(), place=_.place.max(), amount=_.value.max(), click=_.click.any()
        )
        again = actions.filter(_.times > 1)
        finder.add("repeated_clicks", again, count=finder.total(again, _.times - 1))
        hit = actions.group_by(*DOCUMENT).agg(hit=_.click.any(), value=_.amount.max())
        return _left_join(rows, hit).mutate(clicked=_.clicked | _.hit.fill_null(False))

    def _check_clocks(self, early: Expression, clicks: int) -> None:
        """Refuse clicks of which many are earlier than what they are on: clocks or time zones differ."""
        count, limit = self.finder.found.count("early_clicks"), self.session.options.max_loss
        if count < ENOUGH or count <= max(limit, EARLY) * clicks:
            return
        seconds = _.at.epoch_seconds() - _.timestamp.epoch_seconds()
        (row,) = self.finder.fetch(early.agg(shift=seconds.median()))
        shift = round(float(row["shift"]) / QUARTER) * QUARTER
        hours = f"{shift // 3600} h {shift % 3600 // 60:02} min"
        between = f"about {hours} in half of them, as if" if shift else "as if"
        raise DataError(
            f"{count:,} of {clicks:,} clicks are earlier than the impression that they are on, {between} the "
            f"clocks or time zones of clicks and impressions differ. Correct the times of one of them, or "
            f"import them as they are with --max-loss {min(1.0, int(100 * count / clicks + 1) / 100):g}"
        )

    def _compare_positions(self, hits: Expression) -> None:
        """Compare the positions of clicks with those of their documents.

        Positions of clicks may count from 0 or from 1: as given, or as for the majority of clicks.
        """
        given = hits.filter(_.position.notnull()).mutate(off=_.position - _.shown_at)
        counts = {row["off"]: row["n"] for row in self.finder.fetch(given.group_by("off").agg(n=_.count()))}
        usual = -1 if counts.get(-1, 0) > counts.get(0, 0) else 0
        if self.click_base is not None:
            usual = self.click_base - 1
        self.finder.add("disagreeing_positions", given.filter(_.off != usual), left_out=0)

    def _write(self, writer: LogWriter, rows: Expression) -> None:
        columns = [*IMPRESSION, "at", "query_id", "policy_id", "position", "doc_id", "clicked"]
        columns += [AMOUNT] if self.amounts else []
        ordered = rows.select(*columns, "order").order_by("order", "impression_id", "position")
        last, writer.starts = pa.scalar(None, pa.string()), True
        for batch in self.engine.batches(ordered):
            ids = batch.column("impression_id")
            # Rows of an impression are contiguous, in the order of positions.
            previous = pa.concat_arrays([pa.array([last], pa.string()), ids[:-1]])
            new = pc.fill_null(pc.not_equal(ids, previous), True)
            last = ids[-1].as_py()
            first = batch.column("position").filter(new).to_numpy()
            self.impressions += len(first)
            self.rows += len(batch)
            self.clicks += batch.column("clicked").true_count
            writer.starts &= bool((first == 1).all())
            named = dict(zip(batch.schema.names, batch.columns, strict=True), timestamp=batch.column("at"))
            self._policies.update(pc.unique(batch.column("policy_id")).to_pylist())
            extra = [AMOUNT] if self.amounts else []
            writer.write(IMPRESSIONS, {name: named[name] for name in (*COLUMNS[IMPRESSIONS], *extra)})

    def _write_candidates(self, writer: LogWriter) -> None:
        scores = self.engine.table([self.staging.path(SCORES)]) if self.staging.rows[SCORES] else None
        staged = None if self.earlier is None else self.earlier.stage_scores(self.staging.folder)
        if staged is not None:
            earlier = self.engine.table([staged])
            scores = earlier if scores is None else earlier.union(scores.select(earlier.columns))
        if scores is None:
            return
        by_document = self.engine.stored(
            scores.group_by("policy_id", *QUERY_DOCUMENT).agg(
                score=_.score.argmin(_.place), low=_.score.min(), high=_.score.max(), place=_.place.max()
            )
        )
        self.finder.add("score_conflicts", by_document.filter(_.low != _.high), left_out=0)
        self.documents = self.documents.union(by_document.select(*QUERY_DOCUMENT, "place"))
        for batch in self.engine.batches(by_document.order_by("policy_id", *QUERY_DOCUMENT)):
            writer.write(CANDIDATES, batch.select(list(COLUMNS[CANDIDATES])))
            self.candidates += len(batch)


def _left_join(rows: Expression, more: Expression) -> Expression:
    """Add columns to rows by document."""
    joined = rows.left_join(more, DOCUMENT)
    return joined.select(*rows.columns, *(name for name in more.columns if name not in DOCUMENT))
