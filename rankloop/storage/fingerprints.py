"""Names of content: the same content has the same name on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

FINGERPRINT_DIGITS = 16


def canonical_json(value: object) -> str:
    r"""The one spelling of a JSON value: sorted keys, no spaces, ASCII only, and so no line break.

    >>> canonical_json({"b": [1, 2], "a": "é"})
    '{"a":"\\u00e9","b":[1,2]}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(*parts: bytes | memoryview) -> str:
    """A short name for these bytes: the first digits of their SHA-256.

    >>> fingerprint(b"abc") == fingerprint(b"a", b"bc")
    True
    >>> fingerprint(b"abc")
    'ba7816bf8f01cfea'
    """
    return fingerprint_parts(parts)


def fingerprint_parts(parts: Iterable[bytes | memoryview]) -> str:
    """The same of bytes that are not held in memory together."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:FINGERPRINT_DIGITS]
