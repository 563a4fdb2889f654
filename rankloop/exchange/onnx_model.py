"""An ONNX file as a model: onnxruntime computes its scores."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop import extras
from rankloop.errors import DataError, ModelFileError, one_line
from rankloop.exchange.onnx_graph import FEATURE_NAMES
from rankloop.models.feature_names import checked_names
from rankloop.ragged import threads
from rankloop.storage.fingerprints import fingerprint
from rankloop.types import Float32, Float64

# onnxruntime's level of errors: it prints warnings otherwise.
ERRORS_ONLY = 3
# Where an output of this name exists, it is the score.
SCORES = ("score", "scores", "variable", "output")


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A graph from documents × features (float32 or float64) to one score per document.

    Attributes:
        data: the ONNX file.
        feature_names: the names of the features; those in the file's metadata (``feature_names``, a JSON
            list) if None.
    """

    kind: ClassVar[str] = "onnx"
    takes_missing: ClassVar[bool] = True
    data: bytes = field(repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.feature_names is None:
            stored = self.session.get_modelmeta().custom_metadata_map.get(FEATURE_NAMES)
            names = None if stored is None else tuple(json.loads(stored))
            object.__setattr__(self, "feature_names", names)
        object.__setattr__(self, "feature_names", checked_names(self.feature_names, self.n_features))

    @cached_property
    def session(self) -> Any:
        """Onnxruntime's own object for this graph."""
        runtime = extras.load("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = threads()
        options.log_severity_level = ERRORS_ONLY
        try:
            return runtime.InferenceSession(self.data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's errors have no common class of their own
            raise ModelFileError(f"onnxruntime cannot read this model: {one_line(error)}") from error

    @cached_property
    def _input(self) -> Any:
        inputs = self.session.get_inputs()
        shape = list(inputs[0].shape) if len(inputs) == 1 else []
        if len(shape) != 2 or not isinstance(shape[1], int):
            shapes = ", ".join(f"{put.name}: {put.shape}" for put in inputs)
            raise ModelFileError(
                f"the ONNX model must take one input, documents × features with a fixed number of features; "
                f"it takes {shapes}"
            )
        return inputs[0]

    @cached_property
    def _output(self) -> str:
        names = [put.name for put in self.session.get_outputs()]
        found = next((name for name in SCORES if name in names), None)
        if found is None and len(names) > 1:
            raise ModelFileError(
                f"the ONNX model has the outputs {', '.join(names)}: name the one that is the score 'score'"
            )
        return found or names[0]

    @property
    def n_features(self) -> int:
        """The number of features per document."""
        return int(self._input.shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """The first digits of the SHA-256 of the file."""
        return fingerprint(self.data)

    def scores(self, features: Float32) -> Float64:
        """One score per document (a row of ``features``); higher is better."""
        kind = np.float64 if self._input.type == "tensor(double)" else np.float32
        rows: NDArray[Any] = np.ascontiguousarray(features, dtype=kind)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(
                f"this ONNX model takes documents × {self.n_features} features, got shape {rows.shape}"
            )
        fixed = self._input.shape[0]
        size = fixed if isinstance(fixed, int) else max(len(rows), 1)
        parts = [self._run(rows[start : start + size], size) for start in range(0, len(rows), size)]
        return np.concatenate([np.zeros(0), *parts])

    def _run(self, rows: NDArray[Any], size: int) -> Float64:
        """Scores of at most ``size`` documents; a graph for a fixed number of them is given that many."""
        given = np.concatenate([rows, np.repeat(rows[-1:], size - len(rows), axis=0)])
        (scores,) = self.session.run([self._output], {self._input.name: given})
        scores = np.asarray(scores, np.float64)
        if scores.size != size:
            raise ModelFileError(
                f"the ONNX model must give one score per document, but gives {scores.shape} for {size}"
            )
        return scores.reshape(size)[: len(rows)]

    def to_bytes(self) -> bytes:
        """The ONNX file."""
        return self.data

    @classmethod
    def from_bytes(cls, data: bytes) -> OnnxModel:
        """The model of an ONNX file; anything else is refused with `ModelFileError`."""
        model = cls(data)
        _ = model._output
        return model
