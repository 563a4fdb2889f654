"""What is to be ranked: a query, its candidates and their features, under a name derived from the content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from rankloop.types import Float32

_DOCUMENTS = msgspec.msgpack.Encoder()
_READ_DOCUMENTS = msgspec.msgpack.Decoder(list[str])
ID_BYTES = 16


@dataclass(frozen=True, eq=False)
class RankingProblem:
    """A query with its candidates.

    Attributes:
        query: the text of the query.
        documents: ids of the candidates.
        feature_names: names of the features.
        features: float32, candidates × features; NaN where a value is missing.

    Example:
        >>> problem = RankingProblem("cat", ("a", "b"), ("price",), np.array([[1.0], [2.0]], np.float32))
        >>> RankingProblem.from_row(problem.to_row()).id == problem.id
        True
    """

    query: str
    documents: tuple[str, ...]
    feature_names: tuple[str, ...]
    features: Float32

    @cached_property
    def packed_documents(self) -> bytes:
        """The ids of the candidates as bytes."""
        return _DOCUMENTS.encode(self.documents)

    @cached_property
    def id(self) -> bytes:
        """The name of this content."""
        digest = hashlib.blake2b(digest_size=ID_BYTES)
        for part in (
            self.query.encode(),
            self.packed_documents,
            _names(self.feature_names).encode(),
            np.ascontiguousarray(self.features).tobytes(),
        ):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
        return digest.digest()

    def sorted(self) -> RankingProblem:
        """The same problem with its candidates ordered by their ids."""
        order = sorted(range(len(self.documents)), key=self.documents.__getitem__)
        documents = tuple([self.documents[place] for place in order])
        return RankingProblem(self.query, documents, self.feature_names, self.features[order])

    def to_row(self) -> dict[str, Any]:
        """The values of its columns."""
        return {
            "id": self.id,
            "query": self.query,
            "documents": self.packed_documents,
            "feature_names": _names(self.feature_names),
            "features": np.ascontiguousarray(self.features).tobytes(),
        }

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> RankingProblem:
        """The problem that `to_row` stored."""
        documents = tuple(_READ_DOCUMENTS.decode(row["documents"]))
        names = tuple(json.loads(row["feature_names"]))
        features = np.frombuffer(row["features"], np.float32).reshape(len(documents), len(names))
        return cls(row["query"], documents, names, features)


def _names(names: tuple[str, ...]) -> str:
    return json.dumps(names, ensure_ascii=False)
