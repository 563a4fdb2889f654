"""Multi-layer perceptrons: features to scores through layers of sigmoid, tanh or rectified units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike

from rankloop.errors import DataError, ModelFileError, RankloopError
from rankloop.kernels.activations import ACTIVATIONS
from rankloop.kernels.network_layers import ROWS_TOGETHER, add_gradient, score_rows
from rankloop.models.feature_names import checked_names, rows_of
from rankloop.models.optimisers import Optimiser, OptimiserState, Parameters
from rankloop.models.storage import fingerprint, pack, unpack
from rankloop.names import unknown
from rankloop.ragged import for_segments
from rankloop.types import Float32, Float64, Int64, Scaling, as_numbers


@dataclass(frozen=True, eq=False)
class Network:
    """Fully connected layers from features to one score: the base of `MLP` and `Linear`.

    A value: training returns a new one.

    Attributes:
        n_features: the number of features per document.
        parameters: float32 or float64, flat and read-only: for each layer the weights (in × out, C order),
            then the biases.
        hidden: units of each hidden layer.
        activation: of the hidden units: ``sigmoid``, ``tanh`` or ``relu``.
        feature_names: the names of the features, in the order that it takes them, if they are known.
        scaling: how the features of its training data were scaled (`Dataset.scaling`), if that is known.
    """

    kind: ClassVar[str]
    n_features: int
    parameters: Parameters = field(repr=False)
    hidden: tuple[int, ...] = ()
    activation: str = "sigmoid"
    feature_names: tuple[str, ...] | None = field(default=None, kw_only=True, repr=False)
    scaling: Scaling | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        object.__setattr__(self, "feature_names", checked_names(self.feature_names, self.n_features))
        # A private copy, so that nobody else can change the value.
        parameters = np.array(self.parameters, order="C")
        parameters.flags.writeable = False
        object.__setattr__(self, "parameters", parameters)
        _check_shape(self.kind, self.n_features, self.hidden, self.activation)
        wanted = sum(n_in * n_out + n_out for n_in, n_out in pairwise(self.widths.tolist()))
        if parameters.shape != (wanted,) or parameters.dtype not in (np.float32, np.float64):
            raise RankloopError(
                f"{self.kind} with layers of {self.widths.tolist()} units has {wanted} parameters of type "
                f"float32 or float64, got {parameters.dtype} of shape {parameters.shape}"
            )
        if not np.isfinite(parameters).all():
            raise RankloopError(
                f"{self.kind}: a parameter is not finite; if it became so in training, lower the "
                "optimiser's rate"
            )

    @cached_property
    def widths(self) -> Int64:
        """Units of each layer: features, hidden …, 1."""
        return np.array([self.n_features, *self.hidden, 1], dtype=np.int64)

    @property
    def activation_code(self) -> int:
        """The activation's number, for the kernels."""
        return ACTIVATIONS.index(self.activation)

    @cached_property
    def fingerprint(self) -> str:
        """A name for exactly these parameters: `rankloop.storage.tensor_file` defines it."""
        return fingerprint(self.kind, self._spec, {"parameters": self.parameters})

    @property
    def _spec(self) -> dict[str, Any]:
        options = {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "parameters"}
        for name in ("feature_names", "scaling"):
            if options[name] is None:
                del options[name]
        return {**options, "dtype": self.parameters.dtype.name}

    def scores(self, features: Float32) -> Float64:
        """One score per document (a row of ``features``); higher is better."""
        return _scores(self, self.parameters, features)

    def gradient(self, features: Float32, score_gradient: Float64) -> Parameters:
        """``Σ_i g_i ∂s_i / ∂parameters``, flat like the parameters, for a gradient g on the scores."""
        rows, g = _checked(self, features, score_gradient)
        gradient = np.zeros_like(self.parameters)
        add_gradient(rows, self.widths, self.parameters, self.activation_code, g, gradient)
        return gradient

    def learner(self, optimiser: Optimiser) -> NetworkLearner:
        """A learner with a copy of the parameters; the model itself does not change."""
        return NetworkLearner(self, optimiser)

    def with_parameters(self, parameters: Parameters) -> Self:
        """The same layers with other parameters."""
        return replace(self, parameters=parameters)

    def times(self, by: float) -> Self:
        """The same model with all its scores multiplied by a number.

        >>> model = MLP.initialise(2, np.random.default_rng(0))
        >>> rows = np.eye(2, dtype=np.float32)
        >>> bool(np.all(model.times(0.5).scores(rows) == 0.5 * model.scores(rows)))
        True
        """
        outputs = int(self.widths[-2]) + 1  # the weights of one output unit, and its bias
        parameters = self.parameters.copy()
        parameters[-outputs:] *= by
        return self.with_parameters(parameters)

    def to_bytes(self) -> bytes:
        """The whole model, without pickle."""
        return pack(self.kind, self._spec, {"parameters": self.parameters})

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The model that `to_bytes` wrote; anything else is refused with `ModelFileError`."""
        content = unpack(data, cls.kind)
        spec = {name: value for name, value in content.spec.items() if name != "dtype"}
        try:
            return cls(parameters=content.tensors["parameters"], **spec)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelFileError(
                f"the file does not hold a {cls.kind} model that this version can read: {error}"
            ) from error


@dataclass(frozen=True, eq=False)
class MLP(Network):
    """A multi-layer perceptron; as in the paper, two hidden layers of 32 sigmoid units by default.

    ``a_0 = x``, ``a_l = h(a_{l−1} W_l + b_l)`` for each hidden layer, score ``= a_L W_{L+1} + b_{L+1}``.

    Example:
        >>> from rankloop.models.optimisers import SGD
        >>> model = MLP.initialise(3, np.random.default_rng(0), hidden=(4,))
        >>> features = np.eye(3, dtype=np.float32)
        >>> model.scores(features).shape
        (3,)
        >>> learner = model.learner(SGD(rate=0.1))
        >>> score_gradient = np.array([1.0, 0.0, -1.0])
        >>> learner.update(features, score_gradient)
        >>> bool(score_gradient @ (learner.scores(features) - model.scores(features)) > 0)
        True
    """

    kind: ClassVar[str] = "mlp"
    hidden: tuple[int, ...] = (32, 32)

    @classmethod
    def initialise(
        cls,
        n_features: int,
        rng: np.random.Generator,
        *,
        hidden: tuple[int, ...] = (32, 32),
        activation: str = "sigmoid",
        dtype: DTypeLike = np.float32,
    ) -> MLP:
        """An untrained network: weights from `glorot`, biases zero."""
        _check_shape(cls.kind, n_features, hidden, activation)
        return cls(n_features, glorot([n_features, *hidden, 1], rng, dtype), hidden, activation)


def mean_network(networks: Sequence[Network]) -> Network:
    """Compute one network whose scores are the mean of the scores of several with the same layers.

    Their hidden units stand side by side: weights between those of different networks are 0. Five networks
    of 32–32 units are one of 160–160.

    Example:
        >>> networks = [MLP.initialise(2, np.random.default_rng(seed), hidden=(3,)) for seed in (0, 1)]
        >>> rows = np.eye(2, dtype=np.float32)
        >>> mean = mean_network(networks)
        >>> mean.hidden
        (6,)
        >>> bool(np.allclose(mean.scores(rows), sum(each.scores(rows) for each in networks) / 2))
        True
    """
    first, parts = networks[0], []
    shapes = list(pairwise(first.widths.tolist()))
    layers = [_layers(network) for network in networks]
    for number, (n_in, n_out) in enumerate(shapes):
        weights, biases = zip(*(each[number] for each in layers), strict=True)
        if number == len(shapes) - 1:
            joined = np.concatenate(weights) if number else np.sum(weights, axis=0)
            parts += [joined / len(networks), np.mean(biases, axis=0)]
        elif number == 0:
            parts += [np.hstack(weights), np.concatenate(biases)]
        else:
            block = np.zeros((len(networks) * n_in, len(networks) * n_out))
            for index, own in enumerate(weights):
                block[index * n_in : (index + 1) * n_in, index * n_out : (index + 1) * n_out] = own
            parts += [block, np.concatenate(biases)]
    flat = np.concatenate([part.ravel() for part in parts])
    dtype: DTypeLike = first.parameters.dtype
    parameters: Parameters = flat.astype(dtype)
    if not first.hidden:
        return first.with_parameters(parameters)
    wide = tuple(len(networks) * width for width in first.hidden)
    return replace(first, parameters=parameters, hidden=wide)


def _layers(network: Network) -> list[tuple[Parameters, Parameters]]:
    """Weights, in × out, and biases of each layer."""
    found, place = [], 0
    for n_in, n_out in pairwise(network.widths.tolist()):
        weights = network.parameters[place : place + n_in * n_out].reshape(n_in, n_out)
        place += n_in * n_out
        found.append((weights, network.parameters[place : place + n_out]))
        place += n_out
    return found


class NetworkLearner:
    """A network during training.

    Attributes:
        start: the model that training started from; it does not change.
        optimiser: how a gradient becomes a step.
        parameters: the current ones; training kernels change them in place.
        state: the optimiser's state; also changed in place.
    """

    def __init__(self, model: Network, optimiser: Optimiser) -> None:
        self.start = model
        self.optimiser = optimiser
        self.parameters: Parameters = model.parameters.copy()
        self.state: OptimiserState = optimiser.state(self.parameters)
        self._gradient = np.empty_like(self.parameters)

    def scores(self, features: Float32) -> Float64:
        """One score per document, with the current parameters."""
        return _scores(self.start, self.parameters, features)

    def update(self, features: Float32, score_gradient: Float64) -> None:
        """One ascent step on the sum over all given rows, which may belong to one query or to many."""
        rows, g = _checked(self.start, features, score_gradient)
        self._gradient[:] = 0
        code = self.start.activation_code
        add_gradient(rows, self.start.widths, self.parameters, code, g, self._gradient)
        self.optimiser.step(self.parameters, self._gradient, self.state)

    def model(self) -> Network:
        """The current parameters as a model."""
        return self.start.with_parameters(self.parameters)


def glorot(widths: list[int], rng: np.random.Generator, dtype: DTypeLike = np.float32) -> Parameters:
    """Flat parameters of layers of these widths: ``W ~ U(−r, r)``, ``r = √(6 / (in + out))``, and ``b = 0``.

    Drawn in float64 for either type, so that float32 and float64 networks with the same seed start from the
    same weights.

    Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.
    """
    parts = []
    for n_in, n_out in pairwise(widths):
        reach = math.sqrt(6.0 / (n_in + n_out))
        parts += [rng.uniform(-reach, reach, n_in * n_out), np.zeros(n_out)]
    parameters: Parameters = np.concatenate(parts).astype(dtype)
    return parameters


def _check_shape(kind: str, n_features: int, hidden: tuple[int, ...], activation: str) -> None:
    if n_features < 1 or any(width < 1 for width in hidden):
        raise RankloopError(
            f"{kind}: every layer needs at least one unit, "
            f"got {n_features} features and hidden={tuple(hidden)}"
        )
    if activation not in ACTIVATIONS:
        raise unknown("activation", activation, ACTIVATIONS)


def _rows(model: Network, features: Float32) -> Float32:
    rows = np.ascontiguousarray(rows_of(features, model.feature_names), dtype=np.float32)
    if rows.ndim != 2 or rows.shape[1] != model.n_features:
        raise DataError(
            f"this {model.kind} takes documents × {model.n_features} features, got shape {np.shape(features)}"
        )
    return rows


def _checked(model: Network, features: Float32, score_gradient: Float64) -> tuple[Float32, Float64]:
    rows = _rows(model, features)
    g = as_numbers(score_gradient, "score gradients")
    if g.shape != (len(rows),):
        raise DataError(f"{len(rows)} documents need {len(rows)} score gradients, got shape {g.shape}")
    return rows, g


def _scores(model: Network, parameters: Parameters, features: Float32) -> Float64:
    rows = _rows(model, features)
    scores = np.empty(len(rows))
    # Blocks do not depend on the number of threads.
    offsets = np.append(np.arange(0, len(rows), ROWS_TOGETHER), len(rows))
    for_segments(score_rows, offsets, rows, model.widths, parameters, model.activation_code, scores)
    return scores
