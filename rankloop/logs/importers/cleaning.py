"""From what was read to a log: what is wrong is counted and repaired as `KINDS` says, the rest is written."""

from __future__ import annotations

from pathlib import Path

import ibis
import pyarrow as pa
import pyarrow.compute as pc
from ibis import _

from rankloop.errors import DataError
from rankloop.logs.defects import IMPRESSION, DefectFinder
from rankloop.logs.engines import Engine, Expression
from rankloop.logs.importers.files import LINE_BITS, SourceFiles
from rankloop.logs.importers.staging import CLICKS, SCORES, Staging
from rankloop.logs.schema import CANDIDATES, COLUMNS, IMPRESSIONS, ITEM
from rankloop.logs.writer import LogWriter

# Servers whose logs were merged differ by minutes; more than this is a clock that was set, or files out of
# order.
JUMP_HOURS = 1

DOCUMENT = ("impression_id", "doc_id")


class Cleaning:
    """The staged tables on an engine, made into a log step by step.

    Attributes:
        base: the number of the first position in the source.
        impressions: how many impressions are written.
        rows: how many rows of them.
        clicks: how many clicked rows.
        candidates: how many rows of candidates.
    """

    def __init__(self, staging: Staging, files: SourceFiles, engine: Engine) -> None:
        self.staging, self.files, self.engine = staging, files, engine
        self.look = DefectFinder(engine, files.found, files.place_name)
        self.base = 1
        self.click_base: int | None = None
        self.impressions = self.rows = self.clicks = self.candidates = 0

    def run(self, writer: LogWriter, position_base: int | None, *, counted: bool) -> None:
        """Look at everything, and write what is left.

        Args:
            writer: what writes the log.
            position_base: the number of the first position in the source; None: find out.
            counted: whether the importer has counted positions, from 1; what is said of their base is then
                said of the positions of clicks.
        """
        shown = self.engine.table([self.staging.path(IMPRESSIONS)])
        self.click_base = position_base
        if not counted:
            self.base = self._recognised_base(shown) if position_base is None else position_base
        rows = self.look.distinct_rows(shown.mutate(position=_.position - self.base + 1))
        impressions = self.look.impressions(rows)
        self._look_at_times(impressions.filter(_.kept))
        rows = self._with_clicks(self._kept(rows, impressions), impressions)
        self.items = rows.select(*ITEM, "place")
        self._write(writer, rows)
        self._write_candidates(writer)

    def look_at_features(self, featured: Path, source: object) -> None:
        """Count the documents that have no features; refuse features that are given twice.

        Args:
            featured: a Parquet file with the ids of all documents that have features.
            source: where they came from, for messages.
        """
        given = self.engine.table([featured]).group_by(*ITEM).agg(times=_.count())
        for row in self.look.fetch(given.filter(_.times > 1).order_by(*ITEM).limit(1)):
            raise DataError(
                f"{source}: {row['times']} rows for query {row['query_id']!r}, document {row['doc_id']!r}: "
                f"every document has one row of features"
            )
        items = self.items.group_by(*ITEM).agg(place=_.place.min())
        self.look.add("missing_features", items.anti_join(given, ITEM), left_out=0)

    def _recognised_base(self, shown: Expression) -> int:
        lowest = shown.group_by(*IMPRESSION).agg(low=_.position.min(), place=_.place.min())
        by_low = lowest.group_by("low").agg(impressions=_.count(), place=_.place.min())
        begins = {
            row["low"]: f"{row['impressions']:,} impressions (such as {self.files.place_name(row['place'])})"
            for row in self.look.fetch(by_low)
        }
        if 0 in begins and 1 in begins:
            raise DataError(
                f"positions seem to count from 0 in {begins[0]} and from 1 in {begins[1]}: say which is "
                f"meant with position_base, or import the two kinds one by one"
            )
        least = min(begins)
        if least not in (0, 1):
            raise DataError(
                f"positions begin at {least} in {begins[least]}: say with position_base whether they count "
                f"from 0 or from 1"
            )
        return int(least)

    def _look_at_times(self, kept: Expression) -> None:
        file = (_.place / 2**LINE_BITS).floor()
        before = _.timestamp.lag().over(ibis.window(group_by=file, order_by="place"))
        timed = kept.filter(_.timestamp.notnull()).mutate(before=before)
        jumps = timed.filter(_.timestamp < _.before - ibis.interval(hours=JUMP_HOURS))
        self.look.add("clock_jumps", jumps, left_out=0)

    def _kept(self, rows: Expression, impressions: Expression) -> Expression:
        kept = impressions.filter(_.kept)
        # In the order of the source, whatever the engine did.
        rows = rows.join(kept.select(*IMPRESSION, order=_.place, at=_.timestamp), IMPRESSION)
        if self.look.found.count("repeated_documents"):
            nth = ibis.row_number().over(ibis.window(group_by=DOCUMENT, order_by="position"))
            clicked = _.clicked.any().over(ibis.window(group_by=DOCUMENT))
            rows = rows.mutate(clicked=clicked, nth=nth).filter(_.nth == 0)
        return rows

    def _with_clicks(self, rows: Expression, impressions: Expression) -> Expression:
        if not self.staging.rows[CLICKS]:
            return rows
        rows, look = self.engine.stored(rows), self.look
        clicks = self.engine.table([self.staging.path(CLICKS)])
        known, kept = (some.select(*IMPRESSION) for some in (impressions, impressions.filter(_.kept)))
        look.add("clicks_without_impression", clicks.anti_join(known, IMPRESSION))
        look.add("clicks_on_left_out", clicks.semi_join(known, IMPRESSION).anti_join(kept, IMPRESSION))
        clicks = clicks.semi_join(kept, IMPRESSION)
        shown = rows.select(*DOCUMENT, "at", shown_at="position")
        look.add("clicks_not_shown", clicks.anti_join(shown, DOCUMENT))
        hits = self.engine.stored(clicks.join(shown, DOCUMENT))
        look.add("early_clicks", hits.filter(_.timestamp < _.at), left_out=0)
        self._compare_positions(hits)
        clicked = hits.group_by(*DOCUMENT).agg(times=_.count(), place=_.place.max())
        again = clicked.filter(_.times > 1)
        look.add("repeated_clicks", again, count=look.total(again, _.times - 1))
        hit = clicked.select(*DOCUMENT, hit=ibis.literal(True))
        return rows.left_join(hit, DOCUMENT).mutate(clicked=_.clicked | _.hit.fill_null(False))

    def _compare_positions(self, hits: Expression) -> None:
        """Positions of clicks may count from 0 or from 1: whichever is said, or more of them do."""
        given = hits.filter(_.position.notnull()).mutate(off=_.position - _.shown_at)
        counts = {row["off"]: row["n"] for row in self.look.fetch(given.group_by("off").agg(n=_.count()))}
        usual = -1 if counts.get(-1, 0) > counts.get(0, 0) else 0
        if self.click_base is not None:
            usual = self.click_base - 1
        self.look.add("disagreeing_positions", given.filter(_.off != usual), left_out=0)

    def _write(self, writer: LogWriter, rows: Expression) -> None:
        columns = (*IMPRESSION, "at", "query_id", "policy_id", "position", "doc_id", "clicked")
        ordered = rows.select(*columns, "order").order_by("order", "impression_id", "position")
        last, writer.starts = pa.scalar(None, pa.string()), True
        for batch in self.engine.batches(ordered):
            ids = batch.column("impression_id")
            # Rows of an impression follow one another, the highest position first.
            previous = pa.concat_arrays([pa.array([last], pa.string()), ids[:-1]])
            new = pc.fill_null(pc.not_equal(ids, previous), True)
            last = ids[-1].as_py()
            first = batch.column("position").filter(new).to_numpy()
            self.impressions += len(first)
            self.rows += len(batch)
            self.clicks += batch.column("clicked").true_count
            writer.starts &= bool((first == 1).all())
            named = dict(zip(batch.schema.names, batch.columns, strict=True), timestamp=batch.column("at"))
            writer.write(IMPRESSIONS, {name: named[name] for name in COLUMNS[IMPRESSIONS]})

    def _write_candidates(self, writer: LogWriter) -> None:
        if not self.staging.rows[SCORES]:
            return
        by_item = self.engine.stored(
            self.engine.table([self.staging.path(SCORES)])
            .group_by("policy_id", *ITEM)
            .agg(score=_.score.argmin(_.place), low=_.score.min(), high=_.score.max(), place=_.place.max())
        )
        self.look.add("score_conflicts", by_item.filter(_.low != _.high), left_out=0)
        self.items = self.items.union(by_item.select(*ITEM, "place"))
        for batch in self.engine.batches(by_item.order_by("policy_id", *ITEM)):
            writer.write(CANDIDATES, batch.select(list(COLUMNS[CANDIDATES])))
            self.candidates += len(batch)
