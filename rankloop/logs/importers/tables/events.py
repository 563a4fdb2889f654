"""Tables with one row per event: which kinds of events show documents, and which are clicks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from rankloop.logs.importers.tables.words import CLICK_EVENT, SHOWN_EVENTS

# Kinds of events that are listed in a message.
MANY = 6


@dataclass(frozen=True)
class Events:
    """The kinds of events that count; empty ones are recognised by their names.

    Attributes:
        shown: the kinds of events that show documents.
        clicks: the kinds of events that are clicks.
        others: the kinds of events that count as neither, as far as they are known.
        marks: the kinds of events that show a document that was clicked, in tables with one row per document.

    Example:
        >>> Events().completed(["search", "product_click", "purchase"])
        Events(shown=('search',), clicks=('product_click',), others=('purchase',), marks=())
    """

    shown: tuple[str, ...] = ()
    clicks: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def completed(self, kinds: Iterable[str]) -> Self:
        """The same, with what was not given recognised among these kinds."""
        names = list(kinds)
        clicks = self.clicks or tuple(name for name in names if CLICK_EVENT.search(name))
        rest = [name for name in names if name not in clicks]
        by_pattern = (tuple(name for name in rest if one.search(name)) for one in SHOWN_EVENTS)
        shown = self.shown or next(filter(None, by_pattern), ())
        others = tuple(name for name in rest if name not in shown)
        return replace(self, shown=shown, clicks=clicks, others=others)

    def shown_with_clicks(self) -> Self:
        """The same, if each click comes with the list that was shown: nothing else shows documents."""
        others = (*self.shown, *self.others)
        return replace(self, shown=self.clicks, clicks=(), others=others)

    def shown_and_clicked(self) -> Self:
        """The same, if the row of a click takes the place of the row that shows its document."""
        return replace(self, shown=(*self.shown, *self.clicks), clicks=(), marks=self.clicks)

    @property
    def sentence(self) -> str:
        """What counts as what."""
        text = f"Events that show documents: {_listed(self.shown)}"
        if self.marks:
            text += f"; of these, clicked: {_listed(self.marks)}"
        else:
            text += f"; clicks: {_listed(self.clicks)}" if self.clicks else ", each with its click"
        if self.others:
            weight = f"--amount {self.others[0]}=5 would give one a weight"
            text += f"; set aside: {_listed(self.others, MANY)} ({weight})"
        return f"{text}. Correct it with --shown-event and --click-event."


def _listed(names: Sequence[str], most: int | None = None) -> str:
    more = 0 if most is None else len(names[most:])
    return (", ".join(names[:most]) or "none") + (f" and {more} more" if more else "")
