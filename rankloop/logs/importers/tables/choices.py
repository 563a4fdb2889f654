"""Which column is which field: every column that could be, ranked by what its values say.

Names only propose. A column is kept if its values fit the field, and if no other column fits it, too:

    impression    no document, and no position, comes twice in it; positions begin at its beginning
    position      whole numbers from 0 or 1, never the same in an impression; not a property of documents
    document      never the same in an impression, and comes again in others
    query         the same in an impression, comes again, and then shows some of the same documents
    time          the same in an impression, or nearly; not a property of documents
    click         some rows of an impression, not always the same documents or positions

Two columns that both fit, and differ, are a question. So is a column of clicks whose name does not say so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.guesses import Guess
from rankloop.logs.importers.tables.lists import ColumnPath, column_parts, hold_lists
from rankloop.logs.importers.tables.profile import AGREE, Codes, Flags, Relations, first_rows
from rankloop.logs.importers.tables.value_guess import flags_beside

FIELDS = ("impression_id", "query_id", "timestamp", "policy_id", "position", "doc_id", "clicked")
# Positions of an impression may have gaps: this many times as many as it has rows.
GAPS = 3.0
# Share of the impressions whose positions begin at 0 or 1, at least.
BEGIN = 0.5
# The rows of an impression may have times of their own, within ten minutes.
SPREAD = 600e6
# How many times as many documents impressions of one query share as any two, at least.
SHARED = 2.0
# Share of the impressions whose query comes again: below the first, none does; a query is above the second.
NEVER, OFTEN = 0.02, 0.1
FEW = 0.01
# Different first positions of impressions.
MANY = 20
MANY_COLUMNS = 60
HALF, NEARLY = 0.5, 0.9
CLICKS = {*words.CLICKED, *words.CLICK_TIME, *words.CLICK_ID}
# What columns of clicks are called in tables that do not speak of clicks.
LABELS = {
    "label", "labels", "target", "y", "reward", "outcome", "response", "feedback", "relevant", "is_relevant",
    "engaged", "engagement", "tap", "tapped", "is_tapped", "selected", "is_selected", "opened", "open", "clk",
    "chosen", "interacted", "interaction", "hit", "action", "converted", "positive",
}  # fmt: skip
# Names that other things than ranking policies have, too: a model may be that of a phone.
VAGUE_POLICIES = {"model", "model_id", "model_version", "bucket", "variant", "arm", "test_group"}


@dataclass(frozen=True)
class Rival:
    """A column that was considered for a field, and why it was not taken."""

    column: str
    why: str


@dataclass(frozen=True)
class FieldChoice:
    """What a field is read from.

    Attributes:
        field: the field.
        column: its column, or columns; None if there is none.
        why: what speaks for it.
        rivals: the columns that lost, the best first.
        options: the columns to choose from, the best first, if values do not tell; otherwise empty.
    """

    field: str
    column: str | tuple[str, ...] | None
    why: str = ""
    rivals: tuple[Rival, ...] = ()
    options: tuple[str, ...] = ()


def choose_columns(
    guess: Guess, settled: Collection[str], *, elsewhere: bool
) -> tuple[Columns, list[FieldChoice]]:
    """Check what names propose against the values, and against every other column.

    Args:
        guess: what names propose.
        settled: the fields that somebody has decided.
        elsewhere: whether clicks are in other rows, or in another table.

    Returns:
        The columns, and one choice for each field.
    """
    chooser = _Chooser(guess, settled)
    if len(guess.sample):
        chooser.run(elsewhere=elsewhere)
    return chooser.names, [chooser.choices.get(field, chooser.as_it_is(field)) for field in FIELDS]


class _Chooser:
    def __init__(self, guess: Guess, settled: Collection[str]) -> None:
        self.names, self.sample, self.settled = guess.columns, guess.sample, set(settled)
        self.table = Relations(guess.sample)
        self.choices: dict[str, FieldChoice] = {}
        documents = self.at("doc_id")
        others = (self.sample.present(self.at(field)) for field in ("position", "clicked"))
        self.lists = documents is not None and hold_lists(self.sample.present(documents), *others)
        self.columns = [name for name in self.sample.columns if _is_flat(self.sample.present(name))]
        self.impressions: Codes = np.arange(len(self.sample))

    def run(self, *, elsewhere: bool) -> None:
        if not self.lists:
            self._find_impressions()
            self._group()
            self._impression()
            self._position()
            self._document()
            self._group()
        if self.lists or self._has_groups():
            self._time()
            self._query()
            self._policy()
        if not elsewhere and not self.lists:
            self._click()
        elif not elsewhere:
            self._click_of_lists()

    def at(self, field: str) -> str | None:
        """The column of a field, if the table has it."""
        name = getattr(self.names, field)
        return name if isinstance(name, str) and ColumnPath(name).is_in(self.sample.columns) else None

    def as_it_is(self, field: str) -> FieldChoice:
        name = getattr(self.names, field)
        there = not isinstance(name, str) or ColumnPath(name).is_in(self.sample.columns)
        return FieldChoice(field, name if there else None, "given" if field in self.settled else "")

    # What all fields share.

    def _settle(
        self, field: str, column: Any, why: str, rivals: Iterable[Rival] = (), options: Sequence[str] = ()
    ) -> None:
        column = options[0] if options and column not in options else column
        self.names = replace(self.names, **{field: column})
        self.choices[field] = FieldChoice(field, column, why, tuple(rivals), tuple(options))

    def _decide(
        self,
        field: str,
        fits: Callable[[str], bool],
        why_not: Callable[[str, str], str],
        is_named: Callable[[str], bool],
        why: str,
        misfit: str,
        is_sure: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """Keep the column of a field, take another, or ask.

        Args:
            field: the field.
            fits: whether the values of a column fit the field.
            why_not: why a column that fits loses against another; empty if it does not.
            is_named: whether a name speaks for the field, where no column was proposed.
            why: what speaks for a column that fits.
            misfit: what is wrong with a column that does not.
            is_sure: whether the only column that fits needs no name that speaks for it.
        """
        column = self.at(field)
        if field in self.settled or (column is not None and column not in self.sample.columns):
            return
        fitting = [name for name in self.columns if self._is_free(name, field) and fits(name)]
        if column is not None and (column in fitting or fits(column)):
            lost, equal = [], []
            for name in fitting:
                if name != column:
                    reason = why_not(column, name)
                    (lost.append(Rival(name, reason)) if reason else equal.append(name))
            self._settle(field, column, why, lost, [column, *equal] if equal else ())
            return
        if not fitting:
            return
        named = [name for name in fitting if is_named(name)]
        rivals = [] if column is None else [Rival(column, misfit)]
        best = named or fitting
        last = [name for name in best if all(name == one or not why_not(name, one) for one in best)]
        winner = next((name for name in best if all(name == o or why_not(name, o) for o in best)), None)
        if winner is not None and (named or (column is None and len(best) == 1 and is_sure(winner))):
            lost = [Rival(name, why_not(winner, name)) for name in fitting if name != winner]
            self._settle(field, winner, why, [*rivals, *(one for one in lost if one.why)])
        else:
            self._settle(field, column, why, rivals, last or best)

    def _is_free(self, name: str, field: str) -> bool:
        """Whether a column is not known to be another field."""
        others = {name for name in vars(self.names) if name not in (field, "score")}
        named = [value for other in others if isinstance(value := getattr(self.names, other), str)]
        named += self.names.impression_columns if field != "impression_id" else ()
        taken = {part for one in named for part in (one, *column_parts(one))}
        return name not in taken or name == self.at(field)

    def _group(self) -> None:
        """The impressions of the rows."""
        names = [
            name for name in self.names.impression_columns if ColumnPath(name).is_in(self.sample.columns)
        ]
        position = self.at("position")
        if names and len(names) == len(self.names.impression_columns):
            self.impressions = self.table.groups(names)
        elif position is not None and (places := self.table.whole_numbers(position)) is not None:
            begins = np.diff(places, prepend=places.max() + 1) <= 0
            self.impressions = np.cumsum(begins) - 1
        if (page := self.at("page")) is not None:
            self.pages = self.table.combined(self.impressions, self.table.codes(page))
        else:
            self.pages = self.impressions

    def _has_groups(self) -> bool:
        return bool((np.bincount(self.impressions) > 1).any())

    # Fields of rows of documents.

    def _repeated(self, groups: Codes, column: str | None) -> float:
        """Share of the rows whose value their impression has already."""
        if column is None:
            return 0.0
        codes = self.table.codes(column)
        return 1.0 - len(np.unique(self.table.combined(groups, codes))) / len(codes)

    def _begins(self, groups: Codes, places: Codes) -> float:
        """Share of the impressions whose positions begin at 0 or 1."""
        lowest = np.full(groups.max() + 1, places.max())
        np.minimum.at(lowest, groups, places)
        return float((lowest <= 1).mean())

    def _find_impressions(self) -> None:
        """Find an id and positions that begin again with it, where names say nothing."""
        columns, position = self.names.impression_columns, self.at("position")
        known = not columns or all(ColumnPath(name).is_in(self.sample.columns) for name in columns)
        if (known or "impression_id" in self.settled) and (position or self.names.position is None):
            return
        if self.at("event") is not None or len(self.columns) > MANY_COLUMNS:
            return
        settled = [getattr(self.names, field) for field in self.settled]
        free = [name for name in self.columns if name not in settled]
        places = {name: self.table.whole_numbers(name) for name in ([position] if position else free)}
        pairs = self._pairs(columns, places) if known and len(columns) == 1 else []
        if not pairs and "impression_id" not in self.settled:
            known, pairs = False, self._pairs(free, places)
            if not pairs and position is not None and "position" not in self.settled:
                # What is called a position begins again with nothing: another column may.
                position = None
                pairs = self._pairs(free, {name: self.table.whole_numbers(name) for name in free})
        if not pairs:
            return
        _, name, place = min(pairs, key=lambda pair: pair[0])
        if name == self.names.doc_id and "doc_id" not in self.settled:
            self.names = replace(self.names, doc_id=Columns().doc_id)
        others = [
            other
            for is_time, other, _ in pairs
            if other != name and not is_time and not self.table.are_same(name, other)
        ]
        if not known:
            options = [name, *dict.fromkeys(others)] if others else []
            self._settle("impression_id", name, "positions begin again with it", (), options)
        if position is None:
            self._settle("position", place, "begins again in each impression")

    def _pairs(self, ids: Iterable[str], places: Mapping[str, Codes | None]) -> list[tuple[bool, str, str]]:
        """Ids with positions that begin again with each of them; whether the ids are times comes first."""
        pairs = []
        for name in ids:
            groups = self.table.groups([name])
            if len(groups) < 2 * (groups.max() + 1) or groups.max() == 0:
                continue
            for place, numbers in places.items():
                if place == name or numbers is None or numbers.max() > len(groups):
                    continue
                if self._repeated(groups, place) <= FEW and self._begins(groups, numbers) >= NEARLY:
                    pairs.append((self.table.moments(name) is not None, name, place))
        return pairs

    def _impression(self) -> None:
        columns, position = self.names.impression_columns, self.at("position")
        if (
            "impression_id" in self.settled | self.choices.keys()
            or not columns
            or position is None
            or not self._has_groups()
        ):
            return
        places = self.table.whole_numbers(position)
        if places is None or self.at("page") is not None:
            return
        why = "no position comes twice in one"
        repeated = self._repeated(self.impressions, position)
        time = self.at("timestamp")
        if repeated > FEW and time is not None and time not in columns:
            finer = self.table.combined(self.impressions, self.table.codes(time))
            if self._repeated(finer, position) < repeated / 2 and self._begins(finer, places) >= NEARLY:
                rival = Rival("+".join(columns), f"its positions come again at another {time}")
                self._settle("impression_id", (*columns, time), why, [rival])
                self._group()
                return
        options = []
        for name in self.columns:
            is_id = words.LIKE_ID.search(words.normalised(name)) or _is_named(name, words.IMPRESSION)
            if name in columns or not is_id or not self._is_free(name, "impression_id"):
                continue
            groups = self.table.groups([name])
            both = len(np.unique(self.table.combined(groups, self.impressions)))
            same = both == groups.max() + 1 == self.impressions.max() + 1
            well = self._repeated(groups, position) <= FEW and self._begins(groups, places) >= NEARLY
            query = self.at("query_id")
            well &= query is None or self.table.is_constant(groups, query) >= AGREE
            if well and not same and len(groups) >= 1.5 * (groups.max() + 1):
                options.append(name)
        joined = columns[0] if len(columns) == 1 else None
        if options and joined is not None:
            self._settle("impression_id", joined, why, (), [joined, *options])
        else:
            self._settle("impression_id", self.names.impression_id, why)

    def _position(self) -> None:
        if not self._has_groups():
            return
        documents = self.at("doc_id")

        def fits(name: str) -> bool:
            places = self.table.whole_numbers(name)
            if places is None or self.table.differs(self.pages, name) < AGREE:
                return False
            sizes = np.bincount(self.pages)
            high, low = np.zeros(len(sizes), np.int64), np.full(len(sizes), places.max())
            np.maximum.at(high, self.pages, places)
            np.minimum.at(low, self.pages, places)
            spans = (high - low + 1) / sizes
            # Of the second page only, for instance; a number of rows begins anywhere.
            later = len(np.unique(low)) <= MANY and float((spans == 1).mean()) >= NEARLY
            near = self._begins(self.pages, places) >= BEGIN or later
            return near and float(np.median(spans)) <= GAPS

        def why_not(column: str, other: str) -> str:
            places, others = self.table.whole_numbers(column), self.table.whole_numbers(other)
            if places is not None and others is not None and len(np.unique(places - others)) == 1:
                return f"counts as {column} does"
            if documents is None or self.table.determines(documents, column):
                return ""
            return (
                "belongs to the document, wherever it stands"
                if self.table.determines(documents, other)
                else ""
            )

        self._decide(
            "position", fits, why_not, lambda name: _is_like(name, words.POSITION, words.LIKE_POSITION),
            "never the same in an impression, and begins with it", "is not a position in each impression",
        )  # fmt: skip

    def _document(self) -> None:
        if not self._has_groups():
            return

        def is_id(name: str) -> bool:
            return bool(words.LIKE_ID.search(words.normalised(name))) or _is_named(name, words.DOCUMENT)

        def fits(name: str) -> bool:
            codes = self.table.codes(name)
            return (
                self.table.differs(self.impressions, name) >= AGREE
                and len(np.unique(codes)) < NEARLY * len(codes)
                and self.table.moments(name) is None
                and not any(isinstance(value, float) for value in self.sample.present(name)[:20])
            )

        def why_not(column: str, other: str) -> str:
            if self.table.are_same(column, other):
                return f"is another name of {column}"
            if not is_id(other):
                return "is not called an id"
            return (
                ""
                if _is_named(other, words.DOCUMENT) or not self.table.determines(column, other)
                else ("several documents share it")
            )

        self._decide(
            "doc_id", fits, why_not, is_id, "never twice in an impression, and comes again in others",
            "does not come again, or comes twice in an impression",
            lambda name: self.table.whole_numbers(name) is None,
        )  # fmt: skip

    def _time(self) -> None:
        documents = None if self.lists else self.at("doc_id")
        firsts = first_rows(self.impressions)

        def fits(name: str) -> bool:
            moments = self.table.moments(name)
            if moments is None or np.isnan(moments).mean() > 1 - NEARLY:
                return False
            if all(str(value).isdecimal() for value in self.sample.present(name)[:20]):
                named = _is_like(name, words.TIME, words.LIKE_TIME)
                if not named and np.mean(np.diff(moments[firsts]) >= 0) < NEARLY:
                    return False
            if documents is not None and self.table.determines(documents, name):
                return False
            known = ~np.isnan(moments)
            high, low = np.full(len(firsts), -np.inf), np.full(len(firsts), np.inf)
            np.maximum.at(high, self.impressions[known], moments[known])
            np.minimum.at(low, self.impressions[known], moments[known])
            return bool(np.mean((high - low <= SPREAD)[high >= low]) >= NEARLY)

        def why_not(column: str, other: str) -> str:
            first, second = self.table.moments(column), self.table.moments(other)
            assert first is not None
            assert second is not None
            order = np.argsort(first[firsts], kind="stable")
            steps = np.diff(second[firsts][order])
            if np.mean(steps >= 0) >= 1 - FEW:
                return f"is in the order of {column}"
            different = len(np.unique(first[firsts])), len(np.unique(second[firsts]))
            return "comes again in several impressions" if different[1] <= HALF * different[0] else ""

        column = self.at("timestamp")
        self._decide(
            "timestamp", fits, why_not, lambda _: True, "the same in each impression",
            "belongs to the document, or differs in an impression",
        )  # fmt: skip
        determined = documents is not None and column is not None and self.table.determines(documents, column)
        if "timestamp" not in self.settled | self.choices.keys() and determined:
            self._settle("timestamp", None, "", [Rival(str(column), "belongs to the document")])

    def _query(self) -> None:
        if "query_id" in self.settled or (self.at("query_id") is None and self.names.query_id is not None):
            return
        column, documents, firsts = self.at("query_id"), self.at("doc_id"), first_rows(self.impressions)
        if documents is None:
            return
        if self.lists:
            shown = [set(map(str, elements)) for elements in self.sample.lists(documents)]
        else:
            shown = [set() for _ in firsts]
            for group, value in zip(self.impressions.tolist(), self.sample.values(documents), strict=True):
                shown[group].add(str(value))
        again: dict[str, float] = {}
        shared: dict[str, float] = {}
        for name in self.columns:
            if not self.lists and self.table.is_constant(self.impressions, name) < AGREE:
                continue
            texts = map(str, np.array(self.sample.values(name), object)[firsts])
            if np.mean([text in documents for text, documents in zip(texts, shown, strict=True)]) > HALF:
                # A document that was shown.
                continue
            again[name] = self.table.comes_again(self.impressions, name)
            shared[name] = self.table.overlap(firsts, name, shown)
        named = [name for name in again if _is_like(name, words.QUERY, words.LIKE_QUERY)]
        strong = [
            name
            for name in again
            if again[name] >= OFTEN and shared[name] >= SHARED and self._is_free(name, "query_id")
            and self.table.moments(name) is None and not _is_named(name, {*words.SESSION, *words.USER})
        ]  # fmt: skip
        why = "comes again, with some of the same documents"
        if column is not None and again.get(column, 1.0) > NEVER and (
            column in strong or not strong or shared.get(column, SHARED) >= SHARED
        ):  # fmt: skip
            options, lost = [column], []
            for name in dict.fromkeys([*named, *strong]):
                if name == column or not self._is_free(name, "query_id") or again[name] <= NEVER:
                    continue
                reason = self._why_no_query(column, name, named, shared)
                if reason:
                    lost.append(Rival(name, reason))
                else:
                    options.append(name)
            self._settle("query_id", column, why, lost, options if len(options) > 1 else ())
            return
        candidates = [name for name in strong if name in named] or strong
        finest = [
            name
            for name in candidates
            if not any(
                other != name and self.table.determines(other, name) and not self.table.are_same(other, name)
                for other in candidates
            )
        ]
        finest = [name for at, name in enumerate(finest) if not any(map(self._same_as(name), finest[:at]))]
        lost = []
        if column is not None:
            never = again.get(column, 0.0) <= NEVER
            lost = [Rival(column, "never comes again" if never else "shows other documents each time")]
        if len(finest) == 1 and finest[0] in named:
            lost += [Rival(name, "several queries share it") for name in candidates if name not in finest]
            self._settle("query_id", finest[0], why, lost)
        elif finest:
            self._settle(
                "query_id", column, why, lost, [*finest, *(name for name in named if name == column)]
            )

    def _same_as(self, name: str) -> Callable[[str], bool]:
        return lambda other: self.table.are_same(name, other)

    def _why_no_query(self, column: str, name: str, named: Collection[str], shared: dict[str, float]) -> str:
        """Why a column is not the query if another is; empty if it could be."""
        if self.table.are_same(column, name):
            return f"is another name of {column}"
        if self.table.determines(column, name):
            return "several queries share it"
        if name in named or self.table.determines(name, column):
            return ""
        return "is not called a query" if column in named and shared[name] <= 1.5 * shared[column] else ""

    def _policy(self) -> None:
        column = self.at("policy_id")
        if column is None or "policy_id" in self.settled:
            return
        # A column that is called policy_id is one: impressions with two policies are counted as defects.
        is_own = column == Columns().policy_id
        if not (is_own or self.lists) and self.table.is_constant(self.impressions, column) < NEARLY:
            self._settle("policy_id", None, "", [Rival(column, "differs within an impression")])
            return
        others = [
            name
            for name in self.columns
            if name != column and _is_named(name, words.POLICY) and self._is_free(name, "policy_id")
            and not self.table.are_same(name, column)
            and (self.lists or self.table.is_constant(self.impressions, name) >= NEARLY)
        ]  # fmt: skip
        vague = set(words.spellings(column)) & VAGUE_POLICIES and len(set(self.sample.present(column))) > 1
        if others or vague:
            self._settle("policy_id", column, "the same in each impression", (), [column, *others, "-"])
        else:
            self._settle("policy_id", column, "the same in each impression")

    def _click(self) -> None:
        if "clicked" in self.settled:
            return
        column, documents, position = self.at("clicked"), self.at("doc_id"), self.at("position")
        if column is None and self.names.clicked is None:
            return
        marks: dict[str, Flags] = {}
        for name in self.columns:
            if self._is_free(name, "clicked") and (flags := self.table.marks(name)) is not None:
                marks[name] = flags
        if column is not None and column not in marks:
            return
        follows = {name: self._follows_from(name, marks[name], documents, position) for name in marks}
        able = [
            name for name in marks if not follows[name] and marks[name].any() and marks[name].mean() < NEARLY
        ]
        own = column is not None and bool(
            set(words.spellings(column)) & {*words.CLICKED, *words.CLICK_TIME, *words.CLICK_ID}
        )
        binary = column is not None and self.table.is_binary(column)
        if column is not None and not follows[column]:
            equal, lost = [], []
            for name in able:
                if name == column:
                    continue
                reason = self._why_no_click(column, name, marks, binary=binary, own=own)
                if reason:
                    lost.append(Rival(name, reason))
                else:
                    equal.append(name)
            why = f"marks {marks[column].mean():.0%} of the rows"
            unsure = not own and not _is_label_or_click(column)
            self._settle("clicked", column, why, lost, [column, *equal] if equal or unsure else ())
            return
        if not able:
            return
        rivals = [] if column is None else [Rival(column, follows[column])]
        sure = [name for name in able if _is_click(name) and self.table.is_binary(name)]
        labels = [name for name in able if _is_label_or_click(name)]
        if len(sure) == 1 and labels == sure:
            self._settle("clicked", sure[0], f"marks {marks[sure[0]].mean():.0%} of the rows", rivals)
        else:
            best = sorted(able, key=lambda name: (name not in sure, name not in labels, marks[name].mean()))
            self._settle("clicked", column, "", rivals, best)

    def _click_of_lists(self) -> None:
        """Ask which lists of 0 and 1 are clicks, if no name says so."""
        documents = self.at("doc_id")
        if documents is None or "clicked" in self.settled or self.at("clicked") is not None:
            return
        marks = flags_beside(self.sample, self.sample.lists(documents), {documents})
        if marks and self.names.clicked is not None:
            self._settle("clicked", marks[0], "", (), marks)

    def _follows_from(self, name: str, marks: Flags, documents: str | None, position: str | None) -> str:
        """Why a column of marks cannot be clicks: they follow from something that was there before."""
        codes = marks.astype(np.int64)
        if self._has_groups():
            sizes, values = self.table.distinct(self.impressions, codes)
            if ((values == 1)[sizes > 1]).all() and marks.any() and not marks.all():
                return "is the same for all documents of an impression"
        for column, what in ((documents, "document"), (position, "position")):
            if column is None or not self.table.determines(column, name):
                continue
            groups = self.table.codes(column) + 1
            sizes = np.bincount(groups)[groups]
            if (marks & (sizes > 1)).sum() >= 10:
                return f"belongs to the {what}, whoever sees it"
        return ""

    def _why_no_click(
        self, column: str, name: str, marks: dict[str, Flags], *, binary: bool, own: bool
    ) -> str:
        if (marks[column] == marks[name]).all():
            return f"marks the same rows as {column}"
        inside = not (marks[name] & ~marks[column]).any()
        if own and binary and inside:
            return "marks only some of the clicked rows: what followed"
        if own and binary and not self.table.is_binary(name):
            return f"counts, and {column} says yes or no"
        if own and binary and not _is_label_or_click(name):
            return "is not called a click"
        return ""


def _is_flat(values: Sequence[Any]) -> bool:
    return bool(values) and not any(isinstance(value, list | dict) for value in values[:50])


def _is_named(name: str, known: Collection[str]) -> bool:
    return not set(known).isdisjoint(words.spellings(name))


def _is_like(name: str, known: Collection[str], pattern: Any) -> bool:
    return _is_named(name, known) or any(pattern.search(one) for one in words.spellings(name))


def _is_click(name: str) -> bool:
    return _is_named(name, words.CLICKED) or any(
        words.LIKE_CLICK.search(one) for one in words.spellings(name)
    )


def _is_label_or_click(name: str) -> bool:
    return _is_click(name) or _is_named(name, LABELS)
