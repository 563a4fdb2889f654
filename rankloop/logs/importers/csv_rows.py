"""Read the rows of a CSV file, so that every line of the file is part of a row or counted as broken.

A quote that is opened by mistake makes everything up to the next quote one field: hundreds of rows vanish,
and what is left may even have the right number of fields. A row of several lines is therefore read only if
those lines are not rows themselves; otherwise its first line is broken, and reading resumes after it.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from rankloop.errors import DataError

# Names of columns are hardly ever numbers; a row of a log has an id, a position and clicks.
NUMBERS = 0.3

Broken = Callable[[int, object], None]


def read_csv_rows(
    lines: Iterator[tuple[int, bytes]],
    path: Path,
    delimiter: str,
    add_broken: Broken,
    add_note: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Iterate over the rows of a file with the numbers of their first lines.

    Args:
        lines: the lines of the file with their numbers.
        path: the file, for messages.
        delimiter: what separates fields.
        add_broken: counts a broken line, by number and reason.
        add_note: takes a sentence on how the file was understood.
    """
    source = _Lines(lines)
    reader = csv.reader(source, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        source.taken.clear()
        error: csv.Error | None = None
        fields: list[str] = []
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as caught:
            error = caught
        first = source.taken[0][0]
        if header is None:
            if error is not None:
                raise DataError(f"{path}, line {first}: the names of the columns cannot be read: {error}")
            # Empty lines before the names of the columns are neither names nor rows.
            if not fields:
                continue
            header = [name.strip() for name in fields]
            if _is_data(header):
                header = [f"c{number}" for number in range(1, len(fields) + 1)]
                add_note(
                    f"{path} has no names of columns in its first line: they are called {header[0]} to "
                    f"{header[-1]}."
                )
                source.read_again()
                continue
            if len(set(header)) < len(header):
                raise DataError(f"{path}, line {first}: two columns have the same name: {', '.join(header)}")
            continue
        if len(source.taken) > 1 and _is_stray(source, delimiter, len(header), error, fields):
            swallowed = len(source.taken) - 1
            source.resume_after_first()
            add_broken(first, f"a quote is opened and not closed, which would hide {swallowed:,} more lines")
        elif error is not None and "unexpected end" in str(error):
            raise DataError(
                f"{path}, line {first}: a quote is opened and never closed; the file is truncated, or the "
                f"quote must be doubled"
            ) from error
        elif error is not None:
            add_broken(first, error)
        elif source.undecoded():
            add_broken(first, "not UTF-8")
        elif len(fields) == len(header):
            yield first, dict(zip(header, fields, strict=True))
        elif fields:
            add_broken(first, f"{len(fields)} fields where the first line has {len(header)}")


def _is_data(fields: list[str]) -> bool:
    """Whether the first line of a file is a row, and not the names of columns: many fields are numbers."""
    numbers = sum(field.replace(".", "", 1).lstrip("-").isdecimal() for field in fields)
    return numbers > 0 and numbers >= NUMBERS * len(fields)


def _is_stray(source: _Lines, delimiter: str, width: int, error: csv.Error | None, fields: list[str]) -> bool:
    """Whether a row of several lines begins with a quote that was opened by mistake.

    Lines that such a quote hides have no quotes themselves, up to the last one: each is a row as it stands.
    Lines of a quoted text hardly ever have the right number of fields.
    """
    complete = [len(text.split(delimiter)) == width for _, text, _ in source.taken]
    at_end = error is not None and "unexpected end" in str(error)
    hidden = complete[1:] if at_end else complete[1:-1]
    if hidden:
        return 2 * sum(hidden) >= len(hidden)
    return (error is not None or len(fields) != width) and complete[0] and complete[-1]


class _Lines:
    """Decoded lines for `csv.reader`, which can be read again.

    Attributes:
        taken: number, text and whether it is UTF-8, of each line since this was last cleared.
    """

    def __init__(self, lines: Iterator[tuple[int, bytes]]) -> None:
        self._lines = lines
        self._again: deque[tuple[int, str, bool]] = deque()
        self.taken: list[tuple[int, str, bool]] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else self._decoded()
        self.taken.append(line)
        return line[1]

    def _decoded(self) -> tuple[int, str, bool]:
        number, line = next(self._lines)
        try:
            # Some programs write a byte-order mark.
            return number, line.decode("utf-8-sig" if number == 1 else "utf-8"), True
        except UnicodeDecodeError:
            return number, line.decode("utf-8", "replace"), False

    def undecoded(self) -> bool:
        """Whether any of the taken lines is not UTF-8."""
        return not all(valid for _, _, valid in self.taken)

    def read_again(self) -> None:
        """Read all taken lines again."""
        self._again.extendleft(reversed(self.taken))
        self.taken.clear()

    def resume_after_first(self) -> None:
        """Read all taken lines but the first again."""
        self._again.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]
