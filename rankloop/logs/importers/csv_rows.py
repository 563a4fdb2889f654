"""Read the rows of a CSV file, so that every line of the file is part of a row or counted as broken.

A quote that is opened by mistake makes everything up to the next quote one field: hundreds of rows vanish,
and what is left may even have the right number of fields. A row of several lines is therefore read only if
those lines are not rows themselves; otherwise its first line is broken, and reading resumes after it.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from rankloop.errors import DataError
from rankloop.logs.importers.formats import WHITE_SPACE

# Names of columns are hardly ever numbers or dates; a row of a log has an id, a position and clicks.
NUMBERS = 0.3
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b")
# Lines of a file without names of columns that are examined for how many fields they have, and the share of
# lines from which on a number of fields is no accident.
AHEAD = 1_000
OFTEN = 0.05
# The number of columns with a value that comes again from which on the first line has no names.
SEVERAL = 2

# Lines that are read as whole columns at a time.
BLOCK = 50_000
_LINE_ENDS = (b"\n\n", b"\n\r\n")

Broken = Callable[[int, object], None]
TakeColumns = Callable[[pa.Table, Sequence[int]], None]


def read_csv_rows(
    lines: Iterator[tuple[int, bytes]],
    path: Path,
    delimiter: str,
    add_broken: Broken,
    add_note: Callable[[str], None] = lambda _: None,
    take_columns: TakeColumns | None = None,
) -> Iterator[tuple[int, dict[str, str]]]:
    """Iterate over the rows of a file with the numbers of their first lines.

    Blocks of lines that are all written as CSV is usually written are taken as whole columns instead.

    Args:
        lines: the lines of the file with their numbers.
        path: the file, for messages.
        delimiter: what separates fields; a space stands for any white space.
        add_broken: counts a broken line, by number and reason.
        add_note: takes a sentence on how the file was understood.
        take_columns: takes the columns of a block as text, and the numbers of its lines.
    """
    source = _Lines(lines, packed=delimiter == WHITE_SPACE)
    reader = csv.reader(source, delimiter=delimiter, strict=True)
    header: list[str] | None = None
    widths: set[int] = set()
    heading: list[str] = []
    above: list[str] = []
    while True:
        if take_columns is not None and header is not None and widths == {len(header)} and not heading:
            while (block := source.block()) and (found := _columns(block, header, delimiter)) is not None:
                columns, broken = found
                for line, width in broken:
                    add_broken(line, _wrong_width(width, header))
                take_columns(columns, _kept_lines(block, broken))
            source.read_lines(block)
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
            # Empty lines before the names of the columns are neither names nor rows, and spreadsheets name
            # their delimiter in a line of its own.
            if not fields or (fields[0].lower() == "sep=" and len(fields) <= len((delimiter, ""))):
                continue
            header = [name.strip() for name in fields]
            if _is_data(header) or _comes_again(header, source.ahead(), delimiter):
                source.read_again()
                widths = source.widths(delimiter)
                header = [f"c{number}" for number in range(1, max(widths) + 1)]
                if headings := source.headings(delimiter, widths):
                    heading = [f"h{number}" for number in range(1, headings + 1)]
                    above = [""] * headings
                    add_note(
                        f"{path} has lines of {headings} fields before the lines of a search: their columns "
                        f"are called {heading[0]} to {heading[-1]}."
                    )
                add_note(
                    f"{path} has no names of columns in its first line: they are called {header[0]} to "
                    f"{header[-1]}{_on_widths(widths)}."
                )
                continue
            widths = {len(header)}
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
        elif heading and len(fields) == len(heading):
            above = fields
        elif len(fields) in widths:
            yield (
                first,
                dict(zip(heading, above, strict=True))
                | dict(zip(header, fields + [""] * (len(header) - len(fields)), strict=True)),
            )
        elif fields:
            add_broken(first, _wrong_width(len(fields), header))


def _wrong_width(fields: int, header: Sequence[str]) -> str:
    return f"{fields} fields where the first line has {len(header)}"


def _columns(
    block: Sequence[tuple[int, bytes]], header: Sequence[str], delimiter: str
) -> tuple[pa.Table, list[tuple[int, int]]] | None:
    """The columns of a block of lines, and the lines with another number of fields with that number.

    None if the block has anything that programs write in more than one way: empty lines, quotes within
    fields, text that is not UTF-8.
    """
    data = b"".join(line for _, line in block)
    if b"\0" in data or data.count(b"\r") != data.count(b"\r\n"):
        return None
    if data.startswith((b"\n", b"\r\n")) or any(ends in data for ends in _LINE_ENDS):
        return None
    if b'"' in data and _well_quoted(delimiter).fullmatch(data) is None:
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    broken = []

    def take_broken(row: pa.csv.InvalidRow) -> str:
        broken.append((block[row.number - 1][0], row.actual_columns))
        return "skip"

    columns = pa.csv.read_csv(
        pa.BufferReader(data),
        pa.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=header),
        pa.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=take_broken),
        pa.csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string()), null_values=[]),
    )
    return columns, broken


@cache
def _well_quoted(delimiter: str) -> re.Pattern[bytes]:
    """Lines whose fields have no quotes, or are quoted as a whole."""
    end = re.escape(delimiter).encode()
    return re.compile(rb'(?:(?:"(?:[^"\r\n]|"")*+"|[^"\r\n%b]*+)(?:%b|\r?\n|\Z))*+' % (end, end))


def _kept_lines(block: Sequence[tuple[int, bytes]], broken: Sequence[tuple[int, int]]) -> list[int]:
    left_out = {line for line, _ in broken}
    return [line for line, _ in block if line not in left_out]


def _is_data(fields: list[str]) -> bool:
    """Whether the first line of a file is a row, and not the names of columns: many are numbers or dates."""
    numbers = sum(
        field.replace(".", "", 1).lstrip("-").isdecimal() or _DATE.match(field) is not None
        for field in fields
    )
    return numbers > 0 and numbers >= NUMBERS * len(fields)


def _comes_again(fields: list[str], lines: list[str], delimiter: str) -> bool:
    """Whether the first line is a row, because later rows have some of its values in the same columns."""
    again: set[int] = set()
    for line in lines:
        values = [value.strip() for value in line.rstrip("\r\n").split(delimiter)]
        # Files that were joined repeat the names of their columns.
        if values != fields and len(values) == len(fields):
            again |= {at for at, value in enumerate(values) if value and value == fields[at]}
    return len(again) >= SEVERAL


def _on_widths(widths: set[int]) -> str:
    if len(widths) == 1:
        return ""
    listed = " or ".join(map(str, sorted(widths)))
    return f"; lines have {listed} fields, and shorter ones lack the last columns"


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

    def __init__(self, lines: Iterator[tuple[int, bytes]], *, packed: bool) -> None:
        self._lines, self._packed = lines, packed
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
        # Any white space stands for one delimiter.
        line = b" ".join(line.split()) if self._packed else line
        return _decoded(number, line)

    def ahead(self) -> list[str]:
        """The next lines, which are read again."""
        while len(self._again) < AHEAD:
            try:
                self._again.append(self._decoded())
            except StopIteration:
                break
        return [text for _, text, _ in self._again]

    def block(self) -> list[tuple[int, bytes]]:
        """The next lines as they are; none if there are lines to be read again."""
        return [] if self._again or self._packed else list(islice(self._lines, BLOCK))

    def read_lines(self, block: Iterable[tuple[int, bytes]]) -> None:
        """Read the lines of a block one by one."""
        self._again.extend(_decoded(number, line) for number, line in block)

    def headings(self, delimiter: str, widths: set[int]) -> int:
        """The number of fields of lines that come before the rows of each search; 0 if there are none.

        Lines of two widths: a short one, then several long ones, and so on.
        """
        found = [text.count(delimiter) + 1 for text in self.ahead() if text.strip()]
        short = min(widths)
        if len(widths) != len(("heading", "row")) or found[0] != short:
            return 0
        starts = [at for at, width in enumerate(found) if width == short]
        alone = sum(width == short for at in starts for width in found[at + 1 : at + 2])
        return short if alone == 0 and len(found) >= (1 + SEVERAL) * len(starts) else 0

    def widths(self, delimiter: str) -> set[int]:
        """How many fields lines have; numbers that are rare among the next lines do not count."""
        self.ahead()
        counts = Counter(text.count(delimiter) + 1 for _, text, _ in self._again if text.strip())
        return {width for width, count in counts.items() if count >= OFTEN * len(self._again)}

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


def _decoded(number: int, line: bytes) -> tuple[int, str, bool]:
    """The number and the text of a line, and whether it is UTF-8."""
    try:
        # Some programs write a byte-order mark.
        return number, line.decode("utf-8-sig" if number == 1 else "utf-8"), True
    except UnicodeDecodeError:
        return number, line.decode("utf-8", "replace"), False
