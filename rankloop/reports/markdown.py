"""Documents as Markdown, for pages that are read in a repository."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rankloop.reports.document import (
    Block,
    Button,
    Cell,
    Document,
    Examples,
    Facts,
    Figures,
    Listing,
    Section,
    Table,
    Text,
)


def markdown_page(document: Document) -> str:
    """The document as Markdown; of figures, what they show in words."""
    parts = [f"# {document.heading}", *_blocks(document.blocks, 2)]
    return "\n\n".join(parts) + "\n"


def _blocks(blocks: Iterable[Block], level: int) -> Iterator[str]:
    for block in blocks:
        match block:
            case Section():
                yield f"{'#' * level} {block.heading}"
                yield from _blocks(block.blocks, level + 1)
            case Text():
                yield {"strong": f"**{block.text}**", "warning": f"> {block.text}"}.get(
                    block.kind, block.text
                )
            case Facts():
                yield "\n".join(f"- {name}: {value}" for name, value in block.facts)
            case Examples():
                yield f"Examples of {block.name}:\n\n" + "\n".join(f"- `{each}`" for each in block.examples)
            case Listing():
                yield f"```\n{block.text}\n```"
            case Table():
                yield block.caption
                yield _table(block)
            case Button():
                pass
            case Figures():
                yield from (f"{figure.caption} {figure.alt}" for figure in block.figures)


def _table(table: Table) -> str:
    columns = table.all_columns
    rules = ["---" if column.words or not index else "---:" for index, column in enumerate(columns)]
    rows = [[_cell(column.name) for column in columns], rules, *(list(map(_cell, row)) for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(cell: str | Cell) -> str:
    r"""A cell on one line.

    >>> print(_cell("E[α | Π]"))
    E[α \| Π]
    """
    text = f"{cell.text}: {cell.label}" if isinstance(cell, Cell) else cell
    return text.replace("|", r"\|").replace("\n", " ")
