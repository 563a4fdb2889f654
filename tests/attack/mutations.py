"""Damage to files: bytes, lines, fields and numbers."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable

# What files contain by mistake, or on purpose.
FRAGMENTS = (
    b"\0", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\r", b"\n", b"\r\n", b"\t", b" ", b",", b";", b":", b"=",
    b"#", b'"', b"'", b"[", b"]", b"{", b"}", b"\\", b"/", b"-", b"+", b".", b"_", b"e", b"\x1b[31m",
    "\u2028".encode(), "\x85".encode(), "\u202e".encode(), "١".encode(), b"<script>", b"[" * 2000,
    b"\\ud800", b"\\u0000",
)  # fmt: skip
NUMBERS = (
    b"nan", b"inf", b"-inf", b"-0", b"1e400", b"1e-400", b"4.9e-324", b"0x10", b"1_0", b"-1", b"0", b"1",
    b"2147483648", b"4294967296", b"9223372036854775808", b"18446744073709551616", b"1e9", b"0.5", b"true",
    b"null", b"9" * 400, b"",
)  # fmt: skip
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

Mutation = Callable[[bytes, random.Random], bytes]


def _place(data: bytes, chosen: random.Random) -> int:
    return chosen.randrange(len(data) + 1)


def flip_bit(data: bytes, chosen: random.Random) -> bytes:
    """Change one bit."""
    if not data:
        return b"\1"
    changed = bytearray(data)
    changed[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
    return bytes(changed)


def change_byte(data: bytes, chosen: random.Random) -> bytes:
    """Replace one byte by another."""
    place = _place(data, chosen)
    return data[:place] + bytes([chosen.randrange(256)]) + data[place + 1 :]


def insert_fragment(data: bytes, chosen: random.Random) -> bytes:
    """Insert something that has a meaning in some format."""
    place = _place(data, chosen)
    return data[:place] + chosen.choice(FRAGMENTS) + data[place:]


def cut_end(data: bytes, chosen: random.Random) -> bytes:
    """Lose the end of the file."""
    return data[: _place(data, chosen)]


def cut_out(data: bytes, chosen: random.Random) -> bytes:
    """Lose a part of the file."""
    start = _place(data, chosen)
    return data[:start] + data[start + chosen.choice([1, 2, 8, 64, 512]) :]


def repeat_part(data: bytes, chosen: random.Random) -> bytes:
    """Write a part of the file twice."""
    start = _place(data, chosen)
    part = data[start : start + chosen.choice([1, 2, 8, 64, 512])]
    place = _place(data, chosen)
    return data[:place] + part + data[place:]


def change_number(data: bytes, chosen: random.Random) -> bytes:
    """Replace a number."""
    found = [match.span() for match in NUMBER.finditer(data)]
    if not found:
        return flip_bit(data, chosen)
    start, end = chosen.choice(found)
    return data[:start] + chosen.choice(NUMBERS) + data[end:]


def move_lines(data: bytes, chosen: random.Random) -> bytes:
    """Lose a line, repeat one, or exchange two."""
    lines = data.split(b"\n")
    one, other = chosen.randrange(len(lines)), chosen.randrange(len(lines))
    kind = chosen.randrange(3)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(other, lines[one])
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def change_line_ends(data: bytes, chosen: random.Random) -> bytes:
    """End lines as other systems do."""
    return data.replace(b"\n", chosen.choice([b"\r\n", b"\r", b"\n\n", b" \n"]))


def compress(data: bytes, chosen: random.Random) -> bytes:
    """Compress the file, and perhaps damage or cut the result."""
    packed = gzip.compress(data, 1, mtime=0)
    return chosen.choice([packed, cut_end(packed, chosen), flip_bit(packed, chosen), packed + data])


BINARY: tuple[Mutation, ...] = (flip_bit, change_byte, cut_end, cut_out, repeat_part, insert_fragment)
TEXT: tuple[Mutation, ...] = (
    *BINARY,
    change_number,
    change_number,
    move_lines,
    insert_fragment,
    change_line_ends,
)
FILES: tuple[Mutation, ...] = (*TEXT, compress)


def mutate(data: bytes, chosen: random.Random, mutations: tuple[Mutation, ...] = TEXT) -> bytes:
    """One to three changes."""
    for _ in range(chosen.choice([1, 1, 1, 2, 3])):
        data = chosen.choice(mutations)(data, chosen)
    return data
