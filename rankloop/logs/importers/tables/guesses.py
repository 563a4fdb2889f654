"""Guess which columns of a table mean what, from their names and their first values.

A guess is printed, and what is given by name is never guessed. The rules, for columns that are not given:

    clicked       a column of true, false, 0, 1 or counts; otherwise a column of kinds of events, with clicks;
                  of lists, a column whose values are in the lists, or marks at the ends of their elements
    position      small whole numbers; without it, documents are lists in the order in which they were shown
    page          where positions begin again on every page
    query         a column of queries; without it, each impression is a query of its own
    impression    see `impression_guess`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankloop.logs.importers.actions import Events
from rankloop.logs.importers.column_names import AUTO, Columns
from rankloop.logs.importers.parsing import is_no_time
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.column_picker import DEFAULTS, ColumnPicker
from rankloop.logs.importers.tables.impression_guess import ImpressionGuess
from rankloop.logs.importers.tables.lists import OR, are_labelled, are_lists, hold_lists
from rankloop.logs.importers.tables.profile import (
    MOST,
    Sample,
    are_dates,
    are_events,
    are_flags,
    are_kinds,
    are_marks,
    are_positions,
    are_times,
)
from rankloop.logs.importers.tables.shape import are_pages, restarts_on_pages
from rankloop.logs.importers.tables.value_guess import (
    are_rows_of_their_own,
    guess_clicked,
    guess_document,
    guess_documents,
    guess_position,
    guess_row_id,
    guess_siblings,
)
from rankloop.logs.importers.tables.words import find_family

KNOWN = ("position", "page", "doc_id", "query_id", "timestamp", "clicked")
# The number of rows that it takes to say that a column has an id for each of them.
ENOUGH = 20


@dataclass(frozen=True)
class Guess:
    """What the columns of a table mean.

    Attributes:
        columns: the names of the columns; None for those that do not exist.
        events: which kinds of events were shown and clicked, if there is a column of events.
        sample: the first rows that show documents.
        notes: sentences on what was guessed.
        rejected: sentences on columns that were not taken for what their names say, by field.
        clicks: the first clicks, if they are in another table or in events.
        reasons: why a column with a fitting name was not taken, by field, where another was taken, too.
    """

    columns: Columns
    events: Events | None
    sample: Sample
    notes: tuple[str, ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()
    clicks: Sample | None = None
    reasons: tuple[tuple[str, str], ...] = ()


def guess_columns(
    sample: Sample,
    given: Columns = DEFAULTS,
    events: Events | None = None,
    clicks: Sample | None = None,
) -> Guess:
    """Guess the columns that are neither given nor called by their default names.

    Args:
        sample: the first rows of the table.
        given: the columns as they were given.
        events: which kinds of events were shown and clicked, as far as it was given.
        clicks: the first rows of the table of clicks, if there is one.

    Example:
        >>> rows = [{"srchId": i // 2, "q": "cat", "rank": i % 2, "sku": f"s{i % 2}", "click_bool": 0}
        ...         for i in range(8)]
        >>> guess_columns(Sample(rows)).columns.impression_id
        'srchId'
    """
    if not len(sample):
        fields = ("event", "randomised", "page")
        unknown: dict[str, Any] = {name: None for name in fields if getattr(given, name) == AUTO}
        return Guess(replace(given, **unknown), events, sample)
    return _Guesser(sample, given, events, clicks).run()


class _Guesser(ColumnPicker):
    def __init__(self, sample: Sample, given: Columns, events: Events | None, clicks: Sample | None) -> None:
        super().__init__(sample, given)
        self.events, self.clicks = events, clicks
        self.separate = clicks is not None

    def run(self) -> Guess:
        self._clicks_or_events()
        self.set("position", words.POSITION, are_positions, (words.LIKE_POSITION, words.UNLIKE_POSITION))
        self._documents()
        self.set("timestamp", words.TIME, are_times, (words.LIKE_TIME, words.UNLIKE_TIME))
        if self.at("timestamp") is None and self.is_open("timestamp") and self.sample.is_unnamed:
            self.found["timestamp"] = self.by_value(are_dates)
        self._query()
        self.set("policy_id", words.POLICY, are_kinds)
        self.set("randomised", words.RANDOMISED, are_flags)
        self.set("page", words.PAGE, self._is_page)
        self._row_ids()
        notes = self._impression()
        self._clicked_rows()
        self._in_clicks()
        columns = replace(self.given, **self.found)
        return Guess(
            columns,
            self.events,
            self.sample,
            tuple(notes),
            tuple(pair for pair in self.rejected.items() if pair[0] not in self.found),
            self.clicks,
            tuple(self.rejected.items()),
        )

    def _clicks_or_events(self) -> None:
        """Find the column of clicks; or one of events, with the kinds that were shown and clicked."""
        if not self.separate and self.is_open("clicked"):
            self._marks_or_counts()
        clicked_in_rows = not self.separate and (not self.is_open("clicked") or "clicked" in self.found)
        clicked_in_rows &= self.given.clicked is not None
        if self.is_open("event"):
            self.found["event"] = None
            if not self.separate and not clicked_in_rows:
                self.found["event"] = self.pick(self.sample, words.EVENT, are_events)
                if self.found["event"] is None and self.sample.is_unnamed:
                    self.found["event"] = self.by_value(are_events)
        column = self.at("event")
        if column is None:
            return
        kinds = list(dict.fromkeys(map(str, self.sample.present(column))))
        found = (self.events or Events()).completed(kinds)
        rows = list(zip(map(str, self.sample.values(column)), self.sample.rows, strict=True))
        shown = Sample(row for kind, row in rows if kind in found.shown)
        clicks = Sample(row for kind, row in rows if kind in found.clicks)
        if self.events in (None, Events()) and not self._has_documents(shown) and self._has_lists(clicks):
            # Each click comes with the list that was shown.
            self.events, self.sample = found.shown_with_clicks(), clicks
            return
        self.found["clicked"] = None
        self.events, self.clicks, self.sample = found, clicks, shown

    def _marks_or_counts(self) -> None:
        """Find a column of clicks: of 0 and 1 if there is one, because counts may be those of the past."""
        like = (words.LIKE_CLICK, words.UNLIKE_CLICK)
        column = self.pick(self.sample, words.CLICKED, are_marks)
        counts = column or self.pick(self.sample, words.CLICKED, are_flags, field="clicked")
        if column is None and counts is not None:
            column = self.pick(self.sample, (), are_marks, like=like, without=(counts,)) or counts
        column = column or self.pick(self.sample, words.CLICK_TIME, self._are_times_of_some)
        column = column or self.pick(self.sample, words.CLICK_ID, self._are_ids_of_some)
        if column is not None:
            self.found["clicked"] = column

    def _are_times_of_some(self, values: list[Any]) -> bool:
        """Whether values are times, and some rows have none: those that were not clicked."""
        there = [value for value in values if not is_no_time(value)]
        return 0 < len(there) < len(self.sample) and are_times(there)

    def _are_ids_of_some(self, values: list[Any]) -> bool:
        """Whether values are different ids, and most rows have none: those that were not clicked."""
        there = [str(value) for value in values if not is_no_time(value)]
        return 0 < len(there) < MOST * len(self.sample) and len(set(there)) >= MOST * len(there)

    def _has_lists(self, sample: Sample) -> bool:
        return self.pick(sample, (*words.LISTS, *words.DOCUMENT), are_lists) is not None

    def _has_documents(self, sample: Sample) -> bool:
        given = not self.is_open("doc_id") and bool(sample.present(self.given.doc_id))
        return given or self.pick(sample, (*words.LISTS, *words.DOCUMENT), bool) is not None

    def _documents(self) -> None:
        """Find documents: one per row if there are positions, lists otherwise."""
        like = (words.LIKE_DOCUMENT, words.UNLIKE_DOCUMENT)
        position = self.at("position")
        if position is not None and any(isinstance(one, list) for one in self.sample.present(position)):
            name = guess_siblings(self.sample, position, self.named().values())
            if self.is_open("doc_id") and name is not None:
                self.found["doc_id"] = name
        elif position is not None:
            self.set("doc_id", words.DOCUMENT, _are_several, like)
            documents = self.at("doc_id")
            arrays = documents is None or any(isinstance(one, list) for one in self.sample.present(documents))
            if arrays and self.found.pop("position", None) is not None:
                # One position for a whole list is that of the list, or of a click.
                self.found.pop("doc_id", None)
                self._documents()
                if self.at("doc_id") is None:
                    self.found["position"] = position
                return
        elif self.is_open("doc_id"):
            lists = (*words.LISTS, *words.DOCUMENT)
            column = self.pick(self.sample, lists, self._are_lists, like=like)
            column = column or find_family(self.sample.columns, words.DOCUMENT)
            if column is None and self.sample.is_unnamed:
                column = self.by_value(are_labelled)
            clicks = self.clicks if self.separate else None
            column = column or guess_documents(self.sample, clicks, self.named().values())
            column = column or self.pick(self.sample, words.DOCUMENT, _are_several, like=like)
            if column is not None:
                self.found["doc_id"] = column
        column = self.at("doc_id")
        if column is None or not self._are_lists(self.sample.present(column)):
            if not self.separate and "clicked" not in self.found:
                like = (words.LIKE_CLICK, words.UNLIKE_CLICK)
                self.set("clicked", words.CLICKED, are_flags, like)
            return
        if self.is_open("position") and "position" not in self.found:
            self.found["position"] = None
        if self.is_open("clicked") and not self.separate and "clicked" not in self.found:
            name = guess_clicked(self.sample, column, self.named().values())
            if name is not None:
                self.found["clicked"] = name

    def _are_lists(self, values: list[Any]) -> bool:
        """Whether the values of a column of documents are lists of them."""
        others = (self.sample.present(self.at(field)) for field in ("position", "clicked"))
        # A day and an hour have a space between them.
        return hold_lists(values, *others) and not are_times(values)

    def _query(self) -> None:
        if self.is_open("query_id") and "query_id" not in self.found:
            self.found["query_id"] = self._query_column(without=())

    def _query_column(self, without: Sequence[str]) -> str | None:
        """The column of queries, apart from some."""
        return self.pick(
            self.sample,
            words.QUERY,
            lambda values: len(values) >= MOST * len(self.sample),
            like=(words.LIKE_QUERY, words.UNLIKE_QUERY),
            field="query_id",
            without=without,
        )

    def _is_page(self, values: list[Any]) -> bool:
        position = self.at("position")
        if position is not None:
            return restarts_on_pages(values, self.sample.present(position))
        documents = self.sample.present(self.at("doc_id"))
        return self._are_lists(documents) and are_pages(values, len(documents))

    def _impression(self) -> list[str]:
        if "impression_id" in self.found:
            return []
        known = {name: self.at(name) for name in KNOWN}
        # Clicks that name rows need not say to which impressions these belong.
        clicks = None if "row_id" in self.found or self.given.row_id is not None else self.clicks
        guess = ImpressionGuess(self.sample, clicks, known)
        if not self.is_open("impression_id"):
            return self._instead_of_rows(guess)
        found = guess.run()
        if found is None:
            return []
        self.found["impression_id"] = None if not found else found[0] if len(found) == 1 else found
        if found == (known["query_id"],) and self.given.query_id == DEFAULTS.query_id:
            # The id of a search is not what was searched for, if another column is.
            self.found.pop("query_id", None)
            text = self._query_column(without=found)
            if text is not None or self.is_open("query_id"):
                self.found["query_id"] = text
        return guess.notes

    def _instead_of_rows(self, guess: ImpressionGuess) -> list[str]:
        """Find another id of impressions if the usual column has one for each row, at any position."""
        usual = self.given.impression_id
        if usual != DEFAULTS.impression_id or len(self.sample) < ENOUGH:
            return []
        if not guess.has_single_rows((str(usual),)):
            return []
        found = guess.run()
        if not found or usual in found:
            return []
        self.found["impression_id"] = found[0] if len(found) == 1 else found
        return [
            f"Every row has its own {usual}, which is not what was shown together (--impression {usual} "
            f"would take each row for an impression)."
        ]

    def _row_ids(self) -> None:
        """Find ids of rows that clicks name, if they do not name documents."""
        documents = self.at("doc_id")
        if self.clicks is None or not len(self.clicks) or documents is None or not self.separate:
            return
        if self.given.row_id is None and not self._clicks_name(documents):
            name = guess_row_id(self.sample, self.clicks)
            if name is not None:
                self.found["row_id"] = name

    def _clicks_name(self, documents: str) -> bool:
        """Whether clicks name their documents, under the same name or another."""
        assert self.clicks is not None
        ok = OR in documents or bool(self.clicks.present(documents))
        return ok or guess_document(self.sample, self.clicks, documents) is not None

    def _in_clicks(self) -> None:
        """Names of the same things in the table or events of clicks, if they differ."""
        if self.clicks is None or not len(self.clicks):
            return
        time, documents, position = (self.at(name) for name in ("timestamp", "doc_id", "position"))
        if time is not None and OR not in time and not self.clicks.present(time):
            other = self.pick(self.clicks, (*words.TIME, *words.CLICK_TIME), are_times)
            self.found |= {} if other is None else {"timestamp": f"{time}{OR}{other}"}
        if documents is None or OR in documents or self.clicks.present(documents):
            return
        other = guess_document(self.sample, self.clicks, documents)
        if other is not None:
            self.found["doc_id"] = f"{documents}{OR}{other}"
        elif position is not None and (at := guess_position(self.clicks, position)) is not None:
            self.found["position"] = f"{position}{OR}{at}"

    def _clicked_rows(self) -> None:
        """Notice rows of clicks that show their documents themselves."""
        columns = replace(self.given, **self.found)
        if self.events is None or self.clicks is None or self.separate or self.at("event") is None:
            return
        if not are_rows_of_their_own(self.sample, self.clicks, columns):
            self.events = self.events.shown_and_clicked()
            self.sample = Sample([*self.sample.rows, *self.clicks.rows])
            self.clicks = None


def _are_several(values: list[Any]) -> bool:
    return len({str(value) for value in values}) > 1
