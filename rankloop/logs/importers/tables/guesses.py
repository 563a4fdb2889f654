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

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankloop.logs.importers.column_names import AUTO, Columns
from rankloop.logs.importers.parsing import shortened, whole
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.column_families import find_family
from rankloop.logs.importers.tables.events import Events
from rankloop.logs.importers.tables.guess_notes import describe_guesses
from rankloop.logs.importers.tables.impression_guess import ImpressionGuess
from rankloop.logs.importers.tables.list_guess import (
    guess_clicked,
    guess_documents,
    guess_siblings,
    speaks_of_clicks,
)
from rankloop.logs.importers.tables.lists import are_labelled, are_lists, hold_lists
from rankloop.logs.importers.tables.pages import are_pages, restarts_on_pages
from rankloop.logs.importers.tables.paths import OR, STEP, ColumnPath
from rankloop.logs.importers.tables.sample import Sample
from rankloop.logs.importers.tables.shape import is_no_time
from rankloop.logs.importers.tables.unnamed_events import guess_unnamed
from rankloop.logs.importers.tables.value_kinds import (
    MOST,
    are_dates,
    are_events,
    are_flags,
    are_kinds,
    are_marks,
    are_positions,
    are_times,
)

DEFAULTS = Columns()
Accept = Callable[[list[Any]], bool]
# Patterns of names: what they have, and what they do not have.
Like = tuple[re.Pattern[str], re.Pattern[str]]
OPTIONAL = ("timestamp", "query_id", "policy_id", "randomised", "event", "page")
KNOWN = ("position", "page", "doc_id", "query_id", "timestamp", "clicked")
# How many times as many positions as rows an impression may have, typically, if positions are guessed.
FAR_APART = 10
KIND_OF = {"position": "whole numbers", "clicked": "true and false, or 0 and 1", "doc_id": "documents"}


@dataclass(frozen=True)
class Guess:
    """What the columns of a table mean.

    Attributes:
        columns: the names of the columns; None for those that do not exist.
        events: which kinds of events were shown and clicked, if there is a column of events.
        sample: the first rows that show documents.
        notes: sentences on what was guessed.
        rejected: sentences on columns that were not taken for what their names say, by field.
    """

    columns: Columns
    events: Events | None
    sample: Sample
    notes: tuple[str, ...] = ()
    rejected: tuple[tuple[str, str], ...] = ()


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


class _Guesser:
    def __init__(self, sample: Sample, given: Columns, events: Events | None, clicks: Sample | None) -> None:
        self.sample, self.given, self.events, self.clicks = sample, given, events, clicks
        self.found: dict[str, Any] = {}
        self.rejected: dict[str, str] = {}
        self.separate = clicks is not None

    def run(self) -> Guess:
        self._clicks_or_events()
        self._set("position", words.POSITION, are_positions, (words.LIKE_POSITION, words.UNLIKE_POSITION))
        self._documents()
        self._set("timestamp", words.TIME, are_times, (words.LIKE_TIME, words.UNLIKE_TIME))
        if self._at("timestamp") is None and self._is_open("timestamp") and self.sample.is_unnamed:
            self.found["timestamp"] = self._by_value(are_dates)
        self._query(())
        self._set("policy_id", words.POLICY, are_kinds)
        self._set("randomised", words.RANDOMISED, are_flags)
        self._set("page", words.PAGE, self._is_page)
        notes = self._impression()
        self._check_positions()
        self._in_clicks()
        columns = replace(self.given, **self.found)
        return Guess(
            columns,
            self.events,
            self.sample,
            (*describe_guesses(columns, self.events, self.found, self.rejected, self.sample), *notes),
            tuple(item for item in self.rejected.items() if item[0] not in self.found),
        )

    def _is_open(self, field: str) -> bool:
        """Whether a column was neither given nor is there under its default name."""
        name, usual = getattr(self.given, field), getattr(DEFAULTS, field)
        if name == AUTO:
            return True
        return name == usual and usual is not None and not ColumnPath(usual).is_in(self.sample.columns)

    def _set(self, field: str, names: Sequence[str], accept: Accept, like: Like | None = None) -> None:
        if self._is_open(field):
            column = self._pick(self.sample, names, accept, like=like, field=field)
            if column is not None or field in OPTIONAL:
                self.found[field] = column

    def _pick(
        self,
        sample: Sample,
        names: Sequence[str],
        accept: Accept,
        *,
        like: Like | None = None,
        field: str = "",
        without: Sequence[str] = (),
    ) -> str | None:
        """The column with the best name whose values are of the expected kind."""
        order = {name: number for number, name in reversed(list(enumerate(names)))}
        taken = {*self._named().values(), *without}
        known = []
        for number, column in enumerate(sample.columns):
            spelled = words.spellings(column)
            rank = min((order[name] for name in spelled if name in order), default=None)
            if rank is None and like is not None and _is_like(spelled, like):
                rank = len(names)
            # What an object of clicks holds is about them, not about what was shown.
            of_clicks = sample is self.sample and speaks_of_clicks(column.rpartition(STEP)[0])
            if rank is not None and column not in taken and not of_clicks:
                known.append((rank, column.count("."), number, column))
        for rank, *_, column in sorted(known):
            present = sample.present(column)
            if present and accept(present):
                return column
            if present and (rank < len(names) or field == "query_id"):
                self.rejected.setdefault(field, _rejection(field, column, present[0]))
        return None

    def _by_value(self, accept: Accept) -> str | None:
        """The first column without a name whose values are of the expected kind."""
        taken = set(self._named().values())
        return next(
            (
                name
                for name in self.sample.columns
                if name not in taken and self.sample.present(name) and accept(self.sample.present(name))
            ),
            None,
        )

    def _named(self) -> dict[str, Any]:
        """The columns that are known so far."""
        fields = {name: getattr(self.given, name) for name in vars(DEFAULTS)}
        fields = {name: value for name, value in fields.items() if not self._is_open(name)}
        return {name: value for name, value in {**fields, **self.found}.items() if isinstance(value, str)}

    def _at(self, field: str) -> str | None:
        return self._named().get(field)

    def _clicks_or_events(self) -> None:
        """Find the column of clicks; or one of events, with the kinds that were shown and clicked."""
        if not self.separate and self._is_open("clicked"):
            self._marks_or_counts()
        clicked_in_rows = not self.separate and (not self._is_open("clicked") or "clicked" in self.found)
        clicked_in_rows &= self.given.clicked is not None
        if self._is_open("event"):
            self.found["event"] = None
            if not self.separate and not clicked_in_rows:
                self.found["event"] = self._pick(self.sample, words.EVENT, are_events)
                if self.found["event"] is None and self.sample.is_unnamed:
                    self.found["event"] = self._by_value(are_events)
        column = self._at("event")
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
        column = self._pick(self.sample, words.CLICKED, are_marks)
        counts = column or self._pick(self.sample, words.CLICKED, are_flags, field="clicked")
        if column is None and counts is not None:
            column = self._pick(self.sample, (), are_marks, like=like, without=(counts,)) or counts
        column = column or self._pick(self.sample, words.CLICK_TIME, self._are_times_of_some)
        if column is not None:
            self.found["clicked"] = column

    def _are_times_of_some(self, values: list[Any]) -> bool:
        """Whether values are times, and some rows have none: those that were not clicked."""
        there = [value for value in values if not is_no_time(value)]
        return 0 < len(there) < len(self.sample) and are_times(there)

    def _has_lists(self, sample: Sample) -> bool:
        return self._pick(sample, (*words.LISTS, *words.DOCUMENT), are_lists) is not None

    def _has_documents(self, sample: Sample) -> bool:
        given = not self._is_open("doc_id") and bool(sample.present(self.given.doc_id))
        return given or self._pick(sample, (*words.LISTS, *words.DOCUMENT), bool) is not None

    def _documents(self) -> None:
        """Find documents: one per row if there are positions, lists otherwise."""
        like = (words.LIKE_DOCUMENT, words.UNLIKE_DOCUMENT)
        if self._is_open("doc_id") and self._unnamed_events():
            return
        position = self._at("position")
        if position is not None and any(isinstance(one, list) for one in self.sample.present(position)):
            name = guess_siblings(self.sample, position, self._named().values())
            if self._is_open("doc_id") and name is not None:
                self.found["doc_id"] = name
        elif position is not None:
            self._set("doc_id", words.DOCUMENT, _are_several, like)
            documents = self._at("doc_id")
            arrays = documents is None or any(isinstance(one, list) for one in self.sample.present(documents))
            if arrays and self.found.pop("position", None) is not None:
                # One position for a whole list is that of the list, or of a click.
                self.found.pop("doc_id", None)
                self._documents()
                if self._at("doc_id") is None:
                    self.found["position"] = position
                return
        elif self._is_open("doc_id"):
            lists = (*words.LISTS, *words.DOCUMENT)
            column = self._pick(self.sample, lists, self._are_lists, like=like)
            like_list = (words.LIKE_LIST, words.UNLIKE_LIST)
            column = column or self._pick(self.sample, (), self._are_lists, like=like_list)
            column = column or find_family(self.sample.columns, words.DOCUMENT)
            if column is None and self.sample.is_unnamed:
                column = self._by_value(are_labelled)
            clicks = self.clicks if self.separate else None
            column = column or guess_documents(self.sample, clicks, self._named().values())
            column = column or self._pick(self.sample, words.DOCUMENT, _are_several, like=like)
            if column is not None:
                self.found["doc_id"] = column
        column = self._at("doc_id")
        if column is None or not self._are_lists(self.sample.present(column)):
            if not self.separate and "clicked" not in self.found:
                like = (words.LIKE_CLICK, words.UNLIKE_CLICK)
                self._set("clicked", words.CLICKED, are_flags, like)
            return
        if self._is_open("position") and "position" not in self.found:
            self.found["position"] = None
        if self._is_open("clicked") and not self.separate and "clicked" not in self.found:
            name = guess_clicked(self.sample, column, self._named().values())
            if name is not None:
                self.found["clicked"] = name

    def _unnamed_events(self) -> bool:
        """Whether columns of events without names were found, by what searches and clicks share."""
        event = self._at("event")
        if event is None or self.clicks is None or not self.sample.is_unnamed:
            return False
        guess = guess_unnamed(self.sample, self.clicks, event)
        if guess is None:
            return False
        names = guess.impression
        found: dict[str, Any] = {"doc_id": guess.documents, "position": None, "query_id": guess.query}
        found["impression_id"] = names[0] if len(names) == 1 else names
        self.found.update({name: value for name, value in found.items() if self._is_open(name)})
        return True

    def _are_lists(self, values: list[Any]) -> bool:
        """Whether the values of a column of documents are lists of them."""
        others = (self.sample.present(self._at(field)) for field in ("position", "clicked"))
        return hold_lists(values, *others)

    def _query(self, without: Sequence[str]) -> None:
        if self._is_open("query_id") and "query_id" not in self.found:
            self.found["query_id"] = self._pick(
                self.sample,
                words.QUERY,
                lambda values: len(values) >= MOST * len(self.sample),
                like=(words.LIKE_QUERY, words.UNLIKE_QUERY),
                field="query_id",
                without=without,
            )

    def _is_page(self, values: list[Any]) -> bool:
        position = self._at("position")
        if position is not None:
            return restarts_on_pages(values, self.sample.present(position))
        documents = self.sample.present(self._at("doc_id"))
        return self._are_lists(documents) and are_pages(values, len(documents))

    def _impression(self) -> list[str]:
        if not self._is_open("impression_id") or "impression_id" in self.found:
            return []
        known = {name: self._at(name) for name in KNOWN}
        guess = ImpressionGuess(self.sample, self.clicks, known)
        found = guess.run()
        if found is None:
            return []
        self.found["impression_id"] = None if not found else found[0] if len(found) == 1 else found
        if found == (known["query_id"],) and self._is_open("query_id"):
            del self.found["query_id"]
            self._query(without=found)
        return guess.notes

    def _check_positions(self) -> None:
        """Forget guessed positions that are far apart: another number, such as a rank of sales."""
        column, names = self.found.get("position"), replace(self.given, **self.found).impression_columns
        if column is None or not names:
            return
        parts = [self.sample.values(name) for name in names]
        places: dict[str, list[int]] = {}
        for value, *key in zip(self.sample.values(column), *parts, strict=True):
            if are_positions([value]) and not isinstance(value, list):
                places.setdefault(str(key), []).append(whole(value, ""))
        spans = sorted((max(some) - min(some) + 1) / len(some) for some in places.values())
        if spans and spans[len(spans) // 2] > FAR_APART:
            self.rejected["position"] = f"the numbers in {column} are far apart within an impression"
            del self.found["position"]

    def _in_clicks(self) -> None:
        """Names of the same things in the table or events of clicks, if they differ."""
        if self.clicks is None or not len(self.clicks):
            return
        for field, names in (("doc_id", words.DOCUMENT), ("timestamp", (*words.TIME, "click_time"))):
            shown = self._at(field)
            if shown is None or OR in shown or self.clicks.present(shown):
                continue
            like = (words.LIKE_DOCUMENT, re.compile("categor")) if field == "doc_id" else None
            other = self._pick(self.clicks, names, lambda values: not are_lists(values), like=like)
            if other is not None:
                self.found[field] = f"{shown}{OR}{other}"


def _are_several(values: list[Any]) -> bool:
    return len({str(value) for value in values}) > 1


def _is_like(spelled: Sequence[str], like: Like) -> bool:
    wanted, unwanted = like
    return any(wanted.search(name) for name in spelled) and not any(unwanted.search(n) for n in spelled)


def _rejection(field: str, column: str, example: Any) -> str:
    if field == "query_id":
        return f"{column} is empty in many rows"
    expected = KIND_OF.get(field)
    return "" if expected is None else f"{column} does not hold {expected}, such as {shortened(example)}"
