"""Guess which columns tell impressions apart.

A column is an id of impressions if no impression has two queries, or two documents at one position; if rows
are lists, if hardly any id comes again. Ids that tables of impressions usually have come first, then any
other id, then several columns together, such as session and time. Without any of them, an impression of rows
of documents begins where positions do; a row with a list is an impression of its own.

Where clicks are elsewhere, in events or in a table of their own, only what they have, too, is an id. It may
then be that of a session: every list is an impression of its own, and a click belongs to the last list before
it that shows the document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rankloop.logs.importers.parsing import BadValueError, microseconds, whole
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.lists import OR, as_list, hold_lists
from rankloop.logs.importers.tables.profile import HALF, MOST, Sample

# Share of impressions with two queries, or two documents at one position, that an id may have.
FEW = 0.05
# In microseconds.
DAY = 86_400_000_000
Names = tuple[str, ...]


class ImpressionGuess:
    """Guesses which columns tell impressions apart.

    Args:
        sample: the first rows that show documents.
        clicks: the first rows that are clicks, if they are elsewhere.
        known: the columns that are known, by field.

    Attributes:
        notes: sentences on what was guessed.
    """

    def __init__(self, sample: Sample, clicks: Sample | None, known: Mapping[str, str | None]) -> None:
        self.sample, self.clicks, self.known = sample, clicks, known
        self.notes: list[str] = []
        self.lists = hold_lists(*(sample.present(known[name]) for name in ("doc_id", "position", "clicked")))

    def run(self) -> Names | None:
        """The columns; none of them if rows tell impressions apart by themselves; None if nothing does."""
        return self._of_lists() if self.lists else self._of_rows()

    def _of_rows(self) -> Names | None:
        single = self._all(words.IMPRESSION)
        query = self._field("query_id")
        for names in [*single, *self._other_ids(), *self._composed()]:
            if names and self._tells_apart(names):
                return names
        if query and self._tells_apart(query) and self._comes_once(query):
            self.notes.append(f"Every {query[0]} was shown once: it tells impressions apart.")
            return query
        if self.clicks is not None and (found := self._found_by_clicks()) is not None:
            return found
        if single:
            return single[0]
        if self.clicks is None and self.restarts():
            self.notes.append(
                "No column tells impressions apart: an impression begins where positions begin again, or "
                "where the query changes."
            )
            return ()
        return None

    def _of_lists(self) -> Names | None:
        query = self._field("query_id")
        single = self._all(words.IMPRESSION)
        for names in [*single, query, *self._other_ids()]:
            if names and self._tells_apart(names):
                return names
        if self.clicks is None:
            for names in [*single, *self._composed(timed=False)]:
                if self._repeats_lists(names):
                    return names
            return ()
        sessions = [*single, *self._composed()]
        return next((names for names in sessions if names), None)

    def _found_by_clicks(self) -> Names | None:
        """Columns of which clicks have only some: a click belongs to the last impression before it."""
        time = self._field("timestamp")
        keys = [names for names in self._composed() if time and names]
        return next((names for key in keys if self._tells_apart(names := (*key, *time))), None)

    def _composed(self, *, timed: bool = True) -> list[Names]:
        """Several columns that together may tell impressions apart."""
        session, user, number = map(self._first, (words.SESSION, words.USER, words.NUMBER))
        number = [name for name in number if name != self.known["page"]]
        # A click comes later than what was shown, so that the time does not tell to what it belongs.
        time = list(self._field("timestamp")) if timed and self.clicks is None else []
        if self.known["position"] is None and not self.lists and time and self._are_days(time[0]):
            time = []
        query = [name for name in self._field("query_id") if self._in_clicks(name)]
        numbered = [[*session, *number], [*session, *number, *query]] if number else []
        parts = [*numbered, [*session, *query, *time], [*session, *time], [*user, *query, *time]]
        parts += [[*user, *time], [*query, *time]]
        # A query, or a user, comes again: alone, neither is an impression. It may be the session of clicks.
        alone = set() if self.clicks is not None else {*user, *query}
        return [tuple(names) for names in parts if set(names) - alone]

    def _are_days(self, column: str) -> bool:
        """Whether times are days, on which much was shown."""
        found = []
        for value in self.sample.present(column):
            try:
                found.append(microseconds(value, column, day_first=True))
            except BadValueError:
                continue
        return all(moment is None or moment % DAY == 0 for moment in found)

    def _first(self, names: Sequence[str]) -> list[str]:
        """The best column of these names, if there is one."""
        return [column for found in self._all(names)[:1] for column in found]

    def _field(self, name: str) -> Names:
        column = self.known[name]
        return () if column is None else (column,)

    def _in_clicks(self, column: str) -> bool:
        if self.clicks is None:
            return True
        return len(self.clicks.present(column)) >= HALF * len(self.clicks)

    def _with_name_in_clicks(self, column: str) -> str | None:
        """A column that clicks have, too, perhaps within another object; None if they do not."""
        if self.clicks is None or self._in_clicks(column):
            return column
        same = (one for one in self.clicks.columns if words.normalised(one) == words.normalised(column))
        return next((f"{column}{OR}{one}" for one in same if self._in_clicks(one)), None)

    def _all(self, names: Sequence[str]) -> list[Names]:
        """Columns of these names, in order of preference, that clicks have, too."""
        order = {name: number for number, name in reversed(list(enumerate(names)))}
        known = []
        for column in self.sample.columns:
            ranks = [order[name] for name in words.spellings(column) if name in order]
            usable = ranks and column != self.known["doc_id"] and not self._is_list(column)
            name = self._with_name_in_clicks(column) if usable else None
            if name is not None:
                known.append((min(ranks), column.count("."), name))
        return [(column,) for *_, column in sorted(known)]

    def _other_ids(self) -> list[Names]:
        """Columns whose names end like those of ids, and that are not known to be something else."""
        other = {*words.SESSION, *words.USER, *words.DOCUMENT, *words.IMPRESSION, *words.POLICY}
        return [
            (column,)
            for column in self.sample.columns
            if column not in self.known.values()
            and words.LIKE_ID.search(words.normalised(column))
            and not other.intersection(words.spellings(column))
            and not self._is_list(column)
            and self._in_clicks(column)
            and self._comes_in_clicks(column)
        ]

    def _is_list(self, column: str) -> bool:
        """Whether a column holds arrays, which are no ids."""
        return any(isinstance(value, list | dict) for value in self.sample.present(column))

    def _comes_in_clicks(self, column: str) -> bool:
        """Whether some click has an id that was shown: an id of events has not."""
        clicks = {str(value) for value in ([] if self.clicks is None else self.clicks.present(column))}
        return not clicks or not clicks.isdisjoint(map(str, self.sample.present(column)))

    def _keys(self, names: Iterable[str]) -> list[tuple[str, ...]]:
        return list(zip(*(map(str, self.sample.values(name)) for name in names), strict=True))

    def _tells_apart(self, names: Names) -> bool:
        """Whether these columns are an id of impressions: one query, and one document per position."""
        keys = self._keys(names)
        if not keys or any(len(self.sample.present(name)) < MOST * len(keys) for name in names):
            return False
        impressions = len(set(keys))
        if self.lists:
            return impressions >= (1 - FEW) * len(keys) and all(map(self._in_clicks, names))
        position, page, query = (self.known[name] for name in ("position", "page", "query_id"))
        if position is None:
            return self._has_distinct_documents(keys)
        places = self._places(keys, position, page)
        again = len(places) - len(set(places))
        if (documents := self.known["doc_id"]) is not None:
            # Rows that were written twice show the same document.
            again = len(set(zip(places, map(str, self.sample.values(documents)), strict=True)))
            again -= len(set(places))
        mixed = 0
        if query is not None:
            pairs = set(zip(keys, map(str, self.sample.values(query)), strict=True))
            mixed = len(pairs) - impressions
        return again + mixed <= FEW * impressions and not self.has_single_rows(names)

    def _has_distinct_documents(self, keys: list[tuple[str, ...]]) -> bool:
        """Whether ids have several rows, hardly any of them with a document that the id has already."""
        documents = self.known["doc_id"]
        if documents is None:
            return True
        if len(set(keys)) > MOST * len(keys):
            return False
        pairs = set(zip(keys, map(str, self.sample.values(documents)), strict=True))
        return len(pairs) >= (1 - FEW) * len(keys)

    def has_single_rows(self, names: Names) -> bool:
        """Whether there is one row per id, at several positions: a page shows several documents."""
        keys, position = self._keys(names), self.known["position"]
        if position is None or self.lists:
            return False
        return len(set(keys)) > MOST * len(keys) and len(set(map(str, self.sample.values(position)))) > 1

    def _places(
        self, keys: list[tuple[str, ...]], position: str, page: str | None
    ) -> list[tuple[object, ...]]:
        pages = [""] * len(keys) if page is None else list(map(str, self.sample.values(page)))
        return list(zip(keys, pages, map(str, self.sample.values(position)), strict=True))

    def _comes_once(self, names: Names) -> bool:
        """Whether no place of an impression has two rows: what came twice is not one impression."""
        position, page = self.known["position"], self.known["page"]
        if position is None:
            return False
        places = self._places(self._keys(names), position, page)
        return len(set(places)) == len(places)

    def _repeats_lists(self, names: Names) -> bool:
        """Whether rows with the same id have the same list: one row per click of an impression."""
        documents = self.known["doc_id"]
        if documents is None or not names:
            return False
        first: dict[tuple[str, ...], list[str]] = {}
        again, same = 0, 0
        for key, value in zip(self._keys(names), self.sample.values(documents), strict=True):
            shown = [str(one) for one in as_list(value, documents)]
            again += key in first
            same += first.setdefault(key, shown) == shown
        return again > 0 and same - len(first) >= HALF * again

    def restarts(self) -> bool:
        """Whether rows come impression by impression, each from the first position on without a gap."""
        position, query = self.known["position"], self.known["query_id"]
        if position is None:
            return False
        try:
            places = [whole(value, "") for value in self.sample.values(position)]
        except BadValueError:
            return False
        queries = [None] * len(places) if query is None else self.sample.values(query)
        documents = list(map(str, self.sample.values(self.known["doc_id"] or position)))
        lowest, runs, broken, before = min(places), 0, 0, None
        shown: set[str] = set()
        for place, text, document in zip(places, queries, documents, strict=True):
            follows = before == (place - 1, text)
            if not follows:
                runs += 1
                broken += place != lowest
                shown = set()
            broken += document in shown
            shown.add(document)
            before = (place, text)
        return broken <= FEW * runs and runs <= HALF * len(places)
