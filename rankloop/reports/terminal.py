"""Documents in the terminal: the blocks that are marked brief, as lines and tables."""

from __future__ import annotations

import unicodedata
from io import StringIO

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text as RichText

from rankloop.reports.document import Cell, Document, Examples, Facts, Leaf, Listing, Table, Text

# Control and format characters, lone surrogates, and separators of lines: data that holds them could move the
# cursor, change colours or reverse the text.
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def printable(text: str, *, lines: bool = False) -> str:
    r"""The text with control characters spelled out, so that data cannot steer the terminal.

    Args:
        text: any text.
        lines: whether line breaks are kept.

    Example:
        >>> print(printable("red: \x1b[31m"))
        red: \x1b[31m
        >>> print(printable("a\nb"), printable("a\nb", lines=True))
        a\nb a
        b
    """
    return "".join(
        character.encode("unicode_escape").decode()
        if unicodedata.category(character) in HIDDEN and not (lines and character == "\n")
        else character
        for character in text
    )


def print_document(document: Document, console: Console) -> None:
    """Print what a document says in brief; figures are left to the page."""
    for block in document.brief():
        _print(block, console)


def brief_text(document: Document, width: int = 100) -> str:
    """What a terminal of this width shows of a document, as plain text."""
    text = StringIO()
    print_document(document, Console(file=text, width=width, force_terminal=False, legacy_windows=False))
    return text.getvalue().rstrip()


def print_line(line: str, console: Console, style: str = "", *, lines: bool = False) -> None:
    """Print a line as it is: it is not wrapped, and nothing in it is taken for markup."""
    console.print(RichText(printable(line, lines=lines), style=style), soft_wrap=True, highlight=False)


def _print(block: Leaf, console: Console) -> None:
    match block:
        case Text():
            print_line(f"note: {block.text}" if block.kind == "warning" else block.text, console)
        case Facts():
            width = max(len(name) for name, _ in block.facts)
            for name, value in block.facts:
                print_line(f"{name:{width}}  {value}", console)
        case Examples():
            print_line(f"{block.name}: for example {block.examples[0]}", console)
        case Listing():
            print_line(block.text, console, lines=True)
        case Table():
            print_line(block.caption, console, "bold")
            console.print(_table(block.for_terminal()))


def _table(table: Table) -> RichTable:
    drawn = RichTable()
    for index, column in enumerate(table.all_columns):
        words = column.words or index == 0
        drawn.add_column(RichText(printable(column.name)), justify="left" if words else "right")
    for row in table.rows:
        drawn.add_row(*(RichText(printable(_content(cell))) for cell in row))
    return drawn


def _content(cell: str | Cell) -> str:
    return f"{cell.text}: {cell.label}" if isinstance(cell, Cell) else cell
