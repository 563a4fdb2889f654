"""PostgreSQL as an engine: it counts the impressions that it holds, so that they need not be exported.

Impressions are the table, or the view, of that name on the search path. Candidates and features are read from
the folder of the log.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from rankloop import extras
from rankloop.errors import DataError, RankloopError, one_line
from rankloop.logs.engines import Batches, Engine, Expression, Mapped, whole_groups
from rankloop.logs.schema import COLUMNS, check_columns

# Bytes of rows that are fetched and converted at a time.
BYTES_PER_BATCH = 32_000_000
# Engines order ids by their bytes: so must a database whose own order is that of a language.
TEXT = 'text COLLATE "C"'
# What a table in memory may hold.
TYPES = {pa.string(): TEXT, pa.int64(): "bigint", pa.int32(): "integer", pa.float64(): "double precision"}


@contextmanager
def postgres_engine(address: str) -> Iterator[Engine]:
    """PostgreSQL, in one session, whose temporary tables end with the block."""
    psycopg = extras.load("psycopg")
    try:
        connection = psycopg.connect(address, autocommit=True, options="-c TimeZone=UTC")
    except psycopg.Error as error:
        raise RankloopError(f"no connection with PostgreSQL: {one_line(error)}") from error
    with connection:
        try:
            yield _Postgres(connection)
        except psycopg.Error as error:
            raise RankloopError(f"PostgreSQL failed: {one_line(error)}") from error
        finally:
            # Now, rather than when the server notices the end of the session: a view keeps its table in use.
            with suppress(psycopg.Error):
                connection.execute("DISCARD TEMP")


class _Postgres:
    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.backend = ibis.postgres.from_connection(connection)

    def table(self, files: Sequence[Path]) -> Expression:
        name = files[0].stem
        if files[0].exists():
            # Nothing else is counted, and features may be many.
            columns = [*COLUMNS[name]]
            return self.given(
                pa.concat_tables(_narrow(pq.read_table(file, columns=columns)) for file in files)
            )
        view = self._named()
        self._run(f"CREATE TEMP VIEW {view} AS SELECT {self._columns(name)} FROM {name}")
        table = self.backend.table(view)
        check_columns(table.schema().to_pyarrow(), name, f"the table {name} of PostgreSQL")
        return table

    def given(self, table: pa.Table) -> Expression:
        name = self._named()
        columns = ", ".join(f'"{field.name}" {TYPES[field.type]}' for field in table.schema)
        self._run(f"CREATE TEMP TABLE {name} ({columns})")
        options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid")
        with self.connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)") as rows:
            for batch in table.to_batches():
                text = io.BytesIO()
                pyarrow.csv.write_csv(batch, text, options)
                rows.write(text.getvalue())
        self._run(f"ANALYZE {name}")
        return self.backend.table(name)

    def stored(self, expression: Expression) -> Expression:
        name = self._named()
        self._run(f"CREATE TEMP TABLE {name} AS {self.backend.compile(expression)}")
        self._run(f"ANALYZE {name}")
        return self.backend.table(name)

    def batches(self, expression: Expression) -> Batches:
        # Databases use other types for sums.
        schema = expression.schema().to_pyarrow()
        query = f"COPY ({self.backend.compile(expression)}) TO STDOUT (FORMAT csv)"
        with self.connection.cursor().copy(query) as rows:
            part, size = list[bytes](), 0
            for row in rows:
                part.append(bytes(row))
                size += len(row)
                if size >= BYTES_PER_BATCH:
                    yield from _read(part, schema)
                    part, size = [], 0
            yield from _read(part, schema)

    def grouped(
        self, expression: Expression, keys: Sequence[str], function: Mapped, schema: pa.Schema
    ) -> Batches:
        for batch in whole_groups(self.batches(expression.order_by(*keys)), keys):
            yield function(batch).cast(schema)

    def _columns(self, table: str) -> str:
        """The columns of a table of the database, with ids in the order of their bytes."""
        found = self._run(
            "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            table,
        ).fetchall()
        if not found:
            raise DataError(
                f"PostgreSQL has no table {table} on its search path: name its schema in the address "
                "(?options=-csearch_path=SCHEMA), or make a view of this name"
            )
        texts = {"text", "character varying", "character", "uuid"}
        return ", ".join(
            f'"{name}"::{TEXT} AS "{name}"' if kind in texts else f'"{name}"' for name, kind in found
        )

    def _run(self, statement: str, *values: object) -> Any:
        return self.connection.execute(statement, values or None)

    def _named(self) -> str:
        name: str = ibis.util.gen_name("rankloop")
        return name


def _narrow(table: pa.Table) -> pa.Table:
    """Ids as text, whatever codes a file has for them, and other columns as a database can be given them."""
    kinds = [
        pa.float64() if pa.types.is_floating(field.type) or field.name == "score" else pa.string()
        for field in table.schema
    ]
    return table.cast(
        pa.schema([pa.field(name, kind) for name, kind in zip(table.column_names, kinds, strict=True)])
    )


def _read(rows: list[bytes], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of CSV as batches."""
    if not rows:
        return
    found = pyarrow.csv.read_csv(
        io.BytesIO(b"".join(rows)),
        pyarrow.csv.ReadOptions(column_names=schema.names, block_size=2 * BYTES_PER_BATCH),
        pyarrow.csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pyarrow.csv.ConvertOptions(
            column_types=schema,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            true_values=["t"],
            false_values=["f"],
        ),
    )
    yield from found.cast(schema).to_batches()
