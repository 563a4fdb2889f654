"""The names of the columns of a table that is imported."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

from rankloop.errors import DataError

# Marks a missing column in the text form of `Columns`.
NONE = "-"
# A column that is looked for, and need not be there.
AUTO = "auto"
OPTIONAL = (
    "impression_id", "timestamp", "query_id", "policy_id", "position", "clicked", "amount", "randomised",
    "event", "page", "row_id",
)  # fmt: skip


# Fields that are not looked for.
OTHERS = frozenset(("amount", "row_id", "score"))


class UsualName(str):
    """A name that nobody gave: the column is looked for under it, and otherwise guessed."""

    __slots__ = ()


@dataclass(frozen=True)
class Columns:
    """The names of the columns of a table; None if there is no such column.

    A name may be a path to a field of the objects in a column (``payload.query``; a path through a list,
    ``documents.id``, gives one value per element), ``a|b`` is the first of several that a row has, and
    ``doc_1..doc_10`` are columns that together are a list. Columns that are not given, and not there under
    their default names, are guessed.

    Attributes:
        impression_id: the impression; several columns if it takes them together to tell impressions apart,
            such as the session, the query and the time. None if each row is an impression, with a list of
            documents; or if rows of documents come one impression after the other.
        timestamp: the time: ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970.
        query_id: the query; None if each impression is a query of its own.
        policy_id: the policy; None for the default.
        position: the position of the document, from 0 or from 1; None if documents are in the order of the
            list, or of the rows of their impression.
        doc_id: the document, or a list of documents.
        clicked: whether it was clicked: true, false, or the number of clicks. For a list of documents: a list
            of these, or of the clicked documents or positions; the column of the documents itself if they
            end in ``-1`` or ``-0``.
        score: the policy's score, in a table of candidates.
        amount: what the display was worth, a number from 0 on, such as 5 for a purchase.
        randomised: whether the documents were shown in random order. Such rows get a policy of their own,
            named after their policy.
        event: the kind of event, in tables that have one row per event.
        page: the page of results, if positions begin again on every page.
        row_id: the id of a row, if clicks elsewhere name the row that was clicked: ``id|row_id`` if they call
            it otherwise.

    Example:
        >>> Columns.parse("impression_id=session, query_id=text, timestamp=-").query_id
        'text'
    """

    impression_id: str | tuple[str, ...] | None = UsualName("impression_id")
    timestamp: str | None = UsualName("timestamp")
    query_id: str | None = UsualName("query_id")
    policy_id: str | None = UsualName("policy_id")
    position: str | None = UsualName("position")
    doc_id: str = UsualName("doc_id")
    clicked: str | None = UsualName("clicked")
    score: str = "score"
    amount: str | None = None
    randomised: str | None = UsualName(AUTO)
    event: str | None = UsualName(AUTO)
    page: str | None = UsualName(AUTO)
    row_id: str | None = None

    @property
    def impression_columns(self) -> tuple[str, ...]:
        """The columns that make up the impression."""
        names = self.impression_id
        return () if names is None else (names,) if isinstance(names, str) else names

    @property
    def settled(self) -> frozenset[str]:
        """The fields that somebody has decided.

        >>> sorted(Columns(query_id="query_id", position=None).settled)
        ['position', 'query_id']
        """
        return frozenset(
            name
            for name, value in vars(self).items()
            if name not in OTHERS and not isinstance(value, UsualName)
        )

    def identified_by(self, columns: str) -> Self:
        """The same with an impression id of several columns, as in ``session_id,query,timestamp``.

        >>> Columns().identified_by("session_id, query").impression_columns
        ('session_id', 'query')
        """
        names = tuple(name.strip() for name in columns.split(","))
        if not all(names) or len(set(names)) < len(names):
            raise DataError(f"cannot parse {columns!r}: expected different columns with commas between them")
        return replace(self, impression_id=names)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``column=name, …``; the name ``-`` means that there is no such column."""
        known = [field.name for field in fields(cls)]
        named: dict[str, str | None] = {}
        for part in filter(None, (part.strip() for part in text.split(","))):
            column, equals, name = (word.strip() for word in part.partition("="))
            if not equals or not name or column not in known:
                raise DataError(f"cannot parse {part!r}: expected column=name with one of {', '.join(known)}")
            optional = column in OPTIONAL
            if name == NONE and not optional:
                raise DataError(f"the column {column} is required: it cannot be {NONE!r}")
            named[column] = None if name == NONE else name
        return replace(cls(), **named)  # type: ignore[arg-type]
