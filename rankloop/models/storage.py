"""Models as bytes: one container for every kind, checked when it is read, and no pickle anywhere.

The container is a tensor file (`rankloop.storage.tensor_file`), which also defines the fingerprint. The spec
of a model fixes the shapes of its tensors, so different models never hash the same bytes. A LightGBM model is
LightGBM's own text, which starts with "tree".
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from rankloop.errors import ModelFileError
from rankloop.storage.tensor_file import Content, TensorFormat
from rankloop.types import Model

FORMAT = TensorFormat(
    name="rankloop-model",
    version="1",
    noun="model file",
    error=ModelFileError,
    foreign=(
        "this is not a model file of rankloop (neither its safetensors container nor LightGBM's text): "
        "give bytes that a model's to_bytes() wrote"
    ),
    renewal="store the model again with this version",
)
LIGHTGBM_START = b"tree"

# kind → module and class; the class has a classmethod ``from_bytes(data)``. Imported only when needed.
READERS = {
    "mlp": ("rankloop.models.mlp", "MLP"),
    "linear": ("rankloop.models.linear", "Linear"),
    "lightgbm": ("rankloop.models.lightgbm", "LightGBMModel"),
    "trees": ("rankloop.models.trees", "TreeEnsemble"),
    "blend": ("rankloop.models.blend", "Blend"),
    "torch": ("rankloop.models.torch", "TorchModel"),
}


def fingerprint(kind: str, spec: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    """The permanent name of a model: a hash of its kind, spec and parameters.

    >>> import numpy as np
    >>> fingerprint("linear", {"n_features": 1}, {"parameters": np.zeros(1)})
    '91788220bbb2b639'
    """
    return FORMAT.fingerprint(kind, spec, tensors)


def pack(kind: str, spec: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """The container of this content: the same bytes for the same content, on every machine."""
    return FORMAT.to_bytes(kind, spec, tensors)


def unpack(data: bytes, kind: str | None = None) -> Content:
    """The content of a container of this kind, or of any; `ModelFileError` if it is something else."""
    content = FORMAT.from_bytes(data)
    if kind is not None and content.kind != kind:
        raise ModelFileError(f"expected a file of kind {kind!r}, but this one holds {content.kind!r}")
    return content


def model_to_bytes(model: Model) -> bytes:
    """The whole model, without pickle; `model_from_bytes` reads it back."""
    return model.to_bytes()


def model_from_bytes(data: bytes) -> Model:
    """The model that these bytes hold, whichever kind it is.

    Raises:
        ModelFileError: the bytes are damaged, hold something else, or come from a newer version.

    Example:
        >>> import numpy as np
        >>> from rankloop.models.linear import Linear
        >>> model = Linear.initialise(3, np.random.default_rng(0))
        >>> model_from_bytes(model_to_bytes(model)).fingerprint == model.fingerprint
        True
    """
    kind = "lightgbm" if data.startswith(LIGHTGBM_START) else unpack(data).kind
    if kind not in READERS:
        raise ModelFileError(
            f"the file holds {kind!r}, which is not a kind of model; the kinds are: {', '.join(READERS)}"
        )
    module, name = READERS[kind]
    model: Model = getattr(importlib.import_module(module), name).from_bytes(data)
    return model
