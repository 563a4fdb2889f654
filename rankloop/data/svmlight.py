"""Read the SVMlight text of ranking collections, one document per line.

    <label> qid:<query> <index>:<value> <index>:<value> … # <comment>

scikit-learn parses the numbers. A first, light pass over the lines collects what it does not keep (query ids,
comments, line numbers) and determines the size of the matrix, so that the second pass can fill it block by
block.
"""

from __future__ import annotations

import io
import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankloop.errors import DataError
from rankloop.ragged import offsets_of
from rankloop.text_file import open_text
from rankloop.types import Float32, Int64, Split

# Bytes of text to parse at a time. scikit-learn's arrays for a block take about three times its size.
BLOCK_BYTES = 16 * 2**20
# The feature matrix is dense. A higher index is a mistake, or a bag of words that needs a sparse matrix.
MAX_FEATURES = 65_536
# The last line is reported as truncated only if at least this many other lines agree with each other.
MIN_COMPLETE_LINES = 2
DOC_ID = re.compile(rb"docid\s*=\s*(\S+)")
EXPECTED = "expected '<label> qid:<query> <index>:<value> …'"


def read_svmlight(path: Path, sizes_path: Path | None = None) -> Split:
    """Read one file, plain or gzipped. No line is dropped; errors name the line.

    Args:
        path: the file.
        sizes_path: the file with the number of documents of each query, one per line, for files without a
            ``qid`` (LightGBM's ``.query``). If the file has a ``qid`` as well, the two must agree.
    """
    outline = _outline(path, grouped=sizes_path is not None)
    if sizes_path is None:
        offsets = np.array([*outline.starts, len(outline.labels)], dtype=np.int64)
    else:
        offsets = offsets_of(_sizes(sizes_path, path, outline))
    query_ids = [_text(qid) for qid in outline.first_line_of] or np.arange(len(offsets) - 1)
    return Split(
        features=_features(path, outline),
        labels=np.array(outline.labels, dtype=np.float64),
        offsets=offsets,
        query_ids=np.asarray(query_ids).astype(np.str_),
        doc_ids=np.array(outline.doc_ids, dtype=np.str_) if any(outline.doc_ids) else None,
    )


@dataclass
class _Outline:
    """The content of a file except for its features."""

    has_qid: bool = True
    labels: array[float] = field(default_factory=lambda: array("d"))
    doc_ids: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    first_line_of: dict[bytes, int] = field(default_factory=dict)
    rows_of_block: list[int] = field(default_factory=list)
    width: int = 0


class _Ending(NamedTuple):
    """The end of a line; in a dense or commented file all complete lines have the same."""

    last_index: int
    comment_fields: int


def _outline(path: Path, *, grouped: bool) -> _Outline:
    outline = _Outline()
    endings: set[_Ending] = set()
    ending, query, number, document_line = None, b"", 0, 0
    for first_line, block in _blocks(path):
        rows_before = len(outline.labels)
        for number, line in enumerate(block.split(b"\n"), first_line):
            body, _, comment = line.partition(b"#")
            words = body.split(None, 2)
            if not words:
                continue
            if ending is None:
                outline.has_qid = not grouped or _has_qid(words)
            else:
                endings.add(ending)
            label, last_index = _quick_check(words, body, outline.has_qid)
            if last_index < 0:
                _explain_block(path, first_line, block, outline.has_qid)
            ending = _Ending(last_index, 1 + comment.count(b"=") if comment else 0)
            if b"\0" in line:
                raise DataError(
                    f"{path}, line {number}: there is a NUL byte; expected text: the file is damaged, or in "
                    f"another encoding such as UTF-16"
                )
            if outline.has_qid and words[1] != query:
                query = words[1]
                _begin_query(path, number, query.removeprefix(b"qid:"), outline)
            outline.labels.append(label)
            outline.doc_ids.append(_doc_id(comment))
            outline.width = max(outline.width, last_index)
            document_line = number
        outline.rows_of_block.append(len(outline.labels) - rows_before)
    if ending is None:
        raise DataError(f"{path}: the file has no documents; {EXPECTED}, one line per document")
    # If the last document ends with a newline, an empty line follows it.
    if document_line == number and len(outline.labels) > MIN_COMPLETE_LINES:
        _reject_truncated_line(path, number, endings, ending)
    return outline


def _quick_check(words: list[bytes], body: bytes, has_qid: bool) -> tuple[float, int]:
    """Return the label and the last feature index; the index is -1 if the line has an error."""
    try:
        label = float(words[0])
        last = body.rsplit(None, 1)[-1] if len(words) > 1 + has_qid else b"0"
        last_index = int(last.partition(b":")[0])
    except ValueError:
        return 0.0, -1
    fine = (
        0 <= label < math.inf
        and 0 <= last_index <= MAX_FEATURES
        and (_has_qid(words) if has_qid else not words[1:] or not words[1].startswith(b"qid"))
        # Python reads 1_000 as a number. Underscores are only allowed in query ids.
        and body.count(b"_") == (words[1].count(b"_") if has_qid else 0)
    )
    return label, last_index if fine else -1


def _has_qid(words: list[bytes]) -> bool:
    return len(words) > 1 and words[1].startswith(b"qid:") and len(words[1]) > len(b"qid:")


def _begin_query(path: Path, number: int, qid: bytes, outline: _Outline) -> None:
    if qid in outline.first_line_of:
        raise DataError(
            f"{path}, line {number}: query {_text(qid)!r} appears again after another query (its first line "
            f"is {outline.first_line_of[qid]}); expected the lines of a query to be contiguous: sort the "
            f"file by qid"
        )
    outline.first_line_of[qid] = number
    outline.starts.append(len(outline.labels))


def _reject_truncated_line(path: Path, number: int, endings: set[_Ending], last: _Ending) -> None:
    where = f"{path}, line {number}: the file ends without a newline, and its last line looks truncated: it"
    indices = {ending.last_index for ending in endings}
    if len(indices) == 1 and last.last_index < min(indices):
        raise DataError(
            f"{where} ends with feature {last.last_index}, expected feature {min(indices)} as on every other "
            f"line; download the file again, or end the line with a newline if it is complete"
        )
    fields = {ending.comment_fields for ending in endings}
    if len(fields) == 1 and last.comment_fields < min(fields):
        raise DataError(
            f"{where} lacks the comment, or the end of the comment, that every other line has; "
            f"download the file again, or end the line with a newline if it is complete"
        )


def explain(line: bytes, has_qid: bool) -> str | None:
    """Explain what is wrong with a line and what was expected; None if the line is valid."""
    words = line.partition(b"#")[0].split()
    if not words:
        return None
    label = _number(words[0])
    if label is None or not math.isfinite(label):
        return f"the label {_text(words[0])!r} is not a number; {EXPECTED}"
    if label < 0:
        return f"the label {_text(words[0])} is negative; expected a grade of 0 or more"
    if has_qid and not _has_qid(words):
        return f"there is no qid; {EXPECTED}, or a file of query sizes next to it, named <file>.query"
    if not has_qid and words[1:] and words[1].startswith(b"qid"):
        return "there is a qid, but none on the first line; expected one on every line or on none"
    previous = 0
    for word in words[2 if has_qid else 1 :]:
        index, colon, value = word.partition(b":")
        if not (colon and index.isdigit()):
            return f"{_text(word)!r} is not a feature; expected <index>:<value>"
        # The length is checked first because Python rejects integers with thousands of digits.
        if len(index) > len(str(MAX_FEATURES)) or not 1 <= int(index) <= MAX_FEATURES:
            return f"feature index {_text(index)[:20]}; expected 1 to {MAX_FEATURES}: indices count from 1"
        if int(index) <= previous:
            return f"feature index {int(index)} after {previous}; expected each index once, in rising order"
        number = _number(value)
        if number is None or not math.isfinite(number):
            return f"feature {int(index)} is {_text(value)!r}; expected a finite number"
        previous = int(index)
    return None


def _explain_block(path: Path, first_line: int, block: bytes, has_qid: bool) -> None:
    """Raise an error for the first invalid line of a block, if there is one."""
    lines = block.split(b"\n")
    for number, line in enumerate(lines, first_line):
        reason = explain(line, has_qid)
        if reason is not None:
            # A final newline is followed by one more, empty line.
            truncated = number - first_line == len(lines) - 1
            hint = " (the file ends here without a newline: it may be truncated)" if truncated else ""
            raise DataError(f"{path}, line {number}: {reason}{hint}")


def _features(path: Path, outline: _Outline) -> Float32:
    if not outline.width:
        raise DataError(f"{path}: no line has a feature; {EXPECTED}")
    features = np.empty((len(outline.labels), outline.width), np.float32)
    row = 0
    for (first_line, block), rows in zip(_blocks(path), outline.rows_of_block, strict=True):
        if rows:
            _parse_into(features[row : row + rows], block, path, first_line, outline.has_qid)
        row += rows
    return features


def _parse_into(out: Float32, block: bytes, path: Path, first_line: int, has_qid: bool) -> None:
    try:
        matrix = _parse(block, out.shape[1], np.float32)
        if len(matrix.indptr) - 1 == len(out) and np.isfinite(matrix.data).all():
            matrix.toarray(out=out)
            return
    except (ValueError, OverflowError):
        pass  # the cause is found below
    _explain_block(path, first_line, block, has_qid)
    # Values outside the range of float32 are clipped to it, such as the 1.79769313486e+308 that marks missing
    # values in Istella.
    try:
        matrix = _parse(block, out.shape[1], np.float64)
        limit = np.finfo(np.float32).max
        np.clip(matrix.data, -limit, limit, out=matrix.data)
        out[:] = matrix.toarray()
    except ValueError as error:
        raise DataError(f"{path}, from line {first_line}: scikit-learn cannot parse it ({error})") from error


def _parse(block: bytes, width: int, dtype: type) -> Any:
    # Imported here because scikit-learn takes seconds to import, and cached files do not need it.
    from sklearn.datasets import load_svmlight_file

    matrix, _ = load_svmlight_file(io.BytesIO(block), n_features=width, dtype=dtype, zero_based=False)
    return matrix


def _blocks(path: Path) -> Iterator[tuple[int, bytes]]:
    """Read blocks of whole lines, each with the number of its first line."""
    first_line = 1
    with open_text(path, lambda: first_line - 1) as file:
        while block := file.read(BLOCK_BYTES) + file.readline():
            yield first_line, block
            first_line += block.count(b"\n")


def _sizes(sizes_path: Path, path: Path, outline: _Outline) -> Int64:
    n_documents = len(outline.labels)
    sizes = []
    for first_line, block in _blocks(sizes_path):
        for number, line in enumerate(block.split(b"\n"), first_line):
            word = line.strip()
            if word and not (word.isdigit() and int(word) > 0):
                what = "an empty query" if word.isdigit() else f"{_text(word)!r} is not a number of documents"
                raise DataError(f"{sizes_path}, line {number}: {what}; expected a whole number of at least 1")
            if word:
                sizes.append(int(word))
    if sum(sizes) != n_documents:
        raise DataError(
            f"{sizes_path}: the {len(sizes)} query sizes add up to {sum(sizes)}, "
            f"expected {n_documents}, the number of documents in {path}"
        )
    if outline.has_qid and sizes != np.diff([*outline.starts, n_documents]).tolist():
        raise DataError(f"{sizes_path}: the query sizes disagree with the qids in {path}")
    return np.array(sizes, dtype=np.int64)


def _doc_id(comment: bytes) -> str:
    """Find the document id: ``docid = X`` as in LETOR, otherwise the comment's first word as in RankLib."""
    named = DOC_ID.search(comment)
    if named:
        return _text(named[1])
    words = comment.split(None, 1)
    return _text(words[0]) if words else ""


def _number(word: bytes) -> float | None:
    try:
        return None if b"_" in word else float(word)
    except ValueError:
        return None


def _text(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")
