"""The engines that count a log: DuckDB, inside this process, Spark, or the PostgreSQL that holds it.

An engine provides tables as ibis expressions, and runs expressions. The expressions are the same for all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import duckdb
import ibis
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankloop.errors import DataError, RankloopError, one_line
from rankloop.ragged import threads
from rankloop.storage.locks import scratch_folder

ENGINES = ("duckdb", "spark", "postgres")

# The bytes of memory that DuckDB may use before it writes to disk. With the results, a log of 10⁸ rows is
# counted in less than 4 GB.
MEMORY = 2 * 10**9
# Groups of texts, which an import forms, stay in memory: up to 70 bytes per row. It may use this share of the
# machine's.
SHARE_OF_MEMORY = 1 / 3
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
# Rows fetched at a time.
ROWS_PER_BATCH = 1_000_000

# What DuckDB takes for a pattern of file names, and how the character itself is spelt in one.
PATTERN_LETTERS = re.compile(r"[*?\[]")

Expression = Any
Batches = Iterator[pa.RecordBatch]
Mapped = Callable[[pa.RecordBatch], pa.RecordBatch]


class Engine(Protocol):
    """Runs expressions."""

    def table(self, files: Sequence[Path]) -> Expression:
        """The table in these Parquet files; a database has it itself if there are none."""
        ...

    def given(self, table: pa.Table) -> Expression:
        """A table in the memory of this process."""
        ...

    def stored(self, expression: Expression) -> Expression:
        """The rows of an expression as a table that is computed once and kept as long as the engine runs."""
        ...

    def batches(self, expression: Expression) -> Batches:
        """The rows of an expression; read them all before running another expression."""
        ...

    def grouped(
        self, expression: Expression, keys: Sequence[str], function: Mapped, schema: pa.Schema
    ) -> Batches:
        """The results of a function on batches of whole groups, computed where the rows are.

        Rows with the same keys follow each other in one batch.
        """
        ...


def engine(
    name: str = "duckdb", *, master: str | None = None, memory: int = MEMORY
) -> AbstractContextManager[Engine]:
    """An engine, to be used in a ``with`` block.

    Args:
        name: ``duckdb``, ``spark`` or ``postgres``.
        master: where Spark runs, such as ``local[4]`` or ``spark://host:7077``, None for Spark's own
            settings; or the address of PostgreSQL, ``postgresql://user@host/database``.
        memory: the bytes that DuckDB may use before it writes to disk.
    """
    check_engine(name, master)
    if name == "spark":
        from rankloop.logs.spark import spark_engine  # an extra

        return spark_engine(master)
    if name == "postgres":
        from rankloop.logs.postgres import postgres_engine  # an extra

        return postgres_engine(master or "")
    return _duckdb_engine(memory)


def check_engine(name: str, master: str | None) -> None:
    """Refuse an unknown engine, a master for an engine that has none, and PostgreSQL without an address."""
    if name not in ENGINES:
        raise RankloopError(f"unknown engine {name!r}: choose {', '.join(ENGINES[:-1])} or {ENGINES[-1]}")
    if name == "postgres" and master is None:
        raise RankloopError(
            "PostgreSQL needs its address: master='postgresql://user@host/database' (--master)"
        )
    if name == "duckdb" and master is not None:
        raise RankloopError(f"master={master!r} is for Spark or PostgreSQL: DuckDB runs inside this process")


@contextmanager
def _duckdb_engine(memory: int) -> Iterator[Engine]:
    with scratch_folder() as scratch:
        connection = ibis.duckdb.connect(
            threads=threads(),
            memory_limit=f"{memory}B",
            temp_directory=str(scratch),
            # Rows are counted or sorted: preserving their order would only take memory.
            preserve_insertion_order=False,
        )
        # DuckDB would draw a progress bar on standard output, which is for results. In a notebook it is off,
        # and without ipywidgets DuckDB refuses to turn it off again.
        if connection.con.execute("SELECT current_setting('enable_progress_bar')").fetchone() != (False,):
            connection.con.execute("SET enable_progress_bar = false")
        try:
            with data_errors():
                yield _DuckDB(connection)
        finally:
            connection.disconnect()


def share_of_memory() -> int:
    """The bytes that an import may use; a container may have fewer than the machine."""
    total = MEMORY
    if hasattr(os, "sysconf"):  # not on Windows
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        total = min(total, int(CONTAINER_LIMIT.read_text()))
    return max(MEMORY, int(SHARE_OF_MEMORY * total))


@contextmanager
def data_errors() -> Iterator[None]:
    """Report errors that DuckDB finds in a file as errors in the data."""
    try:
        yield
    except RuntimeError as error:
        # DuckDB wraps Ctrl-C in an error of its own.
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None
        raise
    except duckdb.OutOfMemoryException as error:
        raise RankloopError(
            f"DuckDB ran out of memory or disk space: {one_line(error)} (set TMPDIR to a larger disk, or use "
            f"engine='spark')"
        ) from error
    except duckdb.Error as error:
        raise DataError(
            f"the log cannot be read: {one_line(error)}; part of it is damaged: write or copy it again"
        ) from error


def literal_path(file: Path) -> str:
    r"""A path as DuckDB must be given it, to read exactly this file.

    >>> literal_path(Path("/logs/[1]/x.parquet"))
    '/logs/[[]1]/x.parquet'

    Raises:
        DataError: DuckDB cannot be given this path.
    """
    # Absolute: a relative path could begin like an address, such as s3:// or ~.
    path = str(file.absolute())
    if not PATTERN_LETTERS.search(path):
        return path
    if "\\" in path:
        raise DataError(
            f"{path}: DuckDB cannot read a path that contains a backslash together with *, ? or [: rename "
            f"the folder (or set TMPDIR to another one, if it is a temporary folder)"
        )
    return PATTERN_LETTERS.sub(lambda letter: f"[{letter[0]}]", path)


def whole_groups(batches: Batches, keys: Sequence[str]) -> Batches:
    """The same rows, in their order, in batches that do not cut a group of rows with the same keys.

    >>> rows = pa.table({"key": [1, 1, 2, 2, 3]})
    >>> [batch["key"].to_pylist() for batch in whole_groups(iter(rows.to_batches(3)), ["key"])]
    [[1, 1], [2, 2], [3]]
    """
    rest: pa.RecordBatch | None = None
    for batch in batches:
        if not len(batch):
            continue
        joined = batch if rest is None else pa.concat_batches([rest, batch])
        # The last group may go on in the next batch.
        same = np.ones(len(joined), np.bool_)
        for key in keys:
            column = joined.column(key)
            same &= pc.equal(column, column[-1]).to_numpy(zero_copy_only=False)
        cut = int(np.flatnonzero(~same)[-1]) + 1 if not same.all() else 0
        if cut:
            yield joined.slice(0, cut)
        rest = joined.slice(cut)
    if rest is not None and len(rest):
        yield rest


class _DuckDB:
    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def table(self, files: Sequence[Path]) -> Expression:
        # Folders called query_id=5 would become the column of that name.
        return self.connection.read_parquet([literal_path(file) for file in files], hive_partitioning=False)

    def given(self, table: pa.Table) -> Expression:
        name = ibis.util.gen_name("rankloop")
        self.connection.con.register(name, table)
        return self.connection.table(name)

    def stored(self, expression: Expression) -> Expression:
        name = ibis.util.gen_name("rankloop")
        self.connection.con.execute(f"CREATE TEMP TABLE {name} AS {self.connection.compile(expression)}")
        return self.connection.table(name)

    def batches(self, expression: Expression) -> Batches:
        rows = self.connection.con.sql(self.connection.compile(expression))
        # Older versions of DuckDB use another name.
        reader = rows.to_arrow_reader if hasattr(rows, "to_arrow_reader") else rows.fetch_arrow_reader
        # Databases use other types for sums.
        schema = expression.schema().to_pyarrow()
        for batch in reader(ROWS_PER_BATCH):
            yield batch.cast(schema)

    def grouped(
        self, expression: Expression, keys: Sequence[str], function: Mapped, schema: pa.Schema
    ) -> Batches:
        # Sorting spills to disk where collecting the rows of each group in lists would run out of memory.
        for batch in whole_groups(self.batches(expression.order_by(*keys)), keys):
            yield function(batch).cast(schema)
