"""Scores by which a fit is judged on its own log, and their file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankloop.errors import ModelFileError
from rankloop.logs.schema import PARQUET_ERRORS
from rankloop.storage.fingerprints import fingerprint
from rankloop.types import Float64, Str

# The key of the table of scores under which the number of folds stands.
FOLDS_KEY = b"rankloop.folds"


@dataclass(frozen=True, eq=False)
class JudgedScores:
    """Scores of documents by which a fit is judged on its own log; all arrays have the same length.

    A log is divided into folds of queries. The documents of a fold are scored by a model that was trained and
    stopped on others, in the same way as the model that is kept, which was trained on all.

    Attributes:
        query_ids: text.
        doc_ids: text.
        scores: float64.
        folds: the number of folds.
    """

    query_ids: Str
    doc_ids: Str
    scores: Float64
    folds: int

    def to_bytes(self) -> bytes:
        """The table as Parquet."""
        table = pa.table(
            {
                "query_id": pa.array(self.query_ids.tolist(), pa.string()),
                "doc_id": pa.array(self.doc_ids.tolist(), pa.string()),
                "score": self.scores,
            }
        )
        buffer = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata({FOLDS_KEY: str(self.folds)}), buffer)
        return buffer.getvalue().to_pybytes()  # type: ignore[no-any-return]

    @classmethod
    def read(cls, path: Path, known: str) -> Self:
        """Read the table that `to_bytes` wrote; refuse another one than that of the known fingerprint."""
        try:
            data = path.read_bytes()
            if fingerprint(data) != known:
                raise ModelFileError(
                    f"{path}: these are not the scores that were stored with the fit: copy the folder again"
                )
            table = pq.read_table(pa.BufferReader(data))
            queries, documents = (
                np.array(table[name].to_pylist(), np.str_) for name in ("query_id", "doc_id")
            )
            scores, count = table["score"].to_numpy().astype(np.float64), table.schema.metadata[FOLDS_KEY]
            return cls(queries, documents, scores, int(count))
        except (*PARQUET_ERRORS, KeyError, TypeError) as error:
            raise ModelFileError(
                f"{path}: the scores by which the fit is judged are damaged: {error}"
            ) from error
