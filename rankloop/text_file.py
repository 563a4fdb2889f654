"""Open text files that may be compressed, with errors that name the file and the line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rankloop.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def open_text(path: Path, lines_read: Callable[[], int]) -> Iterator[IO[bytes]]:
    """Open a plain or gzipped file for reading; the content decides which of the two it is.

    Args:
        path: the file.
        lines_read: returns the number of lines read so far, for error messages.

    Raises:
        DataError: the file cannot be read, or it is compressed and damaged.
    """
    try:
        with path.open("rb") as raw:
            gzipped = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            raw.seek(0)
            with gzip.open(raw) if gzipped else raw as file:
                yield file  # type: ignore[misc]  # mypy does not know that GzipFile is an IO[bytes]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{path}, after line {lines_read()}: the compressed file is damaged or ends early ({error}); "
            f"download or copy it again"
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
