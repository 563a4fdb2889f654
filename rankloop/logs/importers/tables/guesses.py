"""Guess which columns of a table mean what, from their names and their first values.

A guess is printed, and what is given by name is never guessed. The rules, for columns that are not given:

    clicked       a column of true, false, 0, 1 or counts; otherwise a column of kinds of events, with clicks
    position      small whole numbers; without it, documents are lists in the order in which they were shown
    impression    an id such that no impression has two queries, or two documents at one position; of several
                  columns if need be, such as session and time
    query         a column of queries; without it, each impression is a query of its own
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankloop.logs.importers.column_names import AUTO, Columns
from rankloop.logs.importers.parsing import BadValueError, clicked, whole
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.events import Events
from rankloop.logs.importers.tables.lists import are_lists
from rankloop.logs.importers.tables.paths import OR, ColumnPath
from rankloop.logs.importers.tables.sample import Sample
from rankloop.logs.importers.times import is_day_first, microseconds

# Share of the values of a column that must be of the expected kind.
MOST = 0.9
HALF = 0.5
# Share of impressions with two queries, or two documents at one position, that an id may have.
FEW = 0.05
# A column with more different values than this does not hold policies or kinds of events.
KINDS = 50
# Numbers from this size on are times since 1970, in microseconds: 1973. Smaller ones count from a session's
# beginning, or are hours.
FIRST_TIME = 10**14
DEEPEST_POSITION = 1_000
DEFAULTS = Columns()


@dataclass(frozen=True)
class Guess:
    """What the columns of a table mean.

    Attributes:
        columns: the names of the columns; None for those that do not exist.
        events: which kinds of events were shown and clicked, if there is a column of events.
        sample: the first rows that show documents.
        notes: sentences on what was guessed.
    """

    columns: Columns
    events: Events | None
    sample: Sample
    notes: tuple[str, ...]


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
        event, randomised = (None if name == AUTO else name for name in (given.event, given.randomised))
        return Guess(replace(given, event=event, randomised=randomised), events, sample, ())
    return _Guesser(sample, given, events, clicks).run()


class _Guesser:
    def __init__(self, sample: Sample, given: Columns, events: Events | None, clicks: Sample | None) -> None:
        self.sample, self.given, self.events, self.clicks = sample, given, events, clicks
        self.found: dict[str, Any] = {}
        self.separate = clicks is not None

    def run(self) -> Guess:
        self._clicks_or_events()
        self._set("position", words.POSITION, _are_positions)
        self._documents()
        self._set("timestamp", words.TIME, _are_times)
        self._set("query_id", words.QUERY, bool)
        self._set("policy_id", words.POLICY, _are_kinds)
        self._set("randomised", words.RANDOMISED, _are_flags)
        self._impression()
        self._in_clicks()
        columns = replace(self.given, **self.found)
        return Guess(columns, self.events, self.sample, tuple(self._notes(columns)))

    def _is_open(self, field: str) -> bool:
        """Whether a column was neither given nor is there under its default name."""
        name, usual = getattr(self.given, field), getattr(DEFAULTS, field)
        if name == AUTO:
            return True
        return name == usual and usual is not None and not ColumnPath(usual).is_in(self.sample.columns)

    def _set(self, field: str, names: Sequence[str], accept: Callable[[list[Any]], bool]) -> None:
        if self._is_open(field):
            column = self._pick(self.sample, names, accept)
            optional = field in ("timestamp", "query_id", "policy_id", "randomised", "event")
            if column is not None or optional:
                self.found[field] = column

    def _pick(self, sample: Sample, names: Sequence[str], accept: Callable[[list[Any]], bool]) -> str | None:
        """The column with the best name whose values are of the expected kind."""
        order = {name: number for number, name in reversed(list(enumerate(names)))}
        taken = set(self._named().values())
        known = [
            (order[words.normalised(column)], column.count("."), number, column)
            for number, column in enumerate(sample.columns)
            if words.normalised(column) in order and column not in taken
        ]
        for *_, column in sorted(known):
            present = sample.present(column)
            if present and accept(present):
                return column
        return None

    def _named(self) -> dict[str, Any]:
        """The columns that are known so far."""
        fields = {name: getattr(self.given, name) for name in vars(DEFAULTS)}
        fields = {name: value for name, value in fields.items() if not self._is_open(name)}
        return {name: value for name, value in {**fields, **self.found}.items() if isinstance(value, str)}

    def _at(self, field: str) -> str | None:
        return self._named().get(field)

    def _clicks_or_events(self) -> None:
        """Find the column of clicks; or one of events, with the kinds that were shown and clicked."""
        if not self.separate:
            self._set("clicked", words.CLICKED, _are_flags)
        clicked_in_rows = not self.separate and (not self._is_open("clicked") or "clicked" in self.found)
        clicked_in_rows &= self.given.clicked is not None
        if self._is_open("event"):
            self.found["event"] = None
            if not self.separate and not clicked_in_rows:
                self.found["event"] = self._pick(self.sample, words.EVENT, _are_events)
        column = self._at("event")
        if column is None:
            return
        kinds = list(dict.fromkeys(map(str, self.sample.present(column))))
        self.events = (self.events or Events()).completed(kinds)
        self.found["clicked"] = None
        rows = list(zip(map(str, self.sample.values(column)), self.sample.rows, strict=True))
        self.clicks = Sample(row for kind, row in rows if kind in self.events.clicks)
        self.sample = Sample(row for kind, row in rows if kind in self.events.shown)

    def _documents(self) -> None:
        """Find documents: one per row if there are positions, lists otherwise."""
        positions = not self._is_open("position") or "position" in self.found
        if positions and self._at("position") is not None:
            self._set("doc_id", words.DOCUMENT, lambda values: len({str(value) for value in values}) > 1)
            return
        if self._is_open("doc_id"):
            column = self._pick(self.sample, (*words.LISTS, *words.DOCUMENT), are_lists)
            if column is not None:
                self.found["doc_id"] = column
        column = self._at("doc_id")
        if column is not None and are_lists(self.sample.present(column)):
            if self._is_open("position"):
                self.found["position"] = None
            if self._is_open("clicked") and not self.separate and self._at("event") is None:
                name = self._pick(self.sample, _clicked_lists(self.sample.columns), lambda _: True)
                if name is not None:
                    self.found["clicked"] = name

    def _impression(self) -> None:
        if not self._is_open("impression_id"):
            return
        single = [(name,) for name in self._all(words.IMPRESSION)]
        session, user = (self._all(names)[:1] for names in (words.SESSION, words.USER))
        number = self._all(words.NUMBER)[:1]
        query, time = ([at] if (at := self._at(name)) else [] for name in ("query_id", "timestamp"))
        # A click comes later than what was shown, so that the time does not tell to what it belongs.
        time = [] if self.clicks is not None else time
        numbered = [[*session, *number], [*session, *number, *query]] if number else []
        parts = [*numbered, [*session, *query, *time], [*session, *time], [*user, *query, *time]]
        parts += [[*user, *time], [*query, *time]]
        # A query, or a user, comes again: alone, neither is an impression.
        parts = [names for names in parts if set(names) - {*user, *query}]
        composed = [tuple(names) for names in parts]
        composed += [(*one, *query, *time) for one in single]
        for names in [*single, *composed]:
            if names and self._tells_apart(names):
                self.found["impression_id"] = names[0] if len(names) == 1 else names
                return
        if single:
            self.found["impression_id"] = single[0][0]
        elif self._lists() and self.clicks is None:
            self.found["impression_id"] = None

    def _all(self, names: Sequence[str]) -> list[str]:
        """Columns of these names, in order of preference, that clicks have, too."""
        order = {name: number for number, name in reversed(list(enumerate(names)))}
        known = [column for column in self.sample.columns if words.normalised(column) in order]
        if self.clicks is not None:
            known = [column for column in known if self.clicks.present(column)]
        return sorted(known, key=lambda column: (order[words.normalised(column)], column.count(".")))

    def _lists(self) -> bool:
        """Whether a row holds a list of documents."""
        documents = self._at("doc_id")
        return documents is not None and are_lists(self.sample.present(documents))

    def _tells_apart(self, names: Sequence[str]) -> bool:
        """Whether these columns are an id of impressions: one query, and one document per position."""
        keys = list(zip(*(map(str, self.sample.values(name)) for name in names), strict=True))
        if not keys or any(len(self.sample.present(name)) < MOST * len(keys) for name in names):
            return False
        if self._lists():
            return len(set(keys)) >= (1 - FEW) * len(keys)
        position, query = self._at("position"), self._at("query_id")
        if position is None:
            return True
        places = list(zip(keys, map(str, self.sample.values(position)), strict=True))
        documents = self.sample.values(self._at("doc_id") or position)
        distinct = {(place, str(document)) for place, document in zip(places, documents, strict=True)}
        impressions = len(set(keys))
        again = len(distinct) - len(set(places))
        mixed = 0
        if query is not None:
            pairs = set(zip(keys, map(str, self.sample.values(query)), strict=True))
            mixed = len(pairs) - impressions
        # One row per impression is no impression: a page shows several documents.
        alone = impressions > MOST * len(keys) and len(set(map(str, self.sample.values(position)))) > 1
        return again + mixed <= FEW * impressions and not alone

    def _in_clicks(self) -> None:
        """Names of the same things in the table or events of clicks, if they differ."""
        if self.clicks is None or not len(self.clicks):
            return
        for field, names in (("doc_id", words.DOCUMENT), ("timestamp", (*words.TIME, "click_time"))):
            shown = self._at(field)
            if shown is None or OR in shown or self.clicks.present(shown):
                continue
            other = self._pick(self.clicks, names, lambda values: not are_lists(values))
            if other is not None:
                self.found[field] = f"{shown}{OR}{other}"

    def _notes(self, columns: Columns) -> Iterable[str]:
        guessed = {name: value for name, value in self.found.items() if value is not None}
        if guessed:
            named = ", ".join(f"{name}={_joined(value)}" for name, value in guessed.items())
            yield f"Columns were guessed: {named}. Correct a guess with --columns, as in 'doc_id=sku'."
        if columns.event is not None and self.events is not None:
            yield self.events.sentence
        if "query_id" in self.found and columns.query_id is None:
            yield (
                "No column holds queries: each impression is a query of its own. Learn from features and "
                "from documents that come again (--columns query_id=NAME names a column)."
            )
        if "timestamp" in self.found and columns.timestamp is None:
            names = [name for name in self.sample.columns if words.normalised(name) in words.TIME]
            why = f": {names[0]} does not hold dates or numbers since 1970" if names else ""
            yield f"No column holds times{why}. Impressions are kept without them."


def _joined(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else "+".join(value)


def _clicked_lists(columns: Iterable[str]) -> tuple[str, ...]:
    """Names that speak of clicks, such as clicked_urls."""
    names = [words.normalised(column) for column in columns]
    return tuple(name for name in names if any(part.startswith("click") for part in name.split("_")))


def _share(values: list[Any], accept: Callable[[Any], bool], least: float = MOST) -> bool:
    right = 0
    for value in values:
        try:
            right += accept(value)
        except BadValueError:
            continue
    return right >= least * len(values)


def _are_positions(values: list[Any]) -> bool:
    return _share(values, lambda value: 0 <= whole(value, "") <= DEEPEST_POSITION)


def _are_flags(values: list[Any]) -> bool:
    return _share(values, lambda value: clicked(value) in (True, False))


def _are_times(values: list[Any]) -> bool:
    day_first = is_day_first(values)
    # Of a column of times, those that cannot be read are reported when it is imported.
    return _share(
        values, lambda value: abs(microseconds(value, day_first=day_first) or 0) >= FIRST_TIME, HALF
    )


def _are_kinds(values: list[Any]) -> bool:
    return all(isinstance(value, str | int) for value in values) and len(set(values)) <= KINDS


def _are_events(values: list[Any]) -> bool:
    if not _are_kinds(values):
        return False
    found = Events().completed(dict.fromkeys(map(str, values)))
    return bool(found.shown and found.clicks)
