"""Features from the columns of the imported table itself."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rankloop.errors import DataError
from rankloop.logs.importers.column_names import Columns
from rankloop.logs.importers.parsing import BadValueError, is_missing
from rankloop.logs.importers.staging import Staging
from rankloop.logs.importers.tables.lists import STEP, ColumnPath, as_list, clicked_of
from rankloop.logs.importers.tables.profile import Sample
from rankloop.logs.importers.tables.value_guess import speaks_of_clicks
from rankloop.logs.importers.tables.words import OUTCOMES, POSITION, normalised
from rankloop.logs.schema import QUERY_DOCUMENT

AUTO = "auto"
TABLE = "table_features"
# If clicks had nothing to do with a column, all of its values would be on clicked rows this rarely.
CHANCE = 1e-6
# Share of the values of a column, apart from 0, that are on clicked rows if it is known only after a click.
NEARLY_ALL = 0.95
# The area under the ROC curve from which on a column is no guess of clicks, but knows them; and the number of
# clicked and of other rows that it takes to say so.
SEPARATES = 0.98
ENOUGH = 20
# Endings of the names of ids: numbers that say nothing by their size.
IDS = ("id", "ids", "uuid", "key", "code")
TRUTH = {"true": 1.0, "t": 1.0, "false": 0.0, "f": 0.0}
# Documents per category, at least, on average: text that has fewer is a name or a title.
SHARED = 2
# Columns named in messages.
NAMED = 6
_COMMA = re.compile(r"[+-]?\d+,(\d+)$")
THOUSANDS = 3


def choose_features(sample: Sample, names: Columns, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns that become features, and sentences on those that do not.

    Args:
        sample: the first rows.
        names: the columns that mean something else.
        wanted: names of columns, with wildcards as in ``prop_*``; or ``auto`` for all columns of numbers,
            except ids, outcomes, and columns that have values on clicked rows only, and for text that is a
            category of documents, such as a brand.
    """
    taken = set(_taken(names))
    numeric = [name for name in sample.columns if name not in taken and _is_numeric(sample.present(name))]
    if list(wanted) != [AUTO]:
        chosen = [name for name in sample.columns if any(fnmatch.fnmatchcase(name, one) for one in wanted)]
        missing = [one for one in wanted if not fnmatch.filter(sample.columns, one)]
        if missing:
            raise DataError(
                f"no column is called {missing[0]!r}; the columns are {', '.join(sample.columns)}"
            )
        others = [name for name in chosen if sample.present(name) and not _is_numeric(sample.present(name))]
        texts = feature_texts(sample, others)
        if texts != others:
            other = next(name for name in others if name not in texts)
            raise DataError(f"the column {other!r} cannot be a feature: it holds neither numbers nor text")
        return chosen, _describe_categories(texts)
    numeric = [name for name in numeric if name.strip() and not _counts_rows(sample.values(name))]
    ids = [name for name in numeric if normalised(name).split("_")[-1] in IDS]
    ids += [name for name in numeric if normalised(name) in POSITION]
    outcomes = [name for name in numeric if name not in ids and _leaks(sample, names, name)]
    notes = []
    if ids:
        notes.append(f"Ids and positions are not features: {_listed(ids)}.")
    if outcomes:
        notes.append(
            f"Not features, because they are known only after a click: {_listed(outcomes)} "
            f"(--feature-columns with their names would use them)."
        )
    texts = [name for name in feature_texts(sample, sample.columns) if name not in taken and name.strip()]
    categories = [name for name in texts if _describes_documents(sample, names, name)]
    notes += _describe_categories(categories)
    unused = [name for name in texts if name not in categories]
    if unused:
        notes.append(
            f"Text that is not a feature, because it is no category of documents: {_listed(unused)} "
            f"(--feature-columns with its name would use it)."
        )
    chosen = [*numeric, *categories]
    return [name for name in sample.columns if name in chosen and name not in (*ids, *outcomes)], notes


def feature_texts(sample: Sample, columns: Sequence[str]) -> list[str]:
    """The columns that hold text."""
    found = []
    for name in columns:
        values = [value for value in sample.present(name) if not is_missing(value)]
        if values and all(isinstance(value, str) for value in values) and not _is_numeric(values):
            found.append(name)
    return found


def _describes_documents(sample: Sample, names: Columns, column: str) -> bool:
    """Whether a column of text is a category of documents: each has one, and several share it."""
    if normalised(column).split("_")[-1] in IDS or not ColumnPath(names.doc_id).is_in(sample.columns):
        return False
    value_of: dict[str, str] = {}
    for document, value in zip(sample.values(names.doc_id), sample.values(column), strict=True):
        if is_missing(value):
            continue
        if isinstance(document, list) or value_of.setdefault(str(document), value) != value:
            return False
    different = len(set(value_of.values()))
    return 1 < different <= len(value_of) / SHARED


def _describe_categories(names: Sequence[str]) -> list[str]:
    if not names:
        return []
    return [f"Text is a category, which trees take and other models do not: {_listed(names)}."]


def _counts_rows(values: Sequence[Any]) -> bool:
    """Whether a column counts the rows, as the index of a data frame does."""
    try:
        numbers = np.array([int(str(value)) for value in values])
    except ValueError:
        return False
    return len(numbers) >= ENOUGH and bool((np.diff(numbers) == 1).all())


def suggest_features(sample: Sample, names: Columns) -> str | None:
    """A sentence on columns that could be features; None if there are none."""
    found, _ = choose_features(sample, names, [AUTO])
    if not found:
        return None
    return (
        f"Other columns could be features: {_listed(found)}. --feature-columns auto makes features of them."
    )


def _taken(names: Columns) -> list[str]:
    """The columns that mean something else, one by one."""
    named = [*names.impression_columns, *(name for name in vars(names).values() if isinstance(name, str))]
    paths = [path for name in named for path in (name, *ColumnPath(name).alternatives)]
    return [part for path in paths for part in ([path] if isinstance(path, str) else path)]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _is_numeric(values: list[Any]) -> bool:
    there = _parts(values)
    comma = has_decimal_comma(values)
    return bool(there) and not np.isnan([number(part, decimal_comma=comma) for part in there]).any()


def _parts(values: list[Any]) -> list[Any]:
    parts = [part for value in values for part in (value if isinstance(value, list) else [value])]
    return [part for part in parts if not is_missing(part)]


def has_decimal_comma(values: list[Any]) -> bool:
    """Whether numbers have commas before their fractions; 1,234 alone could be a thousand.

    >>> has_decimal_comma(["1,5", "2"]), has_decimal_comma(["1,234"]), has_decimal_comma(["1,5", "2.5"])
    (True, False, False)
    """
    texts = [part for part in _parts(values) if isinstance(part, str)]
    fractions = [match[1] for text in texts if (match := _COMMA.match(text.strip()))]
    return any(len(fraction) != THOUSANDS for fraction in fractions) and not any(
        "." in text for text in texts
    )


def _leaks(sample: Sample, names: Columns, column: str) -> bool:
    """Whether a column is known only after a click; by its name if rows have no clicks.

    Nearly all values apart from 0 are on clicked rows; or values tell nearly all clicked rows from others.
    """
    if speaks_of_clicks(column.rpartition(STEP)[0]):
        return True
    if names.clicked is None or not ColumnPath(names.clicked).is_in(sample.columns):
        parts = (part for step in column.split(STEP) for part in normalised(step).split("_"))
        return bool(set(parts) & set(OUTCOMES))
    comma = has_decimal_comma(sample.present(column))
    pairs = [
        (mark, math.nan if is_missing(value) else number(value, decimal_comma=comma))
        for mark, value in _marked(sample, names, column)
    ]
    clicked = np.array([mark for mark, _ in pairs], bool)
    values = np.array([value for _, value in pairs], float)
    there = ~np.isnan(values) & (values != 0)
    inside = int(there.sum())
    if inside > 0 and clicked[there].mean() >= NEARLY_ALL and float(clicked.mean()) ** inside < CHANCE:
        return True
    known = ~np.isnan(values)
    return _separates(values[known], clicked[known])


def _separates(values: npt.NDArray[np.float64], clicked: npt.NDArray[np.bool_]) -> bool:
    """Whether values tell nearly all clicked rows from the others: the area under their ROC curve."""
    hits, misses = values[clicked], np.sort(values[~clicked])
    if min(len(hits), len(misses)) < ENOUGH:
        return False
    below, upto = (np.searchsorted(misses, hits, side=side) for side in ("left", "right"))
    area = float((below + upto).mean()) / 2 / len(misses)
    return max(area, 1 - area) >= SEPARATES


def _marked(sample: Sample, names: Columns, column: str) -> Iterator[tuple[bool, Any]]:
    """Whether rows, or the elements of their lists, were clicked, and the values of a column."""
    marks, documents = sample.values(str(names.clicked)), sample.values(names.doc_id)
    for mark, document, value in zip(marks, documents, sample.values(column), strict=True):
        if not isinstance(value, list):
            # One value for a whole list says nothing about its elements.
            if not isinstance(mark, list) and not isinstance(document, list):
                yield bool(mark) and number(mark) > 0, value
            continue
        try:
            shown = [str(one) for one in as_list(document, names.doc_id)]
            flags, _ = clicked_of(mark, shown, str(names.clicked))
        except BadValueError:
            continue
        if len(flags) == len(value):
            yield from zip(flags, value, strict=True)


def number(value: Any, *, decimal_comma: bool = False) -> float:
    """A value of a feature; NaN if it is missing or not a number.

    >>> number("3"), number(True), number("NULL"), number("1,5", decimal_comma=True)
    (3.0, 1.0, nan, 1.5)
    """
    if decimal_comma and isinstance(value, str) and _COMMA.match(value.strip()):
        value = value.replace(",", ".")
    try:
        return float(value)
    except (TypeError, ValueError):
        word = value.strip().lower() if isinstance(value, str) else ""
        return TRUTH.get(word, math.nan)


def category(value: Any) -> str | None:
    """A value of a category; None if it is missing.

    >>> category("Acme"), category(7), category("")
    ('Acme', '7', None)
    """
    return None if is_missing(value) or value == "" else str(value)


class TableFeatures:
    """Collects features row by row; of a document of a query that came again, the last row counts.

    Args:
        staging: the staged tables beside which files are put.
        names: the columns; their names are those of the features.
        decimal_commas: the columns whose numbers have commas before their fractions.
        categories: the columns that hold text.
    """

    def __init__(
        self,
        staging: Staging,
        names: Sequence[str],
        decimal_commas: Collection[str] = (),
        categories: Collection[str] = (),
    ) -> None:
        self.names = list(names)
        readers = [
            category if name in categories else partial(number, decimal_comma=name in decimal_commas)
            for name in names
        ]
        self._readers: Sequence[Callable[[Any], float | str | None]] = readers
        self._texts = [name in categories for name in names]
        self._paths = [ColumnPath(name) for name in names]
        fields = [("place", pa.int64()), *((name, pa.string()) for name in QUERY_DOCUMENT)]
        fields += [(f"f{at}", pa.string() if text else pa.float32()) for at, text in enumerate(self._texts)]
        self._staging = Staging(staging.folder, (TABLE,), {TABLE: pa.schema(fields)}, staging.queries)

    def __enter__(self) -> Self:
        self._staging.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._staging.__exit__(kind, error, trace)

    def add(self, place: int, query: str, documents: Sequence[str], values: dict[str, Any]) -> None:
        """Add the features of the documents of a row; one value for all, or a list with one for each."""
        columns = [
            _one_each(path.of(values), len(documents), read)
            for path, read in zip(self._paths, self._readers, strict=True)
        ]
        rows = [
            (place, query, document, *row)
            for document, row in zip(documents, zip(*columns, strict=True), strict=True)
        ]
        self._staging.add(TABLE, rows)

    def add_batch(self, rows: pa.Table, source: pa.Table) -> bool:
        """Add whole columns; False if they hold neither numbers nor text."""
        features = {}
        for at, (name, read, text) in enumerate(zip(self.names, self._readers, self._texts, strict=True)):
            column = source[name] if name in source.column_names else None
            if column is None:
                return False
            if pa.types.is_string(column.type):
                kind = pa.string() if text else pa.float32()
                features[f"f{at}"] = pa.array([read(value) for value in column.to_pylist()], kind)
            elif not text and (_is_number(column.type) or pa.types.is_boolean(column.type)):
                features[f"f{at}"] = column.cast(pa.float32(), safe=False)
            else:
                return False
        ids = {name: rows[name].cast(pa.string()) for name in QUERY_DOCUMENT}
        self._staging.add_batch(TABLE, pa.table({"place": rows["place"], **ids, **features}))
        return True

    def written(self) -> Path:
        """Write one row per document of a query, after the context has ended; return the file."""
        out = self._staging.folder / "features_of_table.parquet"
        named = ", ".join(f'f{at} AS "{_quoted(name)}"' for at, name in enumerate(self.names))
        with duckdb.connect() as connection:
            connection.execute(
                f"COPY (SELECT query_id, doc_id, {named} FROM read_parquet(?) QUALIFY row_number() OVER "
                f"(PARTITION BY query_id, doc_id ORDER BY place DESC) = 1) TO '{_escaped(out)}' "
                f"(FORMAT parquet)",
                [str(self._staging.path(TABLE))],
            )
        return out


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")


def _one_each(
    value: Any, documents: int, read: Callable[[Any], float | str | None]
) -> Iterable[float | str | None]:
    if not isinstance(value, list):
        return [read(value)] * documents
    return ([read(element) for element in value] + [read(None)] * documents)[:documents]
