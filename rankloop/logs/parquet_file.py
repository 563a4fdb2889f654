"""Read Parquet files that may be damaged: all rows that the file promises, or an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

# What pyarrow raises for damaged files; the names of columns are decoded when they are asked for.
PARQUET_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError)


def checked_batches(path: Path, rows: int, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Iterate over the rows of a file in batches.

    Most damage to a Parquet file is read as other values, which nothing but a checksum can tell. What can be
    told is refused here: missing rows, text that is not UTF-8, and offsets outside of their column, which
    crash functions that use them.

    Args:
        path: the file.
        rows: number of rows per batch, at most.
        columns: names of the columns to read; None for all.

    Raises:
        PARQUET_ERRORS: the file is damaged.
    """
    found = 0
    with pq.ParquetFile(path.absolute()) as file:
        expected = file.metadata.num_rows
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            batch.validate(full=True)
            found += len(batch)
            yield batch
    if found != expected:
        raise pa.ArrowInvalid(f"{found:,} of {expected:,} rows could be read")


def parquet_footer(path: Path) -> tuple[pa.Schema, dict[bytes, bytes], int]:
    """The columns, the metadata and the number of rows of a file.

    Raises:
        PARQUET_ERRORS: the file is damaged.
    """
    footer = pq.read_metadata(path.absolute())
    schema = footer.schema.to_arrow_schema()
    # Names that cannot be decoded are an error here, not where they are first used.
    list(schema.names)
    return schema, footer.metadata or {}, footer.num_rows
