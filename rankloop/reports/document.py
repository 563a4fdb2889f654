"""The content of a report, independent of its rendering: blocks of text, facts, tables and figures.

Every kind of result has one function that turns it into a `Document`, and three renderers show documents:
`rankloop.reports.html` as a page, `rankloop.reports.terminal` as lines and tables, and
`rankloop.reports.markdown` as Markdown. Numbers are formatted once, where the document is made.

Strings are plain text, and every renderer escapes them; only a part in backticks, as in a command to type, is
set as code. A terminal shows the blocks that are marked ``brief``; a page shows all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

# The text of a cell without a value.
NONE = "–"

Kind = Literal["plain", "strong", "quiet", "warning"]
NEXT_STEP = "Next step"


@dataclass(frozen=True)
class Text:
    """A paragraph.

    Attributes:
        text: the sentences.
        kind: ``strong`` for the result in one sentence, ``quiet`` for explanations of numbers, ``warning``
            for what the reader must know before relying on the result.
        brief: whether a terminal shows it; warnings are always shown.
    """

    text: str
    kind: Kind = "plain"
    brief: bool = False


@dataclass(frozen=True)
class Facts:
    """Names and their values."""

    facts: tuple[tuple[str, str], ...]
    brief: bool = False


@dataclass(frozen=True)
class Examples:
    """A few examples of one thing, as they were found.

    Attributes:
        name: what they are examples of.
        examples: one string each; a terminal shows the first.
        brief: whether a terminal shows it.
    """

    name: str
    examples: tuple[str, ...]
    brief: bool = False


@dataclass(frozen=True)
class Listing:
    """Lines to copy, such as commands."""

    text: str
    brief: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: its heading.
        words: whether it holds words, which are aligned to the left and wrapped, instead of numbers.
        brief: whether a terminal shows it when it shows the table.
    """

    name: str
    words: bool = False
    brief: bool = True


class Cell(NamedTuple):
    """A cell with a second, quieter line below its text."""

    text: str
    label: str


@dataclass(frozen=True)
class Table:
    """A table; its first column names the rows.

    Attributes:
        caption: what the numbers are.
        columns: from left to right; a string is a column with nothing special about it.
        rows: one cell per column.
        brief: whether a terminal shows it.
        folded: whether a page shows only the caption until the reader opens it.
    """

    caption: str
    columns: tuple[str | Column, ...]
    rows: tuple[tuple[str | Cell, ...], ...]
    brief: bool = False
    folded: bool = False

    @classmethod
    def build(
        cls,
        caption: str,
        columns: Sequence[str | Column],
        rows: Sequence[Sequence[str | Cell]],
        *,
        brief: bool = False,
        folded: bool = False,
    ) -> Table:
        """A table of any sequences.

        >>> Table.build("clicks", ["rank", "clicked"], [["1", "0.5"]]).columns
        ('rank', 'clicked')
        """
        return cls(caption, tuple(columns), tuple(map(tuple, rows)), brief, folded)

    @property
    def all_columns(self) -> tuple[Column, ...]:
        """The columns, each as a `Column`."""
        return tuple(Column(each) if isinstance(each, str) else each for each in self.columns)

    def for_terminal(self) -> Table:
        """The table without the columns that a terminal has no room for."""
        shown = [index for index, column in enumerate(self.all_columns) if column.brief]
        return Table(
            self.caption,
            tuple(self.columns[index] for index in shown),
            tuple(tuple(row[index] for index in shown) for row in self.rows),
            self.brief,
        )


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Attributes:
        draw: makes an ``<svg>`` element, as `rankloop.reports.drawing.draw_svg` does, or a whole SVG file if
            ``standalone``; called only by renderers that show figures.
        caption: the text below it.
        alt: what it shows, in words.
        standalone: whether the drawing brings its own colours and legend.
    """

    draw: Callable[[], str]
    caption: str
    alt: str
    standalone: bool = False


class LegendEntry(NamedTuple):
    """The style of one curve.

    Attributes:
        name: what it shows.
        look: which colour and marker it has; None for ink, without a marker.
        dashes: as matplotlib writes them.
    """

    name: str
    look: int | None
    dashes: str = "-"


@dataclass(frozen=True)
class Figures:
    """Figures side by side, below their common legend."""

    figures: tuple[Figure, ...]
    legend: tuple[LegendEntry, ...] = ()


class InputField(NamedTuple):
    """What a reader types, or chooses, beside a button.

    Attributes:
        name: under which it is sent.
        label: what it is.
        options: values and their texts, to choose from; none for text.
    """

    name: str
    label: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Button:
    """A button of a page that a server answers; other renderers leave it out.

    Attributes:
        label: the text on the button.
        path: where the form is sent to.
        values: names and values that are sent along.
        key: whether the reader must type a key.
        fields: what else the reader types or chooses.
        method: ``post``, or ``get`` for a button that only shows another page.
        brief: unused; a terminal has no buttons.
    """

    label: str
    path: str
    values: tuple[tuple[str, str], ...] = ()
    key: bool = False
    fields: tuple[InputField, ...] = ()
    method: str = "post"
    brief: bool = False


@dataclass(frozen=True)
class Section:
    """Blocks below a heading."""

    heading: str
    blocks: tuple[Block, ...]


Leaf = Text | Facts | Examples | Listing | Table | Figures | Button
Block = Leaf | Section


@dataclass(frozen=True)
class Document:
    """A report.

    Attributes:
        title: what it is about, without the name of the program.
        heading: the first heading.
        blocks: everything below it.
    """

    title: str
    heading: str
    blocks: tuple[Block, ...]

    def brief(self) -> Iterator[Leaf]:
        """The blocks that a terminal shows, in their order."""
        return _brief(self.blocks)


def next_step(*blocks: Block) -> Section:
    """What to do now: the last section of a document."""
    return Section(NEXT_STEP, blocks)


def without_next_step(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks of a document that another one follows."""
    return tuple(block for block in blocks if not (isinstance(block, Section) and block.heading == NEXT_STEP))


def warnings(notes: Sequence[str]) -> tuple[Text, ...]:
    """One warning per note."""
    return tuple(Text(note, "warning") for note in notes)


def _brief(blocks: Sequence[Block]) -> Iterator[Leaf]:
    for block in blocks:
        if isinstance(block, Section):
            yield from _brief(block.blocks)
        elif not isinstance(block, Figures | Button) and (
            block.brief or (isinstance(block, Text) and block.kind == "warning")
        ):
            yield block
