"""Pick columns of a table by their names and the kinds of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rankloop.logs.importers.column_names import AUTO, Columns
from rankloop.logs.importers.parsing import shortened
from rankloop.logs.importers.tables import words
from rankloop.logs.importers.tables.lists import STEP, ColumnPath
from rankloop.logs.importers.tables.profile import Sample
from rankloop.logs.importers.tables.value_guess import speaks_of_clicks

DEFAULTS = Columns()
Accept = Callable[[list[Any]], bool]
# Patterns of names: what they have, and what they do not have.
Like = tuple[re.Pattern[str], re.Pattern[str]]
OPTIONAL = ("timestamp", "query_id", "policy_id", "randomised", "event", "page")
KIND_OF = {"position": "whole numbers", "clicked": "true and false, or 0 and 1", "doc_id": "documents"}


class ColumnPicker:
    """Picks columns that are not given.

    Args:
        sample: the first rows of the table.
        given: the columns as they were given.

    Attributes:
        found: what was picked, by field; None where nothing was found.
        rejected: by field, why a column with a fitting name was not taken.
    """

    def __init__(self, sample: Sample, given: Columns) -> None:
        self.sample, self.given = sample, given
        self.found: dict[str, Any] = {}
        self.rejected: dict[str, str] = {}

    def is_open(self, field: str) -> bool:
        """Whether a column was neither given nor is there under its default name."""
        name, usual = getattr(self.given, field), getattr(DEFAULTS, field)
        if name == AUTO:
            return True
        return name == usual and usual is not None and not ColumnPath(usual).is_in(self.sample.columns)

    def set(self, field: str, names: Sequence[str], accept: Accept, like: Like | None = None) -> None:
        """Pick the column of a field, if it was not given."""
        if self.is_open(field):
            column = self.pick(self.sample, names, accept, like=like, field=field)
            if column is not None or field in OPTIONAL:
                self.found[field] = column

    def pick(
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
        taken = {*self.named().values(), *without}
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

    def by_value(self, accept: Accept) -> str | None:
        """The first column without a name whose values are of the expected kind."""
        taken = set(self.named().values())
        return next(
            (
                name
                for name in self.sample.columns
                if name not in taken and self.sample.present(name) and accept(self.sample.present(name))
            ),
            None,
        )

    def named(self) -> dict[str, Any]:
        """The columns that are known so far."""
        fields = {name: getattr(self.given, name) for name in vars(DEFAULTS)}
        fields = {name: value for name, value in fields.items() if not self.is_open(name)}
        return {name: value for name, value in {**fields, **self.found}.items() if isinstance(value, str)}

    def at(self, field: str) -> str | None:
        """The column of a field, as far as it is known."""
        return self.named().get(field)


def _is_like(spelled: Sequence[str], like: Like) -> bool:
    wanted, unwanted = like
    return any(wanted.search(name) for name in spelled) and not any(unwanted.search(n) for n in spelled)


def _rejection(field: str, column: str, example: Any) -> str:
    if field == "query_id":
        return f"{column} is empty in many rows"
    expected = KIND_OF.get(field)
    return "" if expected is None else f"{column} does not hold {expected}, such as {shortened(example)}"
