"""A network of your own: any ``torch.nn.Module``, through the extra ``rankloop[torch]``.

torch itself is imported when the first `TorchModel` is made, not before.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankloop import extras
from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.models.feature_names import rows_of
from rankloop.models.optimisers import SGD, Optimiser
from rankloop.models.storage import fingerprint, pack, unpack
from rankloop.types import Float32, Float64

if TYPE_CHECKING:
    import torch

MakeOptimiser = Callable[[Iterable[Any]], Any]


def _torch() -> Any:
    return extras.load("torch")


class TorchModel:
    """A ``torch.nn.Module`` as a model: it maps documents × features to one score per document.

    A value: the module is copied, and training returns a new model.

    Attributes:
        module: the network; it returns n or n × 1 scores for n × n_features float32.
        n_features: the number of features per document.
        scale: what the scores of the module are multiplied by.
    """

    kind: ClassVar[str] = "torch"

    def __init__(self, module: torch.nn.Module, n_features: int, *, scale: float = 1.0) -> None:
        torch = _torch()
        if not isinstance(module, torch.nn.Module):
            raise RankloopError(f"expected a torch.nn.Module, got {type(module).__name__}")
        if n_features < 1:
            raise RankloopError(f"a model needs at least one feature, got n_features={n_features}")
        self.module = copy.deepcopy(module).eval()
        self.n_features = n_features
        self.scale = scale

    @cached_property
    def fingerprint(self) -> str:
        """A name for exactly these parameters (and buffers): `rankloop.storage.tensor_file` defines it."""
        tensors = self._tensors()
        return fingerprint(self.kind, self._spec(tensors), tensors)

    def scores(self, features: Float32) -> Float64:
        """One score per document; higher is better. Layers such as dropout are switched off."""
        with _torch().no_grad():
            scores: Float64 = self._forward(features).cpu().numpy().astype(np.float64)
        return scores

    def learner(self, optimiser: Optimiser | MakeOptimiser) -> TorchLearner:
        """A learner with a copy of the module.

        Args:
            optimiser: `SGD` or `Adam`, or a function from the module's parameters to a
                ``torch.optim.Optimizer``. Configure it as for a loss to minimise; the learner flips the sign.
        """
        return TorchLearner(self.times(1.0), optimiser)

    def times(self, by: float) -> TorchModel:
        """The same model with all its scores multiplied by a number."""
        return TorchModel(self.module, self.n_features, scale=by * self.scale)

    def to_bytes(self) -> bytes:
        """The module's state, without pickle; its architecture is your code and is not stored."""
        tensors = self._tensors()
        return pack(self.kind, self._spec(tensors), tensors)

    @classmethod
    def from_bytes(cls, data: bytes, module: torch.nn.Module | None = None) -> TorchModel:
        """The model that `to_bytes` wrote, in a copy of ``module``, which must have the same architecture."""
        content = unpack(data, cls.kind)
        if module is None:
            raise ModelFileError(
                "the file holds the state of a torch module, not its architecture: "
                "read it with TorchModel.from_bytes(data, module), with a module like the stored one"
            )
        torch = _torch()
        model = cls(module, content.spec["n_features"], scale=content.spec.get("scale", 1.0))
        state = {
            name: torch.from_numpy(tensor).view(getattr(torch, content.spec["dtypes"][name]))
            for name, tensor in content.tensors.items()
        }
        try:
            model.module.load_state_dict(state)
        except RuntimeError as error:
            raise ModelFileError(f"the stored state does not fit the module given: {error}") from error
        if model.to_bytes() != data:
            raise ModelFileError("the stored state does not fit the module given: its types differ")
        return model

    def _forward(self, features: Float32) -> Any:
        rows = np.ascontiguousarray(rows_of(features, None), dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise DataError(
                f"this module takes documents × {self.n_features} features, got shape {np.shape(features)}"
            )
        scores = self.scale * self.module(_torch().tensor(rows))
        if tuple(scores.shape) not in ((len(rows),), (len(rows), 1)):
            raise RankloopError(
                f"the module must return one score per document, of shape {len(rows)} or {len(rows)} × 1; "
                f"it returned shape {tuple(scores.shape)}"
            )
        return scores.reshape(len(rows))

    def _tensors(self) -> dict[str, NDArray[Any]]:
        return {name: _array(tensor) for name, tensor in self.module.state_dict().items()}

    def _spec(self, tensors: dict[str, NDArray[Any]]) -> dict[str, Any]:
        state = self.module.state_dict()
        return {
            "n_features": self.n_features,
            # A module as it is has the fingerprint of its parameters alone.
            **({} if self.scale == 1.0 else {"scale": self.scale}),
            "dtypes": {name: str(state[name].dtype).removeprefix("torch.") for name in tensors},
            "shapes": {name: list(tensor.shape) for name, tensor in tensors.items()},
        }


class TorchLearner:
    """A torch module during training."""

    def __init__(self, model: TorchModel, optimiser: Optimiser | MakeOptimiser) -> None:
        self._live = model
        self._optimiser = _make_optimiser(optimiser, model.module)

    def scores(self, features: Float32) -> Float64:
        """One score per document, with the current parameters."""
        return self._live.scores(features)

    def update(self, features: Float32, score_gradient: Float64) -> None:
        """One ascent step on the sum over all given rows."""
        torch = _torch()
        self._live.module.train()
        try:
            scores = self._live._forward(features)
            # torch's optimisers descend, so they are given the negative gradient.
            descent = torch.as_tensor(-np.asarray(score_gradient, dtype=np.float64), dtype=scores.dtype)
            if descent.shape != scores.shape:
                raise DataError(
                    f"{len(scores)} documents need {len(scores)} score gradients, "
                    f"got shape {tuple(descent.shape)}"
                )
            self._optimiser.zero_grad()
            scores.backward(gradient=descent)
            self._optimiser.step()
        finally:
            self._live.module.eval()

    def model(self) -> TorchModel:
        """The current parameters as a model."""
        return self._live.times(1.0)


def _make_optimiser(optimiser: Optimiser | MakeOptimiser, module: torch.nn.Module) -> Any:
    optim = _torch().optim
    if isinstance(optimiser, SGD):
        return optim.SGD(module.parameters(), lr=optimiser.rate)
    if callable(optimiser):
        return optimiser(module.parameters())
    return optim.Adam(
        module.parameters(),
        lr=optimiser.rate,
        betas=(optimiser.beta1, optimiser.beta2),
        eps=optimiser.epsilon,
    )


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    """The tensor's values; types that numpy lacks, such as bfloat16, as integers with the same bits."""
    torch = _torch()
    tensor = tensor.detach().cpu().contiguous()
    try:
        array: NDArray[Any] = tensor.numpy().copy()
    except TypeError:
        same_size = {1: torch.uint8, 2: torch.int16}[tensor.element_size()]
        array = tensor.view(same_size).numpy().copy()
    return array
