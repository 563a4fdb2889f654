"""Open text files that may be compressed, with errors that name the file and the line."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from rankloop.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZIP_MAGIC = b"PK\x03\x04"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
LONGEST_MAGIC = 6
# What spreadsheets are packed with.
SPREADSHEET_PART = "[Content_Types].xml"


@contextmanager
def open_text(path: Path, lines_read: Callable[[], int]) -> Iterator[IO[bytes]]:
    """Open a plain file, or one that is compressed with gzip, bzip2, xz, zstd or zip; the content decides.

    Text in UTF-16, as spreadsheets export it, is read as UTF-8.

    Args:
        path: the file.
        lines_read: returns the number of lines read so far, for error messages.

    Raises:
        DataError: the file cannot be read, or it is compressed and damaged.
    """
    try:
        with ExitStack() as stack:
            file = _decompressed(stack.enter_context(path.open("rb")), path, stack)
            yield _as_utf8(file, path)
    except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, gzip.BadGzipFile) as error:
        raise _damaged(path, lines_read(), error) from error
    except OSError as error:
        # An error of the file system has a number; one of a decompressor does not.
        if error.errno is None:
            raise _damaged(path, lines_read(), error) from error
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _damaged(path: Path, lines: int, error: Exception) -> DataError:
    return DataError(
        f"{path}, after line {lines}: the compressed file is damaged or ends early ({error}); "
        f"download or copy it again"
    )


def _decompressed(raw: IO[bytes], path: Path, stack: ExitStack) -> Any:
    begin = raw.read(LONGEST_MAGIC)
    raw.seek(0)
    if begin.startswith(GZIP_MAGIC):
        return stack.enter_context(gzip.open(raw))
    if begin.startswith(b"BZh"):
        return stack.enter_context(bz2.open(raw))
    if begin.startswith(b"\xfd7zXZ"):
        return stack.enter_context(lzma.open(raw))
    if begin.startswith(ZSTD_MAGIC):
        return stack.enter_context(_zstd(raw, path))
    if begin.startswith(ZIP_MAGIC):
        archive = stack.enter_context(zipfile.ZipFile(raw))
        return stack.enter_context(archive.open(_only_member(archive, path)))
    return raw


def _zstd(raw: IO[bytes], path: Path) -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise DataError(
            f"{path}: this is compressed with zstd, which needs pyarrow: pip install 'rankloop[logs]', or "
            f"decompress it"
        ) from error
    return io.BufferedReader(pa.input_stream(raw, compression="zstd"))


def _only_member(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    names = archive.namelist()
    if SPREADSHEET_PART in names:
        raise DataError(f"{path}: this is a spreadsheet: export the sheet as CSV")
    files = [
        info
        for info in archive.infolist()
        if not info.is_dir() and not info.filename.startswith(("__MACOSX/", "."))
    ]
    if len(files) != 1:
        raise DataError(
            f"{path}: this is a zip archive with {len(files)} files; one is expected: unpack it, and give "
            f"the files or their folder"
        )
    if files[0].flag_bits & 1:
        raise DataError(f"{path}: this zip archive is encrypted: unpack it")
    return files[0]


def _as_utf8(file: Any, path: Path) -> IO[bytes]:
    begin = file.peek(2)[:2] if hasattr(file, "peek") else file.read(2)
    if not hasattr(file, "peek"):
        file.seek(0)
    if begin not in UTF16_MARKS:
        return file  # type: ignore[no-any-return]
    # Such files come from spreadsheets, which are small enough to be read at once.
    try:
        return io.BytesIO(file.read().decode("utf-16").encode())
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the text begins as UTF-16, but is not ({error.reason})") from error
